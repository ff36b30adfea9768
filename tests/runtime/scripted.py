"""Drafters for tests: they know the answers and spoil them as told."""

import torch

from ocria.spec.chain import Chain
from ocria.spec.source import Drafts


class Scripted:
    """A source without state; `propose` is left to others."""

    name, prior, taps = "scripted", 0.9, ()

    def allocate(self, slots, max_len, device):
        pass

    def bytes_per_slot(self, max_len):
        return 0

    def admit(self, admissions):
        pass


class Oracle(Scripted):
    """Drafts the true continuation of every request, as far as a step has room for it, then spoils it.

    answers: tokens by request id; spoil(drafts, rng): what is proposed instead of the right drafts of one slot, at
    most as many.
    """

    def __init__(self, answers, spoil=None, rng=None):
        self.answers, self.spoil, self.rng = answers, spoil, rng
        self.engine = None

    def propose(self, seen):
        room = seen.rows - 1
        tokens = torch.zeros(len(seen.slots), room, dtype=torch.int64)
        count = torch.zeros(len(seen.slots), dtype=torch.int64)
        for row, slot in enumerate(seen.slots.tolist()):
            if not seen.live[row]:
                continue
            (sequence,) = (s for s in self.engine._scheduler.running.values() if s.slot == slot)
            made = int(seen.length[row]) - (sequence.prompt_len - 1)
            drafts = list(self.answers[sequence.id][made : made + room])
            if self.spoil is not None:
                drafts = self.spoil(drafts, self.rng)
            tokens[row, : len(drafts)] = torch.tensor(drafts, dtype=torch.int64)
            count[row] = len(drafts)
        return Drafts(tokens, count)


def chain(rows, *sources):
    return Chain(sources, rows)


def some_wrong(drafts, rng):
    """A wrong token somewhere, or nowhere; sometimes fewer drafts, or none."""
    drafts = drafts[: int(rng.integers(0, len(drafts) + 1))] if rng.random() < 0.3 else drafts
    return [(token + 1) % 256 if rng.random() < 0.25 else token for token in drafts]


def all_wrong(drafts, rng):
    return [(token + 1 + int(rng.integers(0, 200))) % 256 if token < 256 else 0 for token in drafts]
