"""The whole network. Module names equal the tensor names of a Hugging Face checkpoint."""

import torch
from torch import nn

from ocria.model.attention import GatedAttention, RMSNorm
from ocria.model.config import ModelConfig
from ocria.model.deltanet import GatedDeltaNet
from ocria.model.prepared import Preparable
from ocria.model.quantized import Preparation
from ocria.model.state import DecoderState
from ocria.model.text import MLP, TextDecoder
from ocria.model.vision import Grids, PatchEmbed, VisionAttention, VisionEncoder
from ocria.model.window import Window
from ocria.ops.linear import Linear, Packed, linear, pack


class _Body(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        if config.vision is not None:
            self.visual = VisionEncoder(config.vision)
        self.language_model = TextDecoder(config.text)


class Qwen35(Preparable):
    """Vision encoder, text decoder and head. Build it under `torch.device("meta")` and fill it from a file."""

    joining = (MLP, GatedAttention, GatedDeltaNet, VisionAttention)

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.model = _Body(config)
        self._packed_head: Packed | None = None
        if not config.tie_word_embeddings:
            self.lm_head = Linear(config.text.hidden_size, config.text.vocab_size, bias=False)

    @property
    def device(self) -> torch.device:
        return self._embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of activations and KV rows; `A_log` and the gated norm are fp32 beside it."""
        return self._embedding.dtype

    def _prepare(self, how: Preparation) -> None:
        super()._prepare(how)
        for module in self.modules():
            if isinstance(module, (RMSNorm, VisionEncoder)) or (how.pack and isinstance(module, PatchEmbed)):
                module.prepare()
        if how.pack and self.config.tie_word_embeddings:
            self._packed_head = pack(self._head())

    def encode_image(self, patches: torch.Tensor, grids: Grids) -> torch.Tensor:
        """Image tokens `[M, D]` of one or several packed images (see `VisionEncoder`)."""
        return self.model.visual(patches, grids)

    @property
    def takes_distinct_patches(self) -> bool:
        """Whether `encode_image` takes rows without what repeats in them (see `PatchEmbed`)."""
        return self.model.visual.patch_embed.takes_distinct

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

    def remember(
        self, hidden: torch.Tensor, window: Window, state: DecoderState, taps: tuple[int, ...]
    ) -> torch.Tensor | None:
        """See `TextDecoder.remember`."""
        return self.model.language_model.remember(hidden, window, state, taps)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden `[..., D]` -> logits `[..., vocab]` through the tied or own head."""
        if not self.config.tie_word_embeddings:
            return self.lm_head(hidden)
        return linear(hidden, self._head(), packed=self._packed_head)

    @property
    def _embedding(self) -> torch.Tensor:
        return self.model.language_model.embed_tokens.weight

    def _head(self) -> torch.Tensor:
        return self._embedding if self.config.tie_word_embeddings else self.lm_head.weight
