"""Attention of a window of query rows over the slot's keys and values (SDPA)."""

import torch
import torch.nn.functional as F


def window_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, last_key: torch.Tensor | None) -> torch.Tensor:
    """Softmax attention with scale D^-0.5.

    q `[B, H, T, D]`; k, v `[B, Hkv, S, D]`; `last_key` int64 `[B, T]` is the last key row that each query row may
    see (None: plain causal over T = S rows from an empty cache). Query head h uses key head h // (H / Hkv).
    Returns `[B, H, T, D]`.
    """
    grouped = q.shape[1] != k.shape[1]
    if last_key is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
    keys = torch.arange(k.shape[2], device=k.device)
    mask = keys[None, None, None, :] <= last_key[:, None, :, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=grouped)
