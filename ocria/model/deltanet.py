"""The Gated DeltaNet mixer of three out of four decoder layers."""

import torch
import torch.nn.functional as F
from torch import nn

from ocria.model.config import TextConfig
from ocria.model.quantized import Preparation, QuantisedProjections
from ocria.model.recurrence import advance, chunk_window
from ocria.model.state import DecoderState
from ocria.model.window import Window
from ocria.ops.conv import causal_conv_silu, gated_conv
from ocria.ops.delta import delta_chunk, normalise_qk
from ocria.ops.linear import Linear, Projections
from ocria.ops.norm import gated_rms_norm
from ocria.ops.quant_linear import Fed, Feed
from ocria.ops.quant_rows import gated_rms_norm_quant
from ocria.ops.replay import replay


class GatedNorm(nn.Module):
    """Holds the fp32 weight `[Dv]` of the gated RMS norm."""

    def __init__(self, dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim, dtype=torch.float32))


class GatedDeltaNet(nn.Module):
    """Linear attention with a decaying fp32 state `[Hv, Dk, Dv]` and a short convolution over q, k, v."""

    def __init__(self, config: TextConfig):
        super().__init__()
        self.config = config
        heads = config.linear_num_value_heads
        self.in_proj_qkv = Linear(config.hidden_size, config.conv_dim, bias=False)
        self.in_proj_z = Linear(config.hidden_size, config.value_dim, bias=False)
        self.in_proj_b = Linear(config.hidden_size, heads, bias=False)
        self.in_proj_a = Linear(config.hidden_size, heads, bias=False)
        self.conv1d = nn.Conv1d(config.conv_dim, config.conv_dim, config.linear_conv_kernel_dim,
                                groups=config.conv_dim, bias=False)
        self.A_log = nn.Parameter(torch.zeros(heads, dtype=torch.float32))
        self.dt_bias = nn.Parameter(torch.zeros(heads))
        self.norm = GatedNorm(config.linear_value_head_dim)
        self.out_proj = Linear(config.value_dim, config.hidden_size, bias=False)
        self._fused: Projections | QuantisedProjections | None = None
        self._gates: tuple[torch.Tensor, torch.Tensor] | None = None
        self._taps: torch.Tensor | None = None  # `[C, K]`, each tap contiguous

    def prepare(self, how: Preparation) -> list[Linear]:
        """Compute all inputs of the recurrence in one product from now on; returns the layers that are part of it."""
        layers = [self.in_proj_qkv, self.in_proj_z, self.in_proj_b, self.in_proj_a]
        self._fused = how.join(layers)
        self._gates = self._gate_constants()
        self._taps = self.conv1d.weight[:, 0].t().contiguous().t()
        return layers

    @property
    def feed(self) -> Feed | None:
        """How the input is wanted."""
        return self._fused.feed if self._fused else None

    def _decay_rate(self) -> torch.Tensor:
        """fp32 `[Hv]`: log-decay per unit of time step, negative."""
        return -self.A_log.float().exp()

    def forward(self, x: torch.Tensor | Fed, window: Window, state: DecoderState | None, layer: int) -> torch.Tensor:
        """x `[B, T, D]` -> `[B, T, D]`; reads and writes the slots' rows of `state` (None: from zero, kept nowhere)."""
        layers = (self.in_proj_qkv, self.in_proj_z, self.in_proj_b, self.in_proj_a)
        qkv, z, b, a = self._fused(x) if self._fused else (project(x) for project in layers)
        o = self._whole(qkv, a, b) if state is None else self._windowed(qkv, a, b, window, state, state.place[layer])
        o = o.to(qkv.dtype)
        gated = (o, z.view(o.shape), self.norm.weight, self.config.rms_norm_eps)
        if self.out_proj.feed is None:
            return self.out_proj(gated_rms_norm(*gated).flatten(2))
        rows = gated_rms_norm_quant(*gated, self.out_proj.feed.target)
        return self.out_proj(Fed(rows, None, o.shape[:2], o.dtype))

    def remember(self, x: torch.Tensor | Fed, window: Window, state: DecoderState, layer: int) -> None:
        """What `forward` of a prefill leaves in the state, without its result."""
        layers = (self.in_proj_qkv, self.in_proj_z, self.in_proj_b, self.in_proj_a)
        qkv, _, b, a = self._fused(x) if self._fused else (project(x) for project in layers)
        self._windowed(qkv, a, b, window, state, state.place[layer])

    def _whole(self, qkv: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Whole sequences without a state, differentiable: `[B, T, Hv, Dv]` fp32."""
        c = self.config
        qkv, _ = causal_conv_silu(qkv, self.conv1d.weight[:, 0])
        qk, v = qkv.split([2 * c.key_dim, c.value_dim], dim=-1)
        q, k = normalise_qk(qk.unflatten(-1, (-1, c.linear_key_head_dim)), self._groups)
        v = v.unflatten(-1, (-1, c.linear_value_head_dim)).transpose(1, 2).float()
        g = self._decay_rate() * F.softplus(a.float() + self.dt_bias.float())
        o, _ = delta_chunk(q, k, v, g.transpose(1, 2), b.float().sigmoid().transpose(1, 2), None)
        return o.transpose(1, 2)

    def _windowed(
        self, qkv: torch.Tensor, a: torch.Tensor, b: torch.Tensor, window: Window, state: DecoderState, place: int
    ) -> torch.Tensor:
        """A prefill or a step of the slots in `window`: `[B, T, Hv, Dv]`. `place`: which of the state's layers."""
        c = self.config
        rate, bias = self._gates or self._gate_constants()
        cursors = (window.slots, window.length, window.count)
        q, k, v, g, beta = gated_conv(
            qkv, a, b, self.conv1d.weight[:, 0] if self._taps is None else self._taps, rate, bias,
            state.conv_ring[place], *cursors, c.linear_num_key_heads, c.linear_key_head_dim, window.conv_rows,
        )  # fmt: skip
        checkpoint = state.checkpoint[place]
        if not window.is_step:
            return chunk_window(q, k, v, g, beta, checkpoint, window)
        if state.ring:
            rings = (state.ring_k[place], state.ring_v[place], state.ring_u[place], state.ring_gates[place])
            slots, length, count = cursors
            return replay(q, k, v, g, beta, checkpoint, *rings, slots, length, window.folded, count, window.flush)
        return advance(q, k, v, g, beta, checkpoint, window)

    @property
    def _groups(self) -> int:
        return self.config.linear_num_value_heads // self.config.linear_num_key_heads

    def _gate_constants(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self._decay_rate(), self.dt_bias.float()
