"""The Gated DeltaNet mixer of three out of four decoder layers."""

import torch
import torch.nn.functional as F
from torch import nn

from ocria.model.config import TextConfig
from ocria.model.state import DecoderState, put, take
from ocria.model.window import Window
from ocria.ops.conv import causal_conv_silu
from ocria.ops.delta import delta_chunk, delta_step_, normalise_qk
from ocria.ops.linear import Linear, Projections
from ocria.ops.norm import gated_rms_norm


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
        self._fused: Projections | None = None
        self._rate: torch.Tensor | None = None

    def prepare(self, pack: bool) -> list[Linear]:
        """Compute all inputs of the recurrence in one product from now on; returns the layers that are part of it."""
        layers = [self.in_proj_qkv, self.in_proj_z, self.in_proj_b, self.in_proj_a]
        self._fused = Projections(layers, pack)
        self._rate = self._decay_rate()
        return layers

    def _decay_rate(self) -> torch.Tensor:
        """fp32 `[Hv]`: log-decay per unit of time step, negative."""
        return -self.A_log.float().exp()

    def forward(self, x: torch.Tensor, window: Window, state: DecoderState | None, layer: int) -> torch.Tensor:
        """x `[B, T, D]` -> `[B, T, D]`; reads and writes the slots' rows of `state` (None: from zero, kept nowhere)."""
        c = self.config
        rows = x.shape[1]
        layers = (self.in_proj_qkv, self.in_proj_z, self.in_proj_b, self.in_proj_a)
        qkv, z, b, a = self._fused(x) if self._fused else (project(x) for project in layers)
        cold = state is None or window.fresh
        history = None if cold else take(state.conv[layer], window)
        qkv, extended = causal_conv_silu(qkv, self.conv1d.weight[:, 0], history)
        qk, v = qkv.split([2 * c.key_dim, c.value_dim], dim=-1)
        groups = c.linear_num_value_heads // c.linear_num_key_heads
        q, k = normalise_qk(qk.unflatten(-1, (-1, c.linear_key_head_dim)), groups)
        v = v.unflatten(-1, (-1, c.linear_value_head_dim)).transpose(1, 2).float()
        beta = b.sigmoid().float()
        rate = self._decay_rate() if self._rate is None else self._rate
        g = rate * F.softplus(a.float() + self.dt_bias.float())
        if not window.full:
            beta, g = (torch.where(window.valid[..., None], gate, 0.0) for gate in (beta, g))
        beta, g = beta.transpose(1, 2), g.transpose(1, 2)

        initial = None if cold else take(state.delta[layer], window)
        if rows == 1 and initial is not None:
            o = delta_step_(q[:, :, 0], k[:, :, 0], v[:, :, 0], g[:, :, 0], beta[:, :, 0], initial)[:, None]
            final = initial
        else:
            o, final = delta_chunk(q, k, v, g, beta, initial)
            o = o.transpose(1, 2)
        if state is not None:
            if final is not initial or window.run is None:
                put(state.delta[layer], window, final)
            put(state.conv[layer], window, self._last_rows(extended, window))

        o = o.to(x.dtype)
        o = gated_rms_norm(o, z.view(o.shape), self.norm.weight, c.rms_norm_eps)
        return self.out_proj(o.flatten(2))

    def _last_rows(self, extended: torch.Tensor, window: Window) -> torch.Tensor:
        """The K - 1 rows before the first row that is not used yet, from `[B, K - 1 + T, C]`."""
        width = self.config.linear_conv_kernel_dim - 1
        if window.full:
            return extended[:, extended.shape[1] - width :]
        keep = window.count[:, None] + torch.arange(width, device=extended.device)
        return extended.gather(1, keep[..., None].expand(-1, -1, extended.shape[-1]))
