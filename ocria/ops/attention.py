"""Attention of a window of query rows over the slot's keys and values (SDPA)."""

import torch
import torch.nn.functional as F


def window_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Softmax attention with scale D^-0.5.

    q `[B, H, T, D]`; k, v `[B, Hkv, S, D]`; `mask` `[B, 1, T, S]` is added to the scores (None: plain causal over
    T = S rows from an empty cache). Query head h uses key head h // (H / Hkv). Returns `[B, H, T, D]`.
    """
    grouped = q.shape[1] != k.shape[1]
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype), enable_gqa=grouped)


def score_mask(length: torch.Tensor, rows: int, kv_len: int, dtype: torch.dtype) -> torch.Tensor:
    """`[B, 1, rows, kv_len]`: what is added to the scores of a window that begins at row `length` `[B]` int64: 0 up to
    each row's own key, -inf beyond."""
    own = length[:, None, None, None] + torch.arange(rows, device=length.device)[:, None]
    beyond = torch.arange(kv_len, device=length.device) > own
    return torch.zeros(beyond.shape, dtype=dtype, device=length.device).masked_fill_(beyond, float("-inf"))
