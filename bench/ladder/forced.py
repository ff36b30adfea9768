"""Drafts that hold as often as they are told to: how fast would a trained drafter make a model with random weights?

No drafter drafts for random weights, and no trained one can be had for them. So the network drafts as it always does,
and what it drafts is replaced by the right continuation with an error at the place that a schedule asks for. The time
of drafting and verifying is real, and so is the verification: a draft holds because the target chooses that token.
What is not real is how many hold. Whoever prints such a speed says "forced".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from ocria.errors import UsageError
from ocria.spec.network import NetworkDrafts
from ocria.spec.source import Admission, Drafts, Seen

_SPREAD = (0, 5, -5, 4, -2, 3, -4, -1)
"""Windows differ, as those of real drafters do; adds up to nothing."""


def schedule(mean: float, rows: int) -> tuple[int, ...]:
    """Accept lengths of eight windows, to be taken in turn: whole numbers from 1 to `rows` around `mean`, which is
    their mean to an eighth. Raises UsageError for a mean that windows of so many rows cannot have."""
    if not 1 <= mean <= rows:
        raise UsageError(f"{mean:g} tokens cannot be accepted of {rows} rows", cure="Between 1 and the rows of a step.")
    total = round(8 * mean)
    room = min(mean - 1, rows - math.ceil(mean))
    lengths = [total // 8 + round(offset * min(1.0, room / 5)) + (place < total % 8)
               for place, offset in enumerate(_SPREAD)]
    lengths = [min(max(length, 1), rows) for length in lengths]
    for place in range(8):  # what rounding moved
        moved = min(max(total - sum(lengths), 1 - lengths[place]), rows - lengths[place])
        lengths[place] += moved
    return tuple(lengths)


class Forced:
    """A source like `inner`, whose drafts are replaced.

    successor: int64 `[V]`, the token that the target chooses after each token. lengths: accept lengths of a slot's
    windows, in turn; those beyond the rows of a step become the whole step. All on the device, without a host read, so
    that it is part of a graph as the network itself is.
    """

    def __init__(self, inner: NetworkDrafts, successor: torch.Tensor, lengths: Sequence[int]):
        self.inner, self.network, self.prior, self.taps = inner, inner.network, inner.prior, inner.taps
        self.lengths = tuple(lengths)
        self.name = f"{inner.name}, forced"
        ahead = [successor]
        for _ in range(inner.config.block_size - 2):
            ahead.append(successor[ahead[-1]])
        self._ahead = torch.stack(ahead, dim=1)  # of each token, what follows it: one look-up a step
        self._schedule = torch.tensor(self.lengths, dtype=torch.int64, device=successor.device)
        self._windows: torch.Tensor | None = None  # of each slot, so far

    @property
    def accept_length(self) -> float:
        """Mean of the schedule."""
        return sum(self.lengths) / len(self.lengths)

    def allocate(self, slots: int, max_len: int, device: torch.device) -> None:
        """See `Source.allocate`."""
        self._windows = torch.zeros(slots, dtype=torch.int64, device=device)
        self.inner.allocate(slots, max_len, device)

    def bytes_per_slot(self, max_len: int) -> int:
        """See `Source.bytes_per_slot`."""
        return torch.int64.itemsize + self.inner.bytes_per_slot(max_len)

    def admit(self, admissions: list[Admission]) -> None:
        """Every request begins its schedule anew."""
        for admission in admissions:
            self._windows[admission.slot].zero_()
        self.inner.admit(admissions)

    def propose(self, seen: Seen) -> Drafts:
        """What the network drafts, replaced: right up to the place of the error, and any token from there on."""
        drafts = self.inner.propose(seen)
        right = self._ahead.index_select(0, seen.anchor)[:, : drafts.tokens.shape[1]]
        turn = self._windows.index_select(0, seen.slots)
        length = self._schedule[turn % len(self.lengths)]
        self._windows.index_copy_(0, seen.slots, turn + seen.live)
        # A window commits its right drafts and the token behind them.
        wrong = torch.arange(right.shape[1], device=right.device) >= length[:, None] - 1
        tokens = torch.where(wrong, (right + 1) % len(self._ahead), right)
        # A compiler would leave out a network that nothing depends on, and cannot know that no token is below 0.
        count = drafts.count.masked_fill((drafts.tokens < 0).any(dim=1), 0)
        return Drafts(F.pad(tokens, (0, drafts.tokens.shape[1] - tokens.shape[1])), count)

    def extend(self, *arguments: Any) -> None:
        """See `Source.extend`."""
        self.inner.extend(*arguments)
