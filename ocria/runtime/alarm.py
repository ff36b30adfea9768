"""The alarm for answers whose drafts suddenly hold: a model that starts to repeat itself is easy to draft for.

Acceptance that rises far above its own level looks like speed, and is often the first sign of a state that was damaged
or of a model that lost its place. Honest text can do the same (a table of zeros after prose), so the alarm wants both,
the rise and a text that repeats, and ends nothing: that is the guard's part, which waits until no image could hold the
repetition.
"""

import math
from collections import deque
from collections.abc import Sequence

from ocria.runtime.guard import find_loop

RECENT = 256
"""Trials, drafts that held and those that ended a block, that count as recent."""
LEVEL = 256
"""Trials before them without which there is no level to rise above: short answers have none."""
RISE = 2.0
"""How many times as rare the drafts that fail must have become,"""
BEYOND_CHANCE = 4.0
"""and by how many standard deviations: it is looked for at every step."""
PART_OF_LOOP = 4
"""The repetition is this part of what the guard ends an answer for, or longer."""


class AcceptanceAlarm:
    """Watches one answer. `rang_at`: its tokens when the alarm rang, which it does once; None if it has not."""

    def __init__(self) -> None:
        self.rang_at: int | None = None
        self._recent: deque[tuple[int, int]] = deque()  # of each step: trials, and whether the last one failed
        self._trials = self._failed = 0  # the sums of `_recent`
        self._before = self._failed_before = 0  # and before them

    def watch(self, drafted: int, accepted: int, tokens: Sequence[int], loop_tokens: int) -> None:
        """One step of the answer, which has these output tokens so far; loop_tokens: see `Bounds`."""
        if self.rang_at is not None or not drafted:
            return
        failed = int(accepted < drafted)
        self._recent.append((accepted + failed, failed))
        self._trials += accepted + failed
        self._failed += failed
        while self._trials - self._recent[0][0] >= RECENT:
            trials, failed = self._recent.popleft()
            self._trials, self._failed = self._trials - trials, self._failed - failed
            self._before, self._failed_before = self._before + trials, self._failed_before + failed
        if self._risen() and find_loop(tokens, max(2, loop_tokens // PART_OF_LOOP)) is not None:
            self.rang_at = len(tokens)

    def _risen(self) -> bool:
        if self._trials < RECENT or self._before < LEVEL:
            return False
        expected = self._trials * self._failed_before / self._before
        return self._failed < min(expected / RISE, expected - BEYOND_CHANCE * math.sqrt(expected))
