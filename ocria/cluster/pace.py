"""Lines of progress."""

from __future__ import annotations

from ocria.progress.lines import duration, plural


class Pace:
    """How fast a run goes. The first line has only its beginning to compare with."""

    def __init__(self) -> None:
        self._pages, self._at = 0, None
        self._first: tuple[int, float] | None = None

    def line(self, counts: dict[str, int], skipped: dict[int, int], listed_all: bool, now: float) -> str:
        """`12 of 40+ documents (3 of them before), 130 pages, 5.2 pages/s, 1 failed, 2 pages failed, 3 min left`.

        Args:
            counts, skipped, listed_all: as `Control.counts` gives them.
            now: seconds of a clock that only goes forward.
        """
        done, before = counts.get("documents", 0), sum(skipped.values())
        listed, pages = counts.get("listed", 0), counts.get("pages", 0)
        parts = [f"{done + before} of {listed}{'' if listed_all else '+'} documents"]
        if before:
            parts[0] += f" ({before} of them before)"
        parts.append(plural(pages, "page"))
        if self._at is not None and now > self._at:
            parts.append(f"{(pages - self._pages) / (now - self._at):.1f} pages/s")
        if counts.get("failed"):
            parts.append(f"{counts['failed']} failed")
        if counts.get("bad_pages"):
            parts.append(f"{plural(counts['bad_pages'], 'page')} failed")
        if (left := self._left(done, listed - done - before, now)) is not None and listed_all:
            parts.append(f"{duration(left)} left")
        self._pages, self._at = pages, now
        return ", ".join(parts)

    def _left(self, done: int, missing: int, now: float) -> float | None:
        """Seconds, by the documents that were done since the first line."""
        if self._first is None:
            self._first = done, now
            return None
        ready, since = done - self._first[0], now - self._first[1]
        return missing * since / ready if ready > 0 else None
