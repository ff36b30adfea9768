"""The gated delta rule over the rows of a prompt: chunks of 64 rows, several sequences at once."""

import torch
from torch import Tensor

from ocria.ops.delta import delta_chunk, delta_recurrent
from ocria.ops.register import register

CHUNK = 64
"""Rows that are solved together. The state is carried from chunk to chunk."""


def chunk_reference(q, k, v, g, beta, checkpoint, slots, first, count):
    """The definition of `chunk`: the recurrence over one segment after the other."""
    o = torch.zeros_like(v)
    for slot, start, rows in zip(slots.tolist(), first.tolist(), count.tolist(), strict=True):
        if rows == 0:
            continue
        span = slice(start, start + rows)
        inputs = _by_heads(q[None, span], k[None, span], v[None, span], g[None, span], beta[None, span])
        out, state = delta_recurrent(*inputs, checkpoint[slot, None])
        o[span] = out[0].transpose(0, 1).to(v.dtype)
        checkpoint[slot] = state[0]
    return o


def _torch_form(q, k, v, g, beta, checkpoint, slots, first, count):
    o = v.new_zeros(v.shape[0] + 1, *v.shape[1:])
    counts = count.tolist()
    # Longest first: the segments that still have rows are then the leading ones.
    order = sorted((i for i, rows in enumerate(counts) if rows), key=lambda i: -counts[i])
    if not order:
        return o[:-1]
    counts = [counts[i] for i in order]
    slots, first, count = slots[order], first[order], count[order]
    state = checkpoint.index_select(0, slots)
    for start in range(0, counts[0], CHUNK):
        active = sum(rows > start for rows in counts)
        width = min(CHUNK, counts[0] - start)
        rows = first[:active, None] + torch.arange(start, start + width)
        inputs = (q, k, v, g, beta)
        if counts[active - 1] >= start + width:
            inputs = [x.index_select(0, rows.view(-1)).view(active, width, *x.shape[1:]) for x in inputs]
        else:
            unused = rows >= (first + count)[:active, None]
            # Past the end: for the inputs any row, as its values are dropped; for the output the spare one.
            rows = rows.masked_fill_(unused, v.shape[0])
            inputs = [_gather(x, rows, unused) for x in inputs]
        out, state[:active] = delta_chunk(*_by_heads(*inputs), state[:active], CHUNK)
        o.index_copy_(0, rows.view(-1), out.transpose(1, 2).flatten(0, 1).to(o.dtype))
    checkpoint.index_copy_(0, slots, state)
    return o[:-1]


def _gather(x, rows, unused):
    """x `[N, ...]` -> `[B, T, ...]`, zero in unused rows."""
    x = x.index_select(0, rows.view(-1).clamp(max=x.shape[0] - 1)).view(*rows.shape, *x.shape[1:])
    return x.masked_fill_(unused.view(*unused.shape, *[1] * (x.dim() - 2)), 0)


def _by_heads(q, k, v, g, beta):
    """`[B, T, heads, ...]` -> fp32 `[B, Hv, T, ...]`, the key heads repeated to the value heads."""
    groups = v.shape[2] // q.shape[2]
    q, k = (x.repeat_interleave(groups, dim=2) if groups > 1 else x for x in (q, k))
    return [x.transpose(1, 2).float() for x in (q, k, v, g, beta)]


def _launch(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, checkpoint: Tensor,
    slots: Tensor, first: Tensor, count: Tensor,
) -> Tensor:  # fmt: skip
    from ocria.ops.kernels.chunk import launch

    return launch(q, k, v, g, beta, checkpoint, slots, first, count)


def _fake(q, k, v, g, beta, checkpoint, slots, first, count):
    return torch.empty_like(v, memory_format=torch.contiguous_format)


chunk = register("chunk", torch_form=_torch_form, launch=_launch, fake=_fake, mutates=("checkpoint",))
"""chunk(q, k, v, g, beta, checkpoint, slots, first, count) -> o

The gated delta rule (`ocria.ops.delta`) over segments of rows, from the state of each segment's slot and back into it.

q, k `[N, Hk, Dk]`, normalised and q scaled, v `[N, Hv, Dv]`, in the network's dtype; g (<= 0) and beta fp32 `[N, Hv]`;
checkpoint fp32 `[slots, Hv, Dk, Dv]`, contiguous. Value head h uses key head h // (Hv // Hk). slots, first, count
`[B]` int64: segment b is the rows first[b] .. first[b] + count[b] - 1 and belongs to slots[b]. Segments do not overlap
and their slots differ, except that a segment without rows may name any slot: it reads and writes nothing. So packed
rows are served as well as a padded `[B, T]` window seen as N = B * T rows.

Returns o `[N, Hv, Dv]` in the dtype of v, zero in rows outside all segments, whatever the inputs hold there. All in
fp32, o rounded once. The torch form reads `count` on the host and is no part of a compiled graph.

Source: the WY form of Gated Delta Networks (arXiv 2412.06464).
"""
