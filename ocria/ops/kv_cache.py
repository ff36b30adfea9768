"""Rows of the KV cache: in the network's dtype as they are, or in FP8 as e4m3 codes times a scale of the layer.

Half the memory and half the bytes that attention reads, for 3 bits of mantissa. Keys are stored after norm and rotary.
Source: compressed-tensors and ModelOpt, which store the scales as `k_scale` and `v_scale`.
"""

import torch

from ocria.ops.quant_grid import to_e4m3

FP8 = torch.float8_e4m3fn


def encode(x: torch.Tensor, scale: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
    """Rows `[...]` as a cache of `dtype` holds them; scale fp32 of one element, for FP8 alone."""
    return to_e4m3(x.float() / scale) if dtype == FP8 else x.to(dtype)


def decode(rows: torch.Tensor, scale: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
    """What the rows of a cache stand for, in `dtype`, rounded once."""
    return (rows.float() * scale).to(dtype) if rows.dtype == FP8 else rows.to(dtype)


def write(cache: torch.Tensor, at: torch.Tensor, rows: torch.Tensor) -> None:
    """Set the rows `at`, int64 `[N]`, of a cache `[slots, max_len, ...]` seen as `[slots * max_len, ...]`; rows
    `[N, ...]` in its dtype. As bytes where that is FP8, which torch cannot scatter."""
    width = rows[0].numel()
    flat, rows = cache.view(-1, width), rows.reshape(-1, width)
    if cache.dtype == FP8:
        flat, rows = flat.view(torch.uint8), rows.view(torch.uint8)
    flat.index_copy_(0, at, rows)
