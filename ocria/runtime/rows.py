"""Which slots the rows of a decode step are."""

from dataclasses import dataclass

import torch

from ocria.runtime.slots import Slots

DENSE = 0.75
"""From this share of live slots on, a step computes a whole run of slots, free ones among them included: a view of
the state costs nothing, while a gather copies every key and value that a step reads."""


@dataclass(frozen=True)
class StepRows:
    """`owned`: the slots that want a token, ascending; `row_of`: their rows; slots, count int64 `[B]` and `run` as in
    `StepInput`. Good for as long as no slot changes hands (`changes`): a free slot among the rows may be taken."""

    owned: tuple[int, ...]
    changes: int
    row_of: dict[int, int]
    slots: torch.Tensor
    count: torch.Tensor
    run: slice | None

    @classmethod
    def choose(cls, owned: tuple[int, ...], slots: Slots, device: str | torch.device) -> "StepRows":
        rows, run = owned, None
        if owned:
            span = range(owned[0], owned[-1] + 1)
            others = set(span).difference(owned)
            # A slot that is taken but gets no token now, a prompt half read, must not be touched.
            if len(owned) >= DENSE * len(span) and all(slots.is_free(slot) for slot in others):
                rows, run = tuple(span), slice(span.start, span.stop)
        wanted = set(owned)
        return cls(
            owned,
            slots.changes,
            {slot: row for row, slot in enumerate(rows)},
            torch.tensor(rows, dtype=torch.int64, device=device),
            torch.tensor([int(slot in wanted) for slot in rows], dtype=torch.int64, device=device),
            run,
        )
