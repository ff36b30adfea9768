"""How often drafts hold, by position in the block, as it is now."""

from collections.abc import Sequence

_KEPT = 0.98
"""What a step leaves of the counts before it: the last fifty decide."""
_PRESUMED = 4.0
"""How many trials a presumed rate stands for."""


class DraftRates:
    """Rates at which a draft holds once those before it have. `prior`: before anything is known; positions up to
    `most_rows` - 1. Time is counted in steps, also those that other kinds of steps took: what is not looked at is
    forgotten."""

    def __init__(self, prior: float, most_rows: int):
        self._held, self._tried = [0.0] * (most_rows - 1), [0.0] * (most_rows - 1)
        self._all_held, self._all_tried = prior * 2 * _PRESUMED, 2 * _PRESUMED
        self._now = 0

    def add(self, now: int, rows: int, accepted: Sequence[int]) -> None:
        """Step `now` verified blocks of so many rows. A draft that nobody made where there was room for one counts
        like a wrong one: that row was computed for nothing."""
        self._forget(now)
        ended = [0] * rows
        for count in accepted:
            ended[count] += 1
        self._all_held *= _KEPT
        self._all_tried *= _KEPT
        reached = len(accepted)
        for i in range(rows - 1):
            held = reached - ended[i]
            self._held[i] += held
            self._tried[i] += reached
            self._all_held += held
            self._all_tried += reached
            reached = held

    def tokens(self, now: int) -> list[float]:
        """Expected tokens of a request in a step of 1, 2, … rows. Where little was seen lately a position is as good
        as the one before it, and the first as all drafts were when there last were any."""
        self._forget(now)
        rate = self._all_held / self._all_tried
        expected, reach = [1.0], 1.0
        for held, tried in zip(self._held, self._tried, strict=True):
            rate = (held + _PRESUMED * rate) / (tried + _PRESUMED)
            reach *= rate
            expected.append(expected[-1] + reach)
        return expected

    def tokens_at_best(self, now: int) -> list[float]:
        """The same if one more draft had held at every position: where nothing was seen lately, all will."""
        self._forget(now)
        expected, reach = [1.0], 1.0
        for held, tried in zip(self._held, self._tried, strict=True):
            reach *= (held + 1) / (tried + 1)
            expected.append(expected[-1] + reach)
        return expected

    def _forget(self, now: int) -> None:
        kept = _KEPT ** (now - self._now)
        if kept < 1:
            self._now = now
            self._held = [count * kept for count in self._held]
            self._tried = [count * kept for count in self._tried]
