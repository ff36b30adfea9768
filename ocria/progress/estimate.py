"""How fast pages come, and when the rest will be done."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from ocria.events import (
    BatchStarted,
    DocumentDone,
    DocumentFailed,
    DocumentSkipped,
    DocumentStarted,
    Event,
    PageDone,
)

_RECENT_PAGES = 24
_RECENT_S = 10.0
_LEAST_PAGES = 2
"""Before the second page is done nothing is known: the first one waits for the model to load."""


@dataclass(frozen=True, slots=True)
class Left:
    """Time until the end. `rough`: pages of later documents are not known, and guessed from those that are done."""

    seconds: float
    rough: bool = False


@dataclass(slots=True)
class Reading:
    """A document that is being read."""

    pages: int
    done: int = 0


class Estimate:
    """Keeps count of a run from its events. The pace is that of the last pages, at least 24 and 10 seconds of them,
    and it falls while no page comes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._times: deque[float] = deque()
        self.documents = 0
        self.ended: set[str] = set()
        self.reading: dict[str, Reading] = {}
        """By path, of documents that have begun and not ended."""
        self._pages: int | None = None
        self._done = 0
        self._unseen = False
        """Whether a document ended whose pages were never told: then the total says little about the rest."""
        self._whole: list[int] = []
        """Pages of each document that was read to its end."""

    def see(self, event: Event) -> None:
        """Count an event."""
        match event:
            case BatchStarted():
                self.documents, self._pages = event.documents, event.pages
            case DocumentStarted():
                self.documents = max(self.documents, event.documents)
                self.reading[event.path] = Reading(event.pages)
                if not self._times:
                    self._times.append(self._clock())
            case PageDone():
                self._done += 1
                if event.path in self.reading:
                    self.reading[event.path].done += 1
                self._tell(self._clock())
            case DocumentDone() | DocumentFailed() | DocumentSkipped():
                self._end(event.path)

    @property
    def documents_left(self) -> int:
        """Not done yet, those that are being read included."""
        return max(0, self.documents - len(self.ended))

    def pages_per_s(self) -> float | None:
        """Of the last pages; None while too few are done."""
        pages, span = len(self._times) - 1, self._clock() - self._times[0] if self._times else 0.0
        return pages / span if pages >= _LEAST_PAGES and span > 0 else None

    def gaps(self) -> list[float]:
        """Seconds between the last pages that were done, as few or as many as `pages_per_s` looks at."""
        return [after - before for before, after in pairwise(self._times)]

    def left_of(self, path: str) -> Left | None:
        """Of one document; None where it cannot be told yet."""
        return self._at_pace(self._missing(self.reading[path])) if path in self.reading else None

    def left(self) -> Left | None:
        """Of the whole run; None while nothing is known about documents that have not begun."""
        here = sum(map(self._missing, self.reading.values()))
        later = max(0, self.documents_left - len(self.reading))
        if not later:
            return self._at_pace(here)
        if self._pages is not None and not self._unseen:
            return self._at_pace(max(here, self._pages - self._done))
        known = [*self._whole, *(reading.pages for reading in self.reading.values())] if self._whole else []
        return self._at_pace(here + later * sum(known) / len(known), rough=True) if known else None

    def _end(self, path: str) -> None:
        self.ended.add(path)
        reading = self.reading.pop(path, None)
        if reading is None:
            self._unseen = True
        else:
            self._whole.append(reading.pages)

    def _tell(self, now: float) -> None:
        self._times.append(now)
        while len(self._times) > _RECENT_PAGES + 1 and now - self._times[1] > _RECENT_S:
            self._times.popleft()

    def _at_pace(self, pages: float, rough: bool = False) -> Left | None:
        pace = self.pages_per_s()
        return None if pace is None else Left(pages / pace, rough)

    @staticmethod
    def _missing(reading: Reading) -> int:
        return max(0, reading.pages - reading.done)
