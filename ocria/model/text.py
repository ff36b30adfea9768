"""The text decoder: pre-norm residual layers of a mixer and a SwiGLU MLP."""

import torch
import torch.nn.functional as F
from torch import nn

from ocria.model.attention import GatedAttention, RMSNorm
from ocria.model.config import TextConfig
from ocria.model.deltanet import GatedDeltaNet
from ocria.model.embedding import empty_embedding
from ocria.model.quantized import Preparation, QuantisedProjections
from ocria.model.state import DecoderState
from ocria.model.window import Window
from ocria.ops.linear import Linear, Projections
from ocria.ops.quant_linear import Fed, Feed
from ocria.ops.quant_rows import silu_mul_quant


class MLP(nn.Module):
    """`down(silu(gate(x)) * up(x))`."""

    def __init__(self, config: TextConfig):
        super().__init__()
        self.gate_proj = Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = Linear(config.intermediate_size, config.hidden_size, bias=False)
        self._fused: Projections | QuantisedProjections | None = None

    def prepare(self, how: Preparation) -> list[Linear]:
        """Compute gate and up in one product from now on; returns the layers that are part of it."""
        layers = [self.gate_proj, self.up_proj]
        self._fused = how.join(layers)
        return layers

    @property
    def feed(self) -> Feed | None:
        """How the input is wanted."""
        return self._fused.feed if self._fused else None

    def forward(self, x: torch.Tensor | Fed) -> torch.Tensor:
        gate, up = self._fused(x) if self._fused else (self.gate_proj(x), self.up_proj(x))
        if self.down_proj.feed is None:
            return self.down_proj(F.silu(gate) * up)
        rows = silu_mul_quant(gate, up, self.down_proj.feed.target)
        return self.down_proj(Fed(rows, None, gate.shape[:-1], gate.dtype))


class DecoderLayer(nn.Module):
    """x + mixer(norm(x)), then x + mlp(norm(x)). What a branch adds is handed on, to be added by the next norm."""

    def __init__(self, config: TextConfig, index: int):
        super().__init__()
        self.index = index
        if config.layer_types[index] == "full_attention":
            self.self_attn = GatedAttention(config)
        else:
            self.linear_attn = GatedDeltaNet(config)
        self.mlp = MLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self, x: torch.Tensor, more: torch.Tensor | None, window: Window, state: DecoderState | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The residual stream x and what is still to be added to it, `[B, T, D]` each (None: nothing), before the
        layer -> after it."""
        mixer = self.self_attn if hasattr(self, "self_attn") else self.linear_attn
        y, x = self.input_layernorm.after(x, more, mixer.feed)
        y, x = self.post_attention_layernorm.after(x, mixer(y, window, state, self.index), self.mlp.feed)
        return x, self.mlp(y)

    def remember(self, x: torch.Tensor, more: torch.Tensor | None, window: Window, state: DecoderState) -> None:
        """What `forward` leaves in the state, without its result."""
        mixer = self.self_attn if hasattr(self, "self_attn") else self.linear_attn
        mixer.remember(self.input_layernorm.after(x, more, mixer.feed)[0], window, state, self.index)


class TextDecoder(nn.Module):
    """Embeddings, layers and the final norm."""

    def __init__(self, config: TextConfig):
        super().__init__()
        self.config = config
        self.embed_tokens = empty_embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(config, i) for i in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self._through = _through

    def compile_layers_once(self) -> None:
        """Let `torch.compile` compile each kind of layer once, instead of every layer."""
        self._through = torch.compiler.nested_compile_region(_through)

    def forward(self, hidden: torch.Tensor, window: Window, state: DecoderState | None) -> torch.Tensor:
        """hidden `[B, T, D]` (embedded tokens or image features) -> normalised hidden `[B, T, D]`.

        With a state the pass appends `window.count` rows to each slot; without one it computes whole sequences
        from nothing (training).
        """
        return self.tapped(hidden, window, state, ())[0]

    def tapped(
        self, hidden: torch.Tensor, window: Window, state: DecoderState | None, taps: tuple[int, ...]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """`forward`, and the outputs of the layers `taps` (0 is the first) side by side, `[B, T, taps * D]`."""
        hidden, more, features = self._run(self.layers, hidden, window, state, taps)
        return self.norm.after(hidden, more)[0], features

    def remember(
        self, hidden: torch.Tensor, window: Window, state: DecoderState, taps: tuple[int, ...]
    ) -> torch.Tensor | None:
        """A prefill for what it leaves in the state: the second of `tapped`. Of the last layer, unless it is tapped,
        only that is computed which later rows see."""
        last = len(self.layers) - 1
        if last in taps:
            return self._run(self.layers, hidden, window, state, taps)[2]
        hidden, more, features = self._run(self.layers[:last], hidden, window, state, taps)
        self.layers[last].remember(hidden, more, window, state)
        return features

    def _run(self, layers, hidden, window, state, taps):
        """Residual stream, what is to be added to it, and features, behind these layers."""
        more, features = None, {}
        for index, layer in enumerate(layers):
            hidden, more = self._through(layer, hidden, more, window, state)
            if index in taps:
                features[index] = hidden + more
        return hidden, more, torch.cat([features[index] for index in taps], dim=-1) if taps else None


def _through(
    layer: DecoderLayer, hidden: torch.Tensor, more: torch.Tensor | None, window: Window, state: DecoderState | None
) -> tuple[torch.Tensor, torch.Tensor]:
    return layer(hidden, more, window, state)
