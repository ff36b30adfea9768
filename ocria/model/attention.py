"""The gated full attention of every fourth decoder layer."""

import torch
from torch import nn

from ocria.model.config import TextConfig
from ocria.model.quantized import Preparation, QuantisedProjections
from ocria.model.state import DecoderState, take
from ocria.model.window import Window
from ocria.ops import kv_cache
from ocria.ops.attend import attend
from ocria.ops.attention import window_attention
from ocria.ops.linear import Linear, Projections
from ocria.ops.norm import add_rms_norm, rms_norm
from ocria.ops.quant_linear import Fed, Feed
from ocria.ops.quant_rows import add_rms_norm_quant, rms_norm_quant, sigmoid_mul_quant
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

    def after(
        self, x: torch.Tensor, more: torch.Tensor | None, feed: Feed | None = None
    ) -> tuple[torch.Tensor | Fed, torch.Tensor]:
        """(norm of x + more, x + more), added and normalised in one pass; `more` None adds nothing. feed: how the norm
        is wanted."""
        scale = self.scale if self._scale is None else self._scale
        if feed is None:
            return (self(x), x) if more is None else add_rms_norm(more, x, scale, self.eps)
        if more is None:
            rows, kept = rms_norm_quant(x, scale, self.eps, feed.target, feed.keep)
        else:
            rows, added, kept = add_rms_norm_quant(more, x, scale, self.eps, feed.target, feed.keep)
            x = added.view(x.shape)
        return Fed(rows, kept.view(x.shape) if feed.keep else None, x.shape[:-1], x.dtype), x


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
        self._fused: Projections | QuantisedProjections | None = None
        self._keys_and_values: Projections | None = None
        self._scales: tuple[torch.Tensor, torch.Tensor] | None = None
        self.kv_scale: torch.Tensor | None = None
        """fp32 `[2]`: what the codes of a cache in FP8 are worth, of keys and of values; None: one."""

    @property
    def feed(self) -> Feed | None:
        """How the input is wanted."""
        return self._fused.feed if self._fused else None

    def prepare(self, how: Preparation) -> list[Linear]:
        """Compute q, k and v in one product from now on; returns the layers that are part of it."""
        layers = [self.q_proj, self.k_proj, self.v_proj]
        self._fused = how.join(layers)
        if isinstance(self._fused, Projections):
            self._keys_and_values = self._fused.without_first()
        self._scales = self._head_scales()
        self.kv_scale = self._kv_scale()
        return layers

    def forward(self, x: torch.Tensor | Fed, window: Window, state: DecoderState | None, layer: int) -> torch.Tensor:
        """x `[B, T, D]` -> `[B, T, D]`; writes this window's KV rows, attends to all rows up to each query's own."""
        q, k, v = self._fused(x) if self._fused else (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        c, w = self.config, window
        k, v = (part.unflatten(-1, (-1, c.head_dim)) for part in (k, v))
        if state is None or not window.is_step:
            return self.o_proj(self._rows(q.unflatten(-1, (-1, c.head_dim)), k, v, window, state, layer))
        q_scale, k_scale = self._scales or self._head_scales()
        place = state.place[layer]
        o = attend(
            q.unflatten(-1, (-1, 2 * c.head_dim)), k, v, q_scale, k_scale, c.rms_norm_eps, w.cos, w.sin,
            state.keys[place], state.values[place], w.slots, w.length, w.count, w.kv_len, w.first_slot, w.full,
            w.kv_rows, w.mask, self._kv_scale() if state.keys[place].dtype == kv_cache.FP8 else None,
        )  # fmt: skip
        return self.o_proj(o)

    def remember(self, x: torch.Tensor | Fed, window: Window, state: DecoderState, layer: int) -> None:
        """What `forward` of a prefill leaves in the state, without its result."""
        if self._keys_and_values is not None:
            k, v = self._keys_and_values(x)
        else:
            _, k, v = self._fused(x) if self._fused else (None, self.k_proj(x), self.v_proj(x))
        k, v = (part.unflatten(-1, (-1, self.config.head_dim)) for part in (k, v))
        k = rotate(self.k_norm(k), window.cos[:, :, None].to(v.dtype), window.sin[:, :, None].to(v.dtype)).to(v.dtype)
        place = state.place[layer]
        for cache, new, step in zip((state.keys, state.values), (k, v), self._kv_scale(), strict=True):
            self._write(cache[place], new, step, window)

    def _rows(self, q, k, v, window: Window, state: DecoderState | None, layer: int) -> torch.Tensor | Fed:
        """Whole sequences, or a prefill: q `[B, T, 2H, D]`, a gate after each query; k, v `[B, T, Hkv, D]`."""
        q, gate = q.unflatten(2, (-1, 2)).unbind(3)
        cos, sin = window.cos[:, :, None].to(v.dtype), window.sin[:, :, None].to(v.dtype)
        q = rotate(self.q_norm(q), cos, sin).to(v.dtype).transpose(1, 2)
        k = rotate(self.k_norm(k), cos, sin).to(v.dtype)
        keys, values = k, v
        if state is not None:
            place = state.place[layer]
            keys, values = (
                self._through(cache[place], new, step, window)
                for cache, new, step in zip((state.keys, state.values), (k, v), self._kv_scale(), strict=True)
            )
        # In a fresh window the keys are its own rows; padding comes after all that is seen.
        o = window_attention(q, keys.transpose(1, 2), values.transpose(1, 2), window.mask)
        o = o.transpose(1, 2)
        if self.o_proj.feed is None:
            return (o * gate.sigmoid()).flatten(2)
        return Fed(sigmoid_mul_quant(o, gate, self.o_proj.feed.target), None, o.shape[:2], o.dtype)

    @staticmethod
    def _through(cache: torch.Tensor, new: torch.Tensor, step: torch.Tensor, window: Window) -> torch.Tensor:
        """`_write`; returns what attention sees of the cache, in the dtype of the rows."""
        rows = GatedAttention._write(cache, new, step, window)
        seen = rows if window.fresh else take(cache[:, : window.kv_len], window)
        return kv_cache.decode(seen, step, new.dtype)

    @staticmethod
    def _write(cache: torch.Tensor, new: torch.Tensor, step: torch.Tensor, window: Window) -> torch.Tensor:
        """Put the window's rows `[B, T, Hkv, D]` into the cache; returns them as it holds them."""
        rows = kv_cache.encode(new, step, cache.dtype)
        kv_cache.write(cache, window.kv_rows.flatten(), rows.flatten(0, 1))
        return rows

    def _kv_scale(self) -> torch.Tensor:
        return torch.ones(2, device=self.k_norm.weight.device) if self.kv_scale is None else self.kv_scale

    def _head_scales(self) -> tuple[torch.Tensor, torch.Tensor]:
        """fp32 `[head_dim]` each: what the heads of q and of k are multiplied by after their norm."""
        return self.q_norm.scale, self.k_norm.scale
