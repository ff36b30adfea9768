"""Which of the tokens a step chose are real, and what that makes of every slot.

A step computes the choice of the target after each row of its window. A draft is real when it is what the target
chose after the row before it; so a request gets the tokens of plain decoding, whatever the drafts were, greedy or
sampled (exact-match verification: with the draws keyed by position it is lossless). The choice after the last real
row is new and comes for free, so every step yields a token even if all drafts are wrong.

Deciding, cutting at a stop token or the limit, and moving the cursors is one launch: the host reads results late or
never, and the next step does not wait for it.
"""

import math

import torch

from ocria.ops.register import register

RUNNING, STOP, LENGTH, FAILED = range(4)
"""Reasons: the request goes on; a stop token came; its tokens are used up; its logits were not finite numbers."""

Accepted = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def accept_reference(
    chosen: torch.Tensor,
    probability: torch.Tensor,
    ids: torch.Tensor,
    slots: torch.Tensor,
    length: torch.Tensor,
    count: torch.Tensor,
    flush: torch.Tensor,
    pending: torch.Tensor,
    given: torch.Tensor,
    drafted: torch.Tensor,
    length_all: torch.Tensor,
    folded_all: torch.Tensor,
    left: torch.Tensor,
    done: torch.Tensor,
    stop_ids: torch.Tensor,
) -> Accepted:
    """The definition, row by row. Arguments and results as of `accept`."""
    tokens, emitted, reasons = torch.full_like(chosen, -1), torch.zeros_like(slots), torch.zeros_like(slots)
    for b, slot in enumerate(slots.tolist()):
        used = int(count[b])
        if used == 0:
            continue
        held = int(given[slot])
        first = min(max(held, 1), used)
        committed = first
        while committed < used and ids[b, committed] == chosen[b, committed - 1]:
            committed += 1
        out, reason, allowed = [], RUNNING, int(left[slot])
        for t in range(first - 1, committed):
            token = int(chosen[b, t])
            if held != first or math.isnan(probability[b, t]):
                reason = FAILED
            elif token in stop_ids[slot].tolist():
                out.append(token)
                reason = STOP
            else:
                if allowed > 0:
                    out.append(token)
                    allowed -= 1
                reason = LENGTH if allowed <= 0 else RUNNING
            if reason != RUNNING:
                break
        tokens[b, : len(out)] = torch.tensor(out, dtype=tokens.dtype)
        emitted[b], reasons[b] = len(out), reason
        if out:
            pending[slot, 0] = out[-1]
        given[slot], drafted[slot], left[slot] = 1, 0, allowed
        if flush[b]:
            folded_all[slot] = length[b]
        length_all[slot] = length[b] + committed
        done[slot] |= reason != RUNNING
    return tokens, emitted, reasons


def _torch_form(
    chosen: torch.Tensor,
    probability: torch.Tensor,
    ids: torch.Tensor,
    slots: torch.Tensor,
    length: torch.Tensor,
    count: torch.Tensor,
    flush: torch.Tensor,
    pending: torch.Tensor,
    given: torch.Tensor,
    drafted: torch.Tensor,
    length_all: torch.Tensor,
    folded_all: torch.Tensor,
    left: torch.Tensor,
    done: torch.Tensor,
    stop_ids: torch.Tensor,
) -> Accepted:
    rows = chosen.shape[1]
    live = count > 0
    held, allowed = given.index_select(0, slots), left.index_select(0, slots)
    first = torch.minimum(held.clamp(min=1), count)
    row = torch.arange(rows, device=chosen.device)
    committed = count
    if rows > 1:
        draft = (row[1:] >= first[:, None]) & (row[1:] < count[:, None])
        wrong = draft & (ids[:, 1:] != chosen[:, :-1])
        committed = torch.minimum(count, torch.where(wrong, row[1:], rows).amin(dim=1))
    anchor = first - 1
    nth = row - anchor[:, None]  # which of the emitted tokens a row chooses
    stop = (chosen[:, :, None] == stop_ids.index_select(0, slots)[:, None, :]).any(dim=2)
    failed = probability.isnan() | (held != first)[:, None]
    verdict = (nth >= allowed[:, None] - 1) * LENGTH
    verdict = verdict.masked_fill(stop, STOP).masked_fill(failed, FAILED)
    ends = (nth >= 0) & (row < committed[:, None]) & (verdict != RUNNING)
    last = torch.where(ends, row, committed[:, None]).amin(dim=1)
    reason = verdict.gather(1, last.clamp(max=rows - 1)[:, None])[:, 0] * (last < committed)
    keeps_last = (reason == STOP) | ((reason == LENGTH) & (allowed > 0))
    emitted = (last - anchor + keeps_last) * live
    tokens = chosen.gather(1, (row + anchor[:, None]).clamp(0, rows - 1))
    tokens = tokens.masked_fill(row >= emitted[:, None], -1)

    newest = chosen.gather(1, (anchor + emitted - 1).clamp(0, rows - 1)[:, None])[:, 0]
    last_fed = pending[:, 0]
    last_fed.index_copy_(0, slots, torch.where(emitted > 0, newest, last_fed.index_select(0, slots)))
    given.index_copy_(0, slots, held.masked_fill(live, 1))
    drafted.index_copy_(0, slots, drafted.index_select(0, slots).masked_fill(live, 0))
    folded_all.index_copy_(0, slots, torch.where(flush & live, length, folded_all.index_select(0, slots)))
    left.index_copy_(0, slots, allowed - emitted + (reason == STOP))
    length_all.index_add_(0, slots, committed)
    done.index_copy_(0, slots, done.index_select(0, slots) | (reason != RUNNING))
    return tokens, emitted, reason


def _launch(
    chosen: torch.Tensor,
    probability: torch.Tensor,
    ids: torch.Tensor,
    slots: torch.Tensor,
    length: torch.Tensor,
    count: torch.Tensor,
    flush: torch.Tensor,
    pending: torch.Tensor,
    given: torch.Tensor,
    drafted: torch.Tensor,
    length_all: torch.Tensor,
    folded_all: torch.Tensor,
    left: torch.Tensor,
    done: torch.Tensor,
    stop_ids: torch.Tensor,
) -> Accepted:
    from ocria.ops.kernels.accept import launch

    cursors = (pending, given, drafted, length_all, folded_all, left, done, stop_ids)
    return launch(chosen, probability, ids, slots, length, count, flush, *cursors)


def _fake(chosen, probability, ids, slots, *_):
    return torch.empty_like(chosen), torch.empty_like(slots), torch.empty_like(slots)


accept = register(
    "accept",
    torch_form=_torch_form,
    launch=_launch,
    fake=_fake,
    mutates=("pending", "given", "drafted", "length_all", "folded_all", "left", "done"),
)
"""`accept(chosen, probability, ids, slots, length, count, flush, pending, given, drafted, length_all, folded_all,
left, done, stop_ids) -> (tokens, emitted, reason)`.

Integers are int64. Of the window: chosen `[B, T]` the target's choice after each row, probability fp32 `[B, T]` of it
(NaN where its logits were not finite), ids `[B, T]` the tokens fed; slots, length, count `[B]` and flush `[B]` bool as
`metadata` gave them. Of all slots: pending `[slots, Tmax]`, given, drafted, length_all, folded_all `[slots]`, left
`[slots]` how many tokens the request may still get, done `[slots]` bool, stop_ids `[slots, S]` (-1 matches nothing).

Rows 0 to given - 1 are committed in any case; of the drafts after them, those up to the first that is not the choice
of the row before. Emitted are the choices from row given - 1 to the last committed one: `tokens` `[B, T]` (-1 behind
them), `emitted` `[B]` how many, `reason` `[B]` why the request ends, or RUNNING. The first stop token ends it and is
emitted, but not counted against `left`; a stop token wins over the limit. From a row with NaN on nothing is emitted;
a window that does not hold all given rows fails as a whole.

Written in place: length_all grows by the committed rows (one or more), folded_all becomes the old length where flush,
pending[:, 0] the last emitted token, given 1, drafted 0; left, done. Rows with count 0 change nothing and emit nothing.
A live slot at the end of the KV cache has count 0 too: give `left` so that it ends before.
"""
