"""The pages that are read: the user's, or drawn ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ocria.document.source import open_source


@dataclass(frozen=True, slots=True)
class PageRef:
    """A page of a file; numbers are 1-based."""

    path: str
    number: int


@contextlib.contextmanager
def open_pages(files: Sequence[str]) -> Iterator[list[PageRef]]:
    """Every page of these files; of none, drawn pages of print as scans of several qualities, always the same ones,
    which are there until the block ends. Raises what opening a file raises."""
    if files:
        yield [PageRef(path, number) for path in files for number in range(1, _page_count(path) + 1)]
        return
    from ocria.quant.calibration.made import made_pages

    with made_pages() as paths:
        yield [PageRef(str(path), 1) for path in paths]


def _page_count(path: str | Path) -> int:
    source = open_source(path)
    try:
        return source.page_count
    finally:
        source.close()
