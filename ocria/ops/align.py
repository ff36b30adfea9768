"""Drafts that are copied: from a text that the answer is presumed to follow, and from the answer itself.

`align` finds where in a reference text an answer has come to, and proposes what follows there. The answer strays from
its reference: it has other tokens, more of them, fewer, or goes on at another place. So every place in the reference
is weighed by how many of the last tokens match the ones that end there, against its distance from the presumed place,
as if a token were worth three bits and a place cost the bits of its distance: one token finds a place 3 tokens away,
two one 31 away, five any. Where nothing matches, the last token counts as one that the reference lacks, so that the
place waits while an answer writes what the reference has not, such as markup.

The numbers are the best of those tried on lines of scans and on pages of PDFs, with bytes and with words as tokens: a
token worth more goes astray in lines, a dearer distance loses the place in pages, and a context of more than 6 tokens
changes nothing. To take a strange token for one that was exchanged costs 4 to 7 % more steps in pages and about the
same in lines, where letters are as often left out as exchanged.

`recur` proposes what followed when the last tokens came before.

The torch forms and the kernels compute with integers alone and agree exactly.
"""

import torch
import torch.nn.functional as F

from ocria.errors import EngineError
from ocria.ops.register import register

CONTEXT = 8
"""Tokens that are compared at the most, the anchor included."""
MATCH = 3
"""What a token that matches weighs, against the bits of the distance."""
LEAST = 3
"""Tokens that must match before `recur` proposes anything."""

Copied = tuple[torch.Tensor, torch.Tensor]
SHIFT = 32
"""Bits of a place, below those of its weight."""


def align_reference(
    slots: torch.Tensor,
    anchor: torch.Tensor,
    length: torch.Tensor,
    first: torch.Tensor,
    live: torch.Tensor,
    history: torch.Tensor,
    reference: torch.Tensor,
    reference_len: torch.Tensor,
    offset: torch.Tensor,
    rows: int,
) -> Copied:
    """The definition, place by place. Arguments and results as of `align`."""
    tokens, count = slots.new_zeros(len(slots), rows - 1), torch.zeros_like(slots)
    for b, slot in enumerate(slots.tolist()):
        if not live[b]:
            continue
        row = int(length[b])
        answer = [*history[slot, int(first[b]) + 1 : row].tolist(), *([int(anchor[b])] if row > first[b] else [])]
        text = reference[slot, : int(reference_len[slot])].tolist()
        presumed = max(row + int(offset[slot]), -1)

        def weight(place, answer=answer, text=text, presumed=presumed):
            distance = abs(place - presumed)
            # Of equal ones the nearer place, of two equally near the one ahead.
            return MATCH * _suffix(answer, text[: place + 1]) - distance.bit_length(), -distance, place

        place = max(range(len(text)), key=weight, default=presumed)
        if not text or weight(place)[0] <= 0:
            place = max(presumed - bool(answer), -1)
        offset[slot] = place - row
        follows = text[place + 1 :][: rows - 1]
        tokens[b, : len(follows)] = torch.tensor(follows, dtype=tokens.dtype)
        count[b] = len(follows)
    return tokens, count


def recur_reference(
    slots: torch.Tensor,
    anchor: torch.Tensor,
    length: torch.Tensor,
    first: torch.Tensor,
    live: torch.Tensor,
    history: torch.Tensor,
    rows: int,
    kv_len: int,
) -> Copied:
    """The definition, place by place. Arguments and results as of `recur`."""
    tokens, count = slots.new_zeros(len(slots), rows - 1), torch.zeros_like(slots)
    for b, slot in enumerate(slots.tolist()):
        if not live[b] or length[b] <= first[b]:
            continue
        answer = [*history[slot, int(first[b]) + 1 : int(length[b])].tolist(), int(anchor[b])]
        matches = [_suffix(answer, answer[: end + 1]) for end in range(len(answer) - 1)]
        best = max(range(len(matches)), key=lambda end: (matches[end], end), default=None)
        if best is None or matches[best] < LEAST:
            continue
        for k in range(rows - 1):
            answer.append(answer[best + 1 + k])
        tokens[b] = torch.tensor(answer[len(answer) - rows + 1 :])
        count[b] = rows - 1
    return tokens, count


def _suffix(a: list[int], b: list[int]) -> int:
    """Length of the common end of two texts, at most CONTEXT."""
    most = min(len(a), len(b), CONTEXT)
    return next((k for k in range(most) if a[-1 - k] != b[-1 - k]), most)


def _align_torch(
    slots: torch.Tensor,
    anchor: torch.Tensor,
    length: torch.Tensor,
    first: torch.Tensor,
    live: torch.Tensor,
    history: torch.Tensor,
    reference: torch.Tensor,
    reference_len: torch.Tensor,
    offset: torch.Tensor,
    rows: int,
) -> Copied:
    _check(rows)
    end = reference_len.index_select(0, slots)[:, None]
    if not torch.compiler.is_compiling():  # on the CPU, where looking costs nothing and the texts are mostly short
        reference = reference[:, : max(1, int(end.max()))]
    text = reference.index_select(0, slots)
    old = offset.index_select(0, slots)
    presumed = (length + old).clamp(min=-1)
    place = torch.arange(text.shape[1], device=slots.device)
    away = place - presumed[:, None]
    distance = away.abs()
    bits = ((distance.float().view(torch.int32) >> 23) - 126).clamp(min=0)  # from the exponent of its float
    weight = MATCH * _matches(text, slots, anchor, length, first, history).int() - bits
    # One number for the order of places: weight, then nearness, then ahead before behind.
    order = (weight.long() << SHIFT) - (2 * distance + (away < 0))
    best = order.masked_fill(place >= end, -1).amax(dim=1).clamp(min=0)
    near = -best & ((1 << SHIFT) - 1)
    found = presumed + torch.where((near & 1) == 1, -(near >> 1), near >> 1)
    at = torch.where(best > 0, found, (presumed - (length > first).long()).clamp(min=-1))
    offset.index_copy_(0, slots, torch.where(live, at - length, old))
    ahead = at[:, None] + torch.arange(1, rows, device=slots.device)
    valid = (ahead < end) & live[:, None]
    tokens = text.gather(1, ahead.clamp(max=text.shape[1] - 1)).masked_fill(~valid, 0)
    return tokens, valid.sum(dim=1)


def _recur_torch(
    slots: torch.Tensor,
    anchor: torch.Tensor,
    length: torch.Tensor,
    first: torch.Tensor,
    live: torch.Tensor,
    history: torch.Tensor,
    rows: int,
    kv_len: int,
) -> Copied:
    _check(rows)
    text = history[:, :kv_len].index_select(0, slots)
    row = torch.arange(text.shape[1], device=slots.device)
    inside = (row - first[:, None]).clamp(min=0)  # tokens of the answer up to here
    matches = torch.minimum(_matches(text, slots, anchor, length, first, history), inside)
    order = ((matches.long() << SHIFT) + row).masked_fill(row >= length[:, None], 0).amax(dim=1)
    best = order & ((1 << SHIFT) - 1)
    enough = live & (order >> SHIFT >= LEAST)
    # What followed; behind the anchor the drafts themselves repeat.
    period = (length - best).clamp(min=1)[:, None]
    source = best[:, None] + 1 + torch.arange(rows - 1, device=slots.device) % period
    tokens = text.gather(1, source.clamp(0, text.shape[1] - 1))
    tokens = torch.where(source == length[:, None], anchor[:, None], tokens).masked_fill(~enough[:, None], 0)
    return tokens, enough * (rows - 1)


def _matches(
    text: torch.Tensor,
    slots: torch.Tensor,
    anchor: torch.Tensor,
    length: torch.Tensor,
    first: torch.Tensor,
    history: torch.Tensor,
) -> torch.Tensor:
    """How many of the last tokens of the answers end each place of text `[B, M]`: int8 `[B, M]`, at most CONTEXT."""
    back = torch.arange(CONTEXT, dtype=torch.int64, device=slots.device)
    row = length[:, None] - back
    answer = torch.where(back == 0, anchor[:, None], history[slots[:, None], row.clamp(0, history.shape[1] - 1)])
    answer = answer.masked_fill(row <= first[:, None], -1)
    windows = F.pad(text.flip(1), (0, CONTEXT - 1), value=-2).unfold(1, CONTEXT, 1)
    same = windows == answer[:, None, :]
    return back.to(torch.int8).masked_fill(same, CONTEXT).amin(dim=2).flip(1)


def _check(rows: int) -> None:
    if rows < 2:
        raise EngineError(f"a step of {rows} rows has no room for drafts")


def _align_launch(
    slots: torch.Tensor,
    anchor: torch.Tensor,
    length: torch.Tensor,
    first: torch.Tensor,
    live: torch.Tensor,
    history: torch.Tensor,
    reference: torch.Tensor,
    reference_len: torch.Tensor,
    offset: torch.Tensor,
    rows: int,
) -> Copied:
    from ocria.ops.kernels.align import launch_align

    _check(rows)
    return launch_align(slots, anchor, length, first, live, history, reference, reference_len, offset, rows)


def _recur_launch(
    slots: torch.Tensor,
    anchor: torch.Tensor,
    length: torch.Tensor,
    first: torch.Tensor,
    live: torch.Tensor,
    history: torch.Tensor,
    rows: int,
    kv_len: int,
) -> Copied:
    from ocria.ops.kernels.align import launch_recur

    _check(rows)
    return launch_recur(slots, anchor, length, first, live, history, rows)


def _align_fake(slots, anchor, length, first, live, history, reference, reference_len, offset, rows):
    return slots.new_empty(slots.shape[0], rows - 1), torch.empty_like(slots)


def _recur_fake(slots, anchor, length, first, live, history, rows, kv_len):
    return slots.new_empty(slots.shape[0], rows - 1), torch.empty_like(slots)


align = register("align", torch_form=_align_torch, launch=_align_launch, fake=_align_fake, mutates=("offset",))
"""`align(slots, anchor, length, first, live, history, reference, reference_len, offset, rows) -> (tokens, count)`.

Integers are int64. Of the batch `[B]`: slots, where 0 is the dummy; anchor, the last token chosen; length, its row;
first, the row of the last prompt token; live bool, the others propose nothing. Of all slots: history
`[slots, max_len]`, tokens by row, where first + 1 .. length - 1 are the answer so far, to which the anchor belongs from
row first + 1 on; reference `[slots, M]` and reference_len `[slots]`, tokens from 0 on; offset `[slots]`: row + offset
is where in the reference the token of a row presumably is, -1 before its beginning, as at the first step. rows: T.

The place of the anchor is the one of the largest weight: MATCH for each of the last tokens that the reference has there
too, less the bits of its distance from the presumed place, floor(log2(distance)) + 1; of equal ones the nearest, and of
two equally near the one ahead. Where no weight is above 0 it is the one before the presumed place, as if the reference
lacked the anchor; before anything is written, the presumed place.

Returns tokens `[B, T - 1]`, what follows there, and count `[B]`, how many of them the reference has; 0 behind them.
Writes offset, so that it fits the place. Rows that are not live change nothing. Raises EngineError when rows < 2.
"""

recur = register("recur", torch_form=_recur_torch, launch=_recur_launch, fake=_recur_fake)
"""`recur(slots, anchor, length, first, live, history, rows, kv_len) -> (tokens, count)`.

Arguments as of `align`; kv_len: the anchors of live slots lie in rows before this one. Finds where most of the last
tokens (LEAST to CONTEXT) stood in the answer before, of several places the latest, and proposes the T - 1 tokens that
followed; behind the anchor it repeats its own drafts, so that a period goes on. Returns tokens `[B, T - 1]` and count
`[B]`: T - 1, or 0 where nothing came before. Raises EngineError when rows < 2.
"""
