"""A text for each slot that its answer is presumed to follow, and drafts copied from it."""

import torch

from ocria.ops.align import align
from ocria.ops.upload import upload
from ocria.spec.source import Admission, Drafts, Seen

MOST_TOKENS = 8192
"""A longer text is cut: a dense page has half as many tokens, and every step looks through all of it."""


class References:
    """tokens int64 `[slots, M]`, of which the first `length` int64 `[slots]` are the text; offset int64 `[slots]`:
    where in it an answer is, by its row (see `ocria.ops.align`)."""

    def __init__(self, slots: int, max_len: int, device: torch.device):
        self.tokens = torch.zeros(slots, _room(max_len), dtype=torch.int64, device=device)
        self.length, self.offset = (torch.zeros(slots, dtype=torch.int64, device=device) for _ in range(2))

    @staticmethod
    def bytes_per_slot(max_len: int) -> int:
        """Memory of one slot."""
        return (_room(max_len) + 2) * torch.int64.itemsize

    def place(self, admissions: list[Admission]) -> torch.Tensor:
        """The slots `[n]` of new requests, whose answers stand at the beginning of texts that are empty."""
        rows = [[a.slot, a.chosen - 1 - a.first] for a in admissions]
        slots, offset = upload(rows, self.tokens.device).unbind(1)
        self.offset[slots] = offset
        self.length[slots] = 0
        return slots

    def propose(self, seen: Seen) -> Drafts:
        """What follows in the texts."""
        tokens, count = align(
            seen.slots, seen.anchor, seen.length, seen.first, seen.live, seen.history,
            self.tokens, self.length, self.offset, seen.rows,
        )  # fmt: skip
        return Drafts(tokens, count)


def _room(max_len: int) -> int:
    return min(max_len, MOST_TOKENS)
