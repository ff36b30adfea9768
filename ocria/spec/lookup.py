"""Drafts that are looked up: in the text that a request brings along, and in what was written before."""

import torch

from ocria.ops.align import recur
from ocria.ops.upload import upload
from ocria.spec.reference import References
from ocria.spec.source import Admission, Drafts, Seen


class TextLookup:
    """Copies from the request's guess, such as what a PDF says beside its picture, and ends where the guess ends."""

    name = "lookup"
    prior = 0.97
    taps: tuple[int, ...] = ()

    def __init__(self):
        self.references: References | None = None

    def allocate(self, slots: int, max_len: int, device: torch.device) -> None:
        """See `Source.allocate`."""
        self.references = References(slots, max_len, device)

    def bytes_per_slot(self, max_len: int) -> int:
        """See `Source.bytes_per_slot`."""
        return References.bytes_per_slot(max_len)

    def admit(self, admissions: list[Admission]) -> None:
        """A request without a guess gets no drafts."""
        references = self.references
        references.place(admissions)
        room = references.tokens.shape[1]
        texts = [(a.slot, (*a.guess, *_stop(a))[:room]) for a in admissions if a.guess is not None]
        if not texts:
            return
        longest = max(len(text) for _, text in texts)
        rows = [[slot, len(text), *text, *[0] * (longest - len(text))] for slot, text in texts]
        packed = upload(rows, references.tokens.device)
        slots = packed[:, 0]
        references.length[slots] = packed[:, 1]
        references.tokens[slots, :longest] = packed[:, 2:]

    def propose(self, seen: Seen) -> Drafts:
        """See `Source.propose`."""
        return self.references.propose(seen)


def _stop(admission: Admission) -> tuple[int, ...]:
    return () if admission.stop_id is None else (admission.stop_id,)


class NGramLookup:
    """Copies what followed when the last tokens came before in the same answer: rows of a table, markup, leaders."""

    name = "ngram"
    prior = 0.5
    taps: tuple[int, ...] = ()

    def allocate(self, slots: int, max_len: int, device: torch.device) -> None:
        """Nothing: the history is the chain's."""

    def bytes_per_slot(self, max_len: int) -> int:
        """See `allocate`."""
        return 0

    def admit(self, admissions: list[Admission]) -> None:
        """See `allocate`."""

    def propose(self, seen: Seen) -> Drafts:
        """See `Source.propose`."""
        columns = (seen.slots, seen.anchor, seen.length, seen.first, seen.live, seen.history)
        return Drafts(*recur(*columns, seen.rows, seen.kv_len))
