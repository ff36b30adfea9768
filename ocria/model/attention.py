"""The gated full attention of every fourth decoder layer."""

import torch
from torch import nn

from ocria.model.config import TextConfig
from ocria.model.state import DecoderState
from ocria.model.window import Window
from ocria.ops.attention import window_attention
from ocria.ops.norm import rms_norm
from ocria.ops.rope import rotate


class RMSNorm(nn.Module):
    """Zero-centred RMS norm with weight `[D]`."""

    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, self.weight, self.eps)


class GatedAttention(nn.Module):
    """Grouped-query attention with q/k norm, partial rotary and a sigmoid gate before the output projection."""

    def __init__(self, config: TextConfig):
        super().__init__()
        self.config = config
        dim, head_dim = config.hidden_size, config.head_dim
        # Per head: the query, then its gate.
        self.q_proj = nn.Linear(dim, config.num_attention_heads * 2 * head_dim, bias=False)
        self.k_proj = nn.Linear(dim, config.num_key_value_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(dim, config.num_key_value_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * head_dim, dim, bias=False)
        self.q_norm = RMSNorm(head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(head_dim, config.rms_norm_eps)

    def forward(self, x: torch.Tensor, window: Window, state: DecoderState | None, layer: int) -> torch.Tensor:
        """x `[B, T, D]` -> `[B, T, D]`; writes this window's KV rows, attends to all rows up to each query's own."""
        batch, rows, _ = x.shape
        q, gate = self.q_proj(x).view(batch, rows, -1, 2 * self.config.head_dim).chunk(2, dim=-1)
        q = self.q_norm(q).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(batch, rows, -1, self.config.head_dim)).transpose(1, 2)
        v = self.v_proj(x).view(batch, rows, -1, self.config.head_dim).transpose(1, 2)
        cos, sin = window.cos[:, None].to(x.dtype), window.sin[:, None].to(x.dtype)
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        if state is None:
            o = window_attention(q, k, v, None)
        else:
            kv_rows = window.kv_rows()
            # Padding rows go to the dummy slot; their index is clamped because they may run past the last row.
            slots = torch.where(window.valid(), window.slots[:, None], 0)
            target = kv_rows.clamp(max=state.max_len - 1)
            keys, values = state.keys[layer], state.values[layer]
            keys[slots, :, target] = k.transpose(1, 2).to(keys.dtype)
            values[slots, :, target] = v.transpose(1, 2).to(values.dtype)
            o = window_attention(
                q,
                keys[window.slots, :, : window.kv_len].to(q.dtype),
                values[window.slots, :, : window.kv_len].to(q.dtype),
                kv_rows,
            )
        o = o.transpose(1, 2) * gate.sigmoid()
        return self.o_proj(o.reshape(batch, rows, -1))
