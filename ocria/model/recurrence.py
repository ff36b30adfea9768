"""The gated delta rule over a window of slots, for passes that leave every row in the checkpoint."""

import torch

from ocria.model.state import put, take
from ocria.model.window import Window
from ocria.ops.chunk import chunk
from ocria.ops.delta import delta_chunk, delta_step_
from ocria.ops.register import uses_kernels


def chunk_window(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    checkpoint: torch.Tensor,
    window: Window,
) -> torch.Tensor:
    """A prefill: all rows at once, by chunks.

    q, k `[B, T, Hk, Dk]`, normalised; v `[B, T, Hv, Dv]`; g, beta fp32 `[B, T, Hv]`, 0 in padding; checkpoint fp32
    `[slots, Hv, Dk, Dv]`, advanced by the rows of each slot. Returns `[B, T, Hv, Dv]`.
    """
    batch, rows = v.shape[:2]
    if uses_kernels(q):
        first = torch.arange(0, batch * rows, rows, device=q.device)
        flat = (x.flatten(0, 1) for x in (q, k, v, g, beta))
        return chunk(*flat, checkpoint, window.slots, first, window.count).view_as(v)
    initial = None if window.fresh else take(checkpoint, window)
    q, k = (_per_value_head(x, v.shape[2]).transpose(1, 2).float() for x in (q, k))
    o, final = delta_chunk(q, k, v.transpose(1, 2).float(), g.transpose(1, 2), beta.transpose(1, 2), initial)
    put(checkpoint, window, final)
    return o.transpose(1, 2)


def advance(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    checkpoint: torch.Tensor,
    window: Window,
) -> torch.Tensor:
    """A step of one row that enters the checkpoint at once; shapes as in `chunk_window`, with T = 1."""
    state = take(checkpoint, window)
    q, k = (_per_value_head(x, v.shape[2])[:, 0].float() for x in (q, k))
    o = delta_step_(q, k, v[:, 0].float(), g[:, 0], beta[:, 0], state)
    if window.first_slot is None:
        put(checkpoint, window, state)
    return o[:, None]


def _per_value_head(x: torch.Tensor, heads: int) -> torch.Tensor:
    """`[B, T, Hk, D]` -> `[B, T, heads, D]`: every key head for its group of value heads."""
    groups = heads // x.shape[2]
    return x if groups == 1 else x.repeat_interleave(groups, dim=2)
