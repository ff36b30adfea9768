"""Drafters for tests: they know the answers and spoil them as told."""

import torch


class Oracle:
    """Drafts the true continuation of every request, up to `rows - 1` tokens, then spoils it.

    answers: tokens by request id; spoil(drafts, rng): what is proposed instead of the right drafts of one slot, at
    most as many. `drafted` and `right` count what was proposed and how much of it was the truth.
    """

    def __init__(self, rows, answers, spoil=None, rng=None):
        self.rows, self.answers, self.spoil, self.rng = rows, answers, spoil, rng
        self.engine = None

    def propose(self, buffers, slots):
        for slot in slots.tolist():
            if slot == 0 or buffers.done[slot]:
                continue
            (sequence,) = (s for s in self.engine._scheduler.running.values() if s.slot == slot)
            made = int(buffers.length[slot]) - (sequence.prompt_len - 1)
            drafts = list(self.answers[sequence.id][made : made + self.rows - 1])
            if self.spoil is not None:
                drafts = self.spoil(drafts, self.rng)
            buffers.pending[slot, 1 : 1 + len(drafts)] = torch.tensor(drafts, dtype=torch.int64)
            buffers.drafted[slot] = len(drafts)


def some_wrong(drafts, rng):
    """A wrong token somewhere, or nowhere; sometimes fewer drafts, or none."""
    drafts = drafts[: int(rng.integers(0, len(drafts) + 1))] if rng.random() < 0.3 else drafts
    return [(token + 1) % 256 if rng.random() < 0.25 else token for token in drafts]


def all_wrong(drafts, rng):
    return [(token + 1 + int(rng.integers(0, 200))) % 256 if token < 256 else 0 for token in drafts]
