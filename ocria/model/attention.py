"""The gated full attention of every fourth decoder layer."""

import torch
import torch.nn.functional as F
from torch import nn

from ocria.model.config import TextConfig
from ocria.model.state import DecoderState
from ocria.model.window import Window
from ocria.ops.attention import window_attention
from ocria.ops.linear import Linear, Projections
from ocria.ops.norm import rms_norm
from ocria.ops.rope import rotate


class RMSNorm(nn.Module):
    """Zero-centred RMS norm with weight `[D]`."""

    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(dim))
        self.eps = eps
        self._scale: torch.Tensor | None = None

    def prepare(self) -> None:
        """Keep the scale; from now on the weight must not change."""
        self._scale = self.scale

    @property
    def scale(self) -> torch.Tensor:
        """1 + weight in fp32."""
        return 1.0 + self.weight.float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, self.scale if self._scale is None else self._scale, self.eps)


class GatedAttention(nn.Module):
    """Grouped-query attention with q/k norm, partial rotary and a sigmoid gate before the output projection."""

    def __init__(self, config: TextConfig):
        super().__init__()
        self.config = config
        dim, head_dim = config.hidden_size, config.head_dim
        # Per head: the query, then its gate.
        self.q_proj = Linear(dim, config.num_attention_heads * 2 * head_dim, bias=False)
        self.k_proj = Linear(dim, config.num_key_value_heads * head_dim, bias=False)
        self.v_proj = Linear(dim, config.num_key_value_heads * head_dim, bias=False)
        self.o_proj = Linear(config.num_attention_heads * head_dim, dim, bias=False)
        self.q_norm = RMSNorm(head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(head_dim, config.rms_norm_eps)
        self._fused: Projections | None = None
        self._scale: torch.Tensor | None = None

    def prepare(self, pack: bool) -> list[Linear]:
        """Compute q, k and v in one product from now on; returns the layers that are part of it."""
        layers = [self.q_proj, self.k_proj, self.v_proj]
        self._fused = Projections(layers, pack)
        self._scale = self._head_scale()
        return layers

    def forward(self, x: torch.Tensor, window: Window, state: DecoderState | None, layer: int) -> torch.Tensor:
        """x `[B, T, D]` -> `[B, T, D]`; writes this window's KV rows, attends to all rows up to each query's own."""
        projected = self._fused(x) if self._fused else (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        c = self.config
        q, k, v = (part.unflatten(-1, (-1, c.head_dim)) for part in projected)
        q, gate = q.unflatten(2, (-1, 2)).unbind(3)
        cos, sin = window.cos[:, :, None].to(x.dtype), window.sin[:, :, None].to(x.dtype)
        scale = self._head_scale() if self._scale is None else self._scale
        # The norms of q and k differ in their weights only, so all heads go through one.
        qk = torch.cat([q, k], dim=2)
        qk = (F.rms_norm(qk.float(), (c.head_dim,), None, c.rms_norm_eps) * scale).to(qk.dtype)
        q, k = rotate(qk, cos, sin).to(v.dtype).split([c.num_attention_heads, c.num_key_value_heads], dim=2)
        q = q.transpose(1, 2)
        if state is not None:
            state.append(layer, window, k, v)
        if state is None or window.fresh:
            # The keys are the window's own rows; padding comes after all that is seen.
            o = window_attention(q, k.transpose(1, 2), v.transpose(1, 2), None)
        else:
            keys, values = state.seen(layer, window)
            o = window_attention(q, keys.to(q.dtype), values.to(q.dtype), window.mask)
        o = o.transpose(1, 2) * gate.sigmoid()
        return self.o_proj(o.flatten(2))

    def _head_scale(self) -> torch.Tensor:
        """fp32 `[H + Hkv, head_dim]`: what each head is multiplied by after its norm."""
        c = self.config
        q, k = self.q_norm.scale, self.k_norm.scale
        return torch.cat([q.expand(c.num_attention_heads, -1), k.expand(c.num_key_value_heads, -1)])
