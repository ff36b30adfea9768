"""The end of a run in words."""

from __future__ import annotations

from collections.abc import Sequence

from ocria.batch.tally import Failure
from ocria.events import BatchDone

_MOST_ROWS = 100
_MOST_PAGES = 8
_WIDEST_NAME = 48
_HEAD = ("document", "pages", "status", "why", "what helps")


def summary_line(done: BatchDone) -> str:
    """`3 documents: 2 ok, 1 failed; 40 pages, 1 of them failed, in 12.5 s (3.2 pages/s), 900 tokens`."""
    names = ("ok", "partial", "failed", "skipped", "interrupted")
    counts = [(getattr(done, name), name) for name in names]
    total = sum(count for count, _ in counts)
    documents = ", ".join(f"{count} {name}" for count, name in counts if count) or "none"
    failed = f", {done.failed_pages} of them failed," if done.failed_pages else ""
    speed = f" ({done.pages / done.seconds:.1f} pages/s)" if done.pages and done.seconds > 0 else ""
    tokens = f", {done.tokens_out} tokens" if done.tokens_out else ""
    pages = _plural(done.pages, "page")
    return f"{_plural(total, 'document')}: {documents}; {pages}{failed} in {done.seconds:.1f} s{speed}{tokens}"


def failure_table(failures: Sequence[Failure]) -> list[str]:
    """A line for each failure under a line of titles; nothing where nothing failed."""
    if not failures:
        return []
    rows = [_HEAD, *(_row(failure) for failure in failures[:_MOST_ROWS])]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), *row[3:]]).rstrip()
             for row in rows]  # fmt: skip
    if len(failures) > _MOST_ROWS:
        lines.append(f"and {len(failures) - _MOST_ROWS} more; --progress json tells of all")
    return lines


def _row(failure: Failure) -> tuple[str, str, str, str, str]:
    name = failure.path if len(failure.path) <= _WIDEST_NAME else "…" + failure.path[1 - _WIDEST_NAME :]
    pages = ", ".join(map(str, failure.pages[:_MOST_PAGES])) + (", …" if len(failure.pages) > _MOST_PAGES else "")
    cure = f"({failure.cure})" if failure.cure else ""
    return name, pages or "-", failure.status, failure.why, cure


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
