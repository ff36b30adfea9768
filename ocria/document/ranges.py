"""Page ranges such as `1-3,8`: 1-based, physical, in the order of the document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ocria.errors import UsageError

_PART = re.compile(r"\s*(\d+)\s*(?:-\s*(\d*)\s*)?")


def select_pages(pages: str | Sequence[int] | None, count: int) -> list[int]:
    """The chosen page numbers, ascending and each once.

    Args:
        pages: `"1-3,8"`, `"5-"` (to the end), a sequence of numbers, or None for all.
        count: pages of the document.

    Raises:
        UsageError: a malformed or reversed range, or a page that the document does not have.
    """
    if pages is None:
        return list(range(1, count + 1))
    chosen: set[int] = set()
    if isinstance(pages, str):
        for first, last in parse_ranges(pages):
            last = count if last is None else last
            _check(first, count)
            _check(last, count)
            chosen.update(range(first, last + 1))
    else:
        if not isinstance(pages, Iterable):
            raise UsageError(f"pages must be a range or a sequence of numbers, not {pages!r}")
        for number in pages:
            if type(number) is not int:
                raise UsageError(f"{number!r} is not a page number")
            _check(number, count)
            chosen.add(number)
    if not chosen:
        raise UsageError("no pages are chosen")
    return sorted(chosen)


def parse_ranges(text: str) -> list[tuple[int, int | None]]:
    """`(first, last)` of each part, `last` None for an open end.

    Raises:
        UsageError: malformed, reversed, or with a page 0.
    """
    ranges: list[tuple[int, int | None]] = []
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise UsageError(f"{text!r} is not a page range", cure="Write for example 1-3,8")
        first = int(match[1])
        last = first if match[2] is None else int(match[2]) if match[2] else None
        if first < 1:
            raise UsageError(f"there is no page {first}: pages are counted from 1")
        if last is not None and last < first:
            raise UsageError(f"the page range {part.strip()!r} is reversed")
        ranges.append((first, last))
    return ranges


def _check(number: int, count: int) -> None:
    if not 1 <= number <= count:
        has = "1 page" if count == 1 else f"{count} pages"
        raise UsageError(f"page {number} is out of range: the document has {has}")
