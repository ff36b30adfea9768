"""When the rest will be done, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import mean, variance

from ocria.progress.lines import duration
from ocria_tui.state import AppState

_LEAST_GAPS = 3
"""With fewer gaps between pages nothing can be said of how much they differ."""


@dataclass(frozen=True, slots=True)
class Eta:
    """Seconds until the end: the best guess, and from where to where it lies about 19 times in 20 where pages go on
    coming as the last ones did. rough: pages of documents that wait are not known, and guessed from the others."""

    seconds: float
    low: float
    high: float
    rough: bool = False

    def __str__(self) -> str:
        """`2:10`, `1:50-2:30`, `~1:50-2:30`."""
        low, high = duration(self.low), duration(self.high)
        return ("~" if self.rough else "") + (low if low == high else f"{low}-{high}")


def eta(state: AppState) -> Eta | None:
    """Of all documents; None while it cannot be told and when nothing is left."""
    pages, rough = float(state.pages_left), False
    if state.unopened:
        known = [len(document.pages) for document in state.documents.values() if document.pages]
        if not known:
            return None
        pages, rough = pages + state.unopened * mean(known), True
    pace = state.estimate.pages_per_s()
    if pace is None or not pages:
        return None
    seconds = pages / pace
    gaps = state.estimate.gaps()
    if len(gaps) < _LEAST_GAPS:
        return Eta(seconds, seconds, seconds, rough)
    # A sum of `pages` gaps, whose mean is itself known from only so many of them.
    spread = 2 * math.sqrt(variance(gaps) * (pages + pages * pages / len(gaps)))
    return Eta(seconds, max(0.0, seconds - spread), seconds + spread, rough)
