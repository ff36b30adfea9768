"""What a step must know of its rows, from what the device knows of every slot.

One step feeds each slot up to `rows` tokens: the given ones (the last token, or the tail of a prompt), then drafts.
`metadata` says for each of them what it is, where its keys and values go and which rotary position it has. On CUDA
all of it is one launch, whatever the mix of decoding, verifying, ended and padded rows.

The torch form is the definition: the kernel writes the same bits.
"""

import torch

from ocria.errors import EngineError
from ocria.ops.register import register

Metadata = tuple[
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
]


def _torch_form(
    slots: torch.Tensor,
    pending: torch.Tensor,
    given: torch.Tensor,
    drafted: torch.Tensor,
    length: torch.Tensor,
    folded: torch.Tensor,
    rope_delta: torch.Tensor,
    done: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    rows: int,
    ring: int,
    max_len: int,
) -> Metadata:
    _check(pending, rows)
    batch = slots.shape[0]
    start, old = length.index_select(0, slots), folded.index_select(0, slots)
    wanted = given.index_select(0, slots) + drafted.index_select(0, slots).clamp(min=0)
    idle = done.index_select(0, slots) | (slots == 0)
    count = torch.minimum(wanted, max_len - start).clamp(0, rows).masked_fill(idle, 0)
    room = ring - rows - pending.shape[1]
    flush = (start - old > room) & (count > 0) if ring else torch.zeros_like(idle)
    offset = torch.arange(rows, device=slots.device)
    live = offset < count[:, None]
    ids = pending[:, :rows].index_select(0, slots) * live
    row = start[:, None] + offset
    kv_rows = (row + (slots * max_len)[:, None]) * live
    position = (row + rope_delta.index_select(0, slots)[:, None]).clamp(0, cos.shape[0] - 1).view(-1)
    turns = (table.index_select(0, position).view(batch, rows, -1) for table in (cos, sin))
    return ids, start, old, count, flush, kv_rows, *turns


def _launch(
    slots: torch.Tensor,
    pending: torch.Tensor,
    given: torch.Tensor,
    drafted: torch.Tensor,
    length: torch.Tensor,
    folded: torch.Tensor,
    rope_delta: torch.Tensor,
    done: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    rows: int,
    ring: int,
    max_len: int,
) -> Metadata:
    from ocria.ops.kernels.metadata import launch

    _check(pending, rows)
    return launch(slots, pending, given, drafted, length, folded, rope_delta, done, cos, sin, rows, ring, max_len)


def _fake(slots, pending, given, drafted, length, folded, rope_delta, done, cos, sin, rows, ring, max_len):
    batch = slots.shape[0]
    window = [slots.new_empty(batch, rows) for _ in range(2)]
    cursors = [slots.new_empty(batch) for _ in range(3)]
    turns = [cos.new_empty(batch, rows, cos.shape[1]) for _ in range(2)]
    return window[0], *cursors, done.new_empty(batch), window[1], *turns


def _check(pending: torch.Tensor, rows: int) -> None:
    if not 1 <= rows <= pending.shape[1]:
        raise EngineError(f"a step of {rows} rows, but slots hold 1 to {pending.shape[1]} pending tokens")


metadata = register("metadata", torch_form=_torch_form, launch=_launch, fake=_fake)
"""`metadata(slots, pending, given, drafted, length, folded, rope_delta, done, cos, sin, rows, ring, max_len)`.

Integers are int64. Of the batch: slots `[B]`, where 0 is the dummy slot. Of all slots: pending `[slots, Tmax]` the
tokens to feed, given and drafted `[slots]` how many of them are certain and how many drafts, below 0 none; length and
folded `[slots]` the rows committed and the rows in the checkpoint; rope_delta `[slots]` rotary position minus row; done
`[slots]` bool. cos, sin fp32 `[P, R]`, by rotary position. rows: T, the width of the window, at most Tmax; ring: rows
of a Gated DeltaNet ring, 0 where there is none; max_len: rows of a slot in the KV cache.

Returns, with every entry written for padding too:
ids `[B, T]`, 0 from row `count` on; length `[B]`; folded `[B]`; count `[B]`, the rows in use: 0 for the dummy slot and
slots that are done, else given + drafted, cut at T and at the end of the slot; flush `[B]` bool: the history must be
folded before this window, so that the next still finds room in the ring (P + T + Tmax > ring, P = length - folded);
kv_rows `[B, T]`: slot * max_len + row, for padding row 0 of the dummy slot; cos and sin `[B, T, R]` at rotary position
length + t + rope_delta, clamped to the table.

Raises EngineError when rows is not in 1 to Tmax.
"""
