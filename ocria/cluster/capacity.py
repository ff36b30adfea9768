"""From a measured pace to machines and days."""

from __future__ import annotations

import math


def pages_per_hour(pages: int, engine_seconds: float) -> float:
    """Of one engine, from the pages it read and the seconds that took."""
    return 3600 * pages / engine_seconds if engine_seconds > 0 else 0.0


def engines_for(pages: int, days: float, pace: float, busy: float = 1.0) -> int:
    """Engines that read so many pages in so many days.

    Args:
        pace: pages an hour of one engine.
        busy: the share of the time that it reads, in (0, 1]; the rest are starts, restarts and waiting.
    """
    return math.ceil(pages / (pace * busy * 24 * days))


def engine_days(pages: int, pace: float) -> float:
    """Days that one engine would take."""
    return pages / (24 * pace)
