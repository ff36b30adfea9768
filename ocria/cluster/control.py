"""What all processes of a run ask and tell: whether to stop, who has begun what, and how far it is."""

from __future__ import annotations

from collections import Counter
from typing import Any

STOP = 0


class Control:
    """An actor beside the driver; its methods take microseconds.

    Args:
        done: a reference to `Done`, in a list so that Ray leaves it one.
    """

    def __init__(self, done: list[Any]) -> None:
        self._done = done
        self._stopped = False
        self._begun: Counter[str] = Counter()
        self._parts: dict[str, set[int]] = {}
        self._last_part: dict[str, int] = {}
        self._counts: Counter[str] = Counter()
        self._skipped: Counter[int] = Counter()
        self._listed_all = False
        self._loads = 0

    def stop(self) -> None:
        """Nothing more is begun."""
        self._stopped = True

    def is_stopped(self) -> bool:
        return self._stopped

    def done(self) -> list[Any]:
        """As it was given."""
        return self._done

    def load(self) -> int:
        """An engine begins to load its model: how many have, this one included, since one had it."""
        self._loads += 1
        return self._loads

    def loaded(self) -> None:
        """An engine has its model."""
        self._loads = 0

    def begin(self, job: str) -> int:
        """How often this job was begun, this time included; `STOP` where nothing is to be begun any more."""
        if self._stopped:
            return STOP
        self._begun[job] += 1
        return self._begun[job]

    def end(self, job: str) -> None:
        """The job was read: its process did not end over it."""
        self._begun.pop(job, None)

    def add(self, **counts: int) -> None:
        """Count what happened, by name."""
        self._counts.update(counts)

    def skip(self, codes: dict[int, int]) -> None:
        """Count rows that an earlier run has done, by what they came to."""
        self._skipped.update(codes)

    def listed_all(self) -> None:
        """All rows are listed."""
        self._listed_all = True

    def part_done(self, row: str, part: int, parts: int) -> bool:
        """A part is kept. True for the one that was the last of its row, however often it asks."""
        done = self._parts.setdefault(row, set())
        done.add(part)
        if len(done) < parts:
            return False
        return self._last_part.setdefault(row, part) == part

    def counts(self) -> tuple[dict[str, int], dict[int, int], bool]:
        """Counts by name, skipped rows by code, and whether all rows are listed."""
        return dict(self._counts), dict(self._skipped), self._listed_all
