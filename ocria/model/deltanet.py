"""The Gated DeltaNet mixer of three out of four decoder layers."""

import torch
import torch.nn.functional as F
from torch import nn

from ocria.model.config import TextConfig
from ocria.model.state import DecoderState
from ocria.model.window import Window
from ocria.ops.conv import causal_conv_silu
from ocria.ops.delta import delta_chunk, delta_recurrent, normalise_qk
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
        self.in_proj_qkv = nn.Linear(config.hidden_size, config.conv_dim, bias=False)
        self.in_proj_z = nn.Linear(config.hidden_size, config.value_dim, bias=False)
        self.in_proj_b = nn.Linear(config.hidden_size, heads, bias=False)
        self.in_proj_a = nn.Linear(config.hidden_size, heads, bias=False)
        self.conv1d = nn.Conv1d(config.conv_dim, config.conv_dim, config.linear_conv_kernel_dim,
                                groups=config.conv_dim, bias=False)
        self.A_log = nn.Parameter(torch.zeros(heads, dtype=torch.float32))
        self.dt_bias = nn.Parameter(torch.zeros(heads))
        self.norm = GatedNorm(config.linear_value_head_dim)
        self.out_proj = nn.Linear(config.value_dim, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor, window: Window, state: DecoderState | None, layer: int) -> torch.Tensor:
        """x `[B, T, D]` -> `[B, T, D]`; reads and writes the slots' rows of `state` (None: from zero, kept nowhere)."""
        c = self.config
        batch, rows, _ = x.shape
        history = None if state is None else state.conv[layer][window.slots]
        qkv, extended = causal_conv_silu(self.in_proj_qkv(x), self.conv1d.weight[:, 0], history)
        q, k, v = qkv.split([c.key_dim, c.key_dim, c.value_dim], dim=-1)
        q, k = normalise_qk(
            q.reshape(batch, rows, -1, c.linear_key_head_dim),
            k.reshape(batch, rows, -1, c.linear_key_head_dim),
            c.linear_num_value_heads // c.linear_num_key_heads,
        )
        v = v.reshape(batch, rows, -1, c.linear_value_head_dim).transpose(1, 2).float()
        valid = window.valid()[..., None]
        beta = torch.where(valid, self.in_proj_b(x).sigmoid().float(), 0.0).transpose(1, 2)
        g = -self.A_log.float().exp() * F.softplus(self.in_proj_a(x).float() + self.dt_bias.float())
        g = torch.where(valid, g, 0.0).transpose(1, 2)

        initial = None if state is None else state.delta[layer][window.slots]
        if rows == 1 and initial is not None:
            o, final = delta_recurrent(q, k, v, g, beta, initial)
        else:
            o, final = delta_chunk(q, k, v, g, beta, initial)
        if state is not None:
            state.delta[layer].index_copy_(0, window.slots, final)
            keep = window.count[:, None] + torch.arange(c.linear_conv_kernel_dim - 1, device=x.device)
            kept = extended.gather(1, keep[..., None].expand(-1, -1, c.conv_dim))
            state.conv[layer].index_copy_(0, window.slots, kept.to(state.conv[layer].dtype))

        o = o.transpose(1, 2).to(x.dtype)
        z = self.in_proj_z(x).view(o.shape)
        o = gated_rms_norm(o, z, self.norm.weight, c.rms_norm_eps)
        return self.out_proj(o.reshape(batch, rows, -1))
