"""The whole network. Module names equal the tensor names of a Hugging Face checkpoint."""

import torch
from torch import nn

from ocria.model.attention import GatedAttention, RMSNorm
from ocria.model.config import ModelConfig
from ocria.model.deltanet import GatedDeltaNet
from ocria.model.state import DecoderState
from ocria.model.text import MLP, TextDecoder
from ocria.model.vision import Grids, PatchEmbed, VisionEncoder
from ocria.model.window import Window
from ocria.ops.linear import Linear, Packed, linear, pack

PACK_BYTES = 512 << 20
"""Weights up to this size are packed by default: a copy of a small model costs nothing, of a large one too much."""


class _Body(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        if config.vision is not None:
            self.visual = VisionEncoder(config.vision)
        self.language_model = TextDecoder(config.text)


class Qwen35(nn.Module):
    """Vision encoder, text decoder and head. Build it under `torch.device("meta")` and fill it from a file."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.model = _Body(config)
        self._packed_head: Packed | None = None
        self._prepared = False
        if not config.tie_word_embeddings:
            self.lm_head = Linear(config.text.hidden_size, config.text.vocab_size, bias=False)

    @property
    def device(self) -> torch.device:
        return self.model.language_model.embed_tokens.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of activations and KV rows; `A_log` and the gated norm are fp32 beside it."""
        return self.model.language_model.embed_tokens.weight.dtype

    def prepare(self, pack_bytes: int = PACK_BYTES) -> None:
        """Make ready for inference: join projections that share an input, keep what follows from weights alone, and
        pack the weights for this CPU unless the copy would take more than `pack_bytes`.

        Names and values of the weights stay; from now on they must not change, and linear layers give no gradient.
        Once is enough: what the first call made is kept, as compiled code may use it.
        """
        if self._prepared:
            return
        self._prepared = True
        packed = sum(p.numel() * p.element_size() for p in self.parameters() if p.ndim > 1) <= pack_bytes
        joined: set[nn.Module] = set()
        for module in self.modules():
            if isinstance(module, (MLP, GatedAttention, GatedDeltaNet)):
                joined.update(module.prepare(packed))
            elif isinstance(module, RMSNorm):
                module.prepare()
        if packed:
            for module in self.modules():
                if isinstance(module, (Linear, PatchEmbed)) and module not in joined:
                    module.prepare()
            self._packed_head = pack(self._head())

    def encode_image(self, patches: torch.Tensor, grids: Grids) -> torch.Tensor:
        """Image tokens `[M, D]` of one or several packed images (see `VisionEncoder`)."""
        return self.model.visual(patches, grids)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Token ids `[...]` -> `[..., D]`."""
        return self.model.language_model.embed_tokens(ids)

    def decoder(self, hidden: torch.Tensor, window: Window, state: DecoderState | None) -> torch.Tensor:
        """See `TextDecoder.forward`."""
        return self.model.language_model(hidden, window, state)

    def tapped(
        self, hidden: torch.Tensor, window: Window, state: DecoderState | None, taps: tuple[int, ...]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """See `TextDecoder.tapped`."""
        return self.model.language_model.tapped(hidden, window, state, taps)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden `[..., D]` -> logits `[..., vocab]` through the tied or own head."""
        return linear(hidden, self._head(), packed=self._packed_head)

    def _head(self) -> torch.Tensor:
        return (self.model.language_model.embed_tokens if self.config.tie_word_embeddings else self.lm_head).weight
