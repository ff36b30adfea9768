"""Which slots the rows of a step are."""

from dataclasses import dataclass

import torch

from ocria.ops.upload import upload
from ocria.runtime.slots import DUMMY

DENSE = 0.75
"""From this share of wanted slots on, a step computes a whole run of slots, others among them included: a view of
the state costs nothing, while a gather copies every key and value that a step reads. A step leaves slots alone that
are done or not yet decoding, so the others need no care."""
BUCKETS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Numbers of rows for which steps are captured or compiled."""


@dataclass(frozen=True)
class StepRows:
    """`owned`: the slots that want a token, ascending; `row_of`: their rows; slots int64 `[B]` and `first_slot` as in
    `StepInput`."""

    owned: tuple[int, ...]
    row_of: dict[int, int]
    slots: torch.Tensor
    first_slot: int | None

    @classmethod
    def choose(cls, owned: tuple[int, ...], device: str | torch.device) -> "StepRows":
        """Exactly these slots, or a run of slots that they nearly fill."""
        rows, first = owned, None
        if owned:
            span = range(owned[0], owned[-1] + 1)
            if len(owned) >= DENSE * len(span):
                rows, first = tuple(span), span.start
        return cls._of(owned, rows, first, device)

    @classmethod
    def leading(cls, owned: tuple[int, ...], device: str | torch.device) -> "StepRows":
        """All slots from the first on, to the last of these. Slots are given out from the front, so few are idle."""
        rows = tuple(range(1, owned[-1] + 1)) if owned else ()
        return cls._of(owned, rows, 1, device)

    @classmethod
    def bucketed(cls, owned: tuple[int, ...], device: str | torch.device) -> "StepRows":
        """These slots, padded with the dummy to the next bucket; past the largest one, exactly these."""
        size = bucket_of(len(owned))
        return cls._of(owned, owned + (DUMMY,) * (size - len(owned)), None, device)

    @classmethod
    def _of(cls, owned, rows, first, device) -> "StepRows":
        wanted = set(owned)
        row_of = {slot: row for row, slot in enumerate(rows) if slot in wanted}
        return cls(owned, row_of, upload(rows, device, torch.int64), first)


def bucket_of(count: int) -> int:
    """The smallest bucket that holds `count` rows; beyond the largest, `count` itself."""
    return next((size for size in BUCKETS if size >= count), count)
