"""The checks, one dataclass per kind; `failure` says what is wrong with an output, or None where nothing is.

Names and meaning of fields are those of olmOCR-bench's JSONL. `max_diffs` is a number of edits: a text is found where
`rapidfuzz.fuzz.partial_ratio` is at least 1 - max_diffs / length, a cell where `ratio` is (never below a half).
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from rapidfuzz import fuzz

from .grids import Grid, grids
from .plain import searchable


class Check(Protocol):
    def failure(self, markdown: str) -> str | None:
        """None if the reader's output (Markdown) passes, else what is wrong."""


def first_and_last(needle: str, text: str, max_diffs: int) -> tuple[int, int] | None:
    """Starts of the first and the last place of `text` that differ from `needle` by at most `max_diffs`."""
    best = _match(needle, text, max_diffs)
    if best is None:
        return None
    first = last = best
    while earlier := _match(needle, text[: first[0]], max_diffs):
        first = earlier
    while later := _match(needle, text[last[1] :], max_diffs):
        last = later[0] + last[1], later[1] + last[1]
    return first[0], last[0]


def _match(needle: str, text: str, max_diffs: int) -> tuple[int, int] | None:
    """Start and end of the best match."""
    if not _long_enough(needle, text, max_diffs):
        return None
    best = fuzz.partial_ratio_alignment(needle, text, score_cutoff=_cutoff(needle, max_diffs))
    return (best.dest_start, best.dest_end) if best and best.dest_end > best.dest_start else None


def _cutoff(needle: str, max_diffs: int) -> float:
    return max(0.0, 100 * (1 - max_diffs / len(needle)) - 1e-6)


def _long_enough(needle: str, text: str, max_diffs: int) -> bool:
    """Whether the text can hold the needle: else the ratio would look for the text in the needle."""
    return len(text) >= max(1, len(needle) - max_diffs)


def _found(needle: str, text: str, max_diffs: int) -> bool:
    return _long_enough(needle, text, max_diffs) and fuzz.partial_ratio(needle, text) >= _cutoff(needle, max_diffs)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


@dataclass(frozen=True, slots=True)
class Present:
    """A text is there; with `first_n` or `last_n` within so many characters of the start or the end."""

    text: str
    max_diffs: int = 0
    case_sensitive: bool = True
    first_n: int | None = None
    last_n: int | None = None

    def _is_there(self, markdown: str) -> bool:
        needle, text = searchable(self.text), searchable(markdown)
        if not self.case_sensitive:
            needle, text = needle.lower(), text.lower()
        if self.first_n or self.last_n:
            text = text[: self.first_n or 0] + (text[-self.last_n :] if self.last_n else "")
        return _found(needle, text, self.max_diffs)

    def failure(self, markdown: str) -> str | None:
        return None if self._is_there(markdown) else f"missing: {_short(self.text)}"


@dataclass(frozen=True, slots=True)
class Absent(Present):
    """A text is not there: a running header, a page number, what stands hidden in the file."""

    def failure(self, markdown: str) -> str | None:
        return f"should not be there: {_short(self.text)}" if self._is_there(markdown) else None


@dataclass(frozen=True, slots=True)
class Order:
    """One text stands before another, at some place where each is found."""

    before: str
    after: str
    max_diffs: int = 0

    def failure(self, markdown: str) -> str | None:
        text = searchable(markdown)
        before = first_and_last(searchable(self.before), text, self.max_diffs)
        after = first_and_last(searchable(self.after), text, self.max_diffs)
        if before is None or after is None:
            return f"missing: {_short(self.before if before is None else self.after)}"
        return None if before[0] < after[1] else f"wrong order: {_short(self.before)} after {_short(self.after)}"


@dataclass(frozen=True, slots=True)
class Table:
    """A cell is in a table, with these texts right beside it and these headings."""

    cell: str
    up: str = ""
    down: str = ""
    left: str = ""
    right: str = ""
    top_heading: str = ""
    left_heading: str = ""
    max_diffs: int = 0
    ignore_markdown_tables: bool = False

    def failure(self, markdown: str) -> str | None:
        found = grids(markdown, pipes=not self.ignore_markdown_tables)
        if not found:
            return "no table"
        wrong = None
        for grid in found:
            for cell, text in enumerate(grid.texts):
                if self._same(self.cell, text):
                    wrong = self._wrong_beside(grid, cell)
                    if wrong is None:
                        return None
        return wrong or f"no cell {_short(self.cell)} in {len(found)} tables"

    def _wrong_beside(self, grid: Grid, cell: int) -> str | None:
        sides = {
            "up": lambda: grid.beside(cell, -1, 0),
            "down": lambda: grid.beside(cell, 1, 0),
            "left": lambda: grid.beside(cell, 0, -1),
            "right": lambda: grid.beside(cell, 0, 1),
            "top_heading": lambda: grid.top_headings(cell),
            "left_heading": lambda: grid.left_headings(cell),
        }
        for side, texts in sides.items():
            wanted = getattr(self, side)
            if wanted and not any(self._same(wanted, text) for text in texts()):
                return f"{side} of {_short(self.cell)} is not {_short(wanted)} but {_short(' | '.join(texts()))}"
        return None

    def _same(self, wanted: str, text: str) -> bool:
        wanted = searchable(wanted)
        least = max(0.5, 1 - self.max_diffs / len(wanted))
        return fuzz.ratio(wanted, searchable(text)) >= 100 * least - 1e-6


@dataclass(frozen=True, slots=True)
class Blank:
    """No more than `max_length` letters and digits: an empty page stays empty."""

    max_length: int = 0

    def failure(self, markdown: str) -> str | None:
        count = sum(map(str.isalnum, searchable(markdown)))
        return f"{count} letters and digits on a blank page" if count > self.max_length else None


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """At least one letter or digit."""

    def failure(self, markdown: str) -> str | None:
        return None if any(map(str.isalnum, searchable(markdown))) else "empty"


@dataclass(frozen=True, slots=True)
class NoLoop:
    """No unit of up to `max_period` characters follows itself more than `max_repeats` times over `min_chars` or more.

    A unit without letter or digit does not count: rules and dot leaders repeat rightly.
    """

    max_repeats: int = 10
    min_chars: int = 100
    max_period: int = 300

    def failure(self, markdown: str) -> str | None:
        text = searchable(markdown)
        codes = np.array([ord(char) for char in text], dtype=np.int32)
        for period in range(1, min(self.max_period, len(text) // 2) + 1):
            same = np.concatenate(([False], codes[period:] == codes[:-period], [False]))
            edges = np.flatnonzero(same[1:] != same[:-1])
            for start, end in zip(edges[::2], edges[1::2], strict=True):
                length = int(end - start) + period
                unit = text[start : start + period]
                if length >= max(self.min_chars, period * (self.max_repeats + 1)) and any(map(str.isalnum, unit)):
                    return f"{_short(unit)} stands {length // period} times in a row"
        return None


@dataclass(frozen=True, slots=True)
class Characters:
    """No characters that Latin documents do not have: CJK, kana, emoji, replacement and control characters."""

    def failure(self, markdown: str) -> str | None:
        odd = sorted({char for char in markdown if _is_odd(char)})
        return f"odd characters: {', '.join(f'U+{ord(char):04X}' for char in odd[:8])}" if odd else None


def _is_odd(char: str) -> bool:
    code = ord(char)
    if code < 0x2E80:
        return unicodedata.category(char) == "Cc" and char not in "\t\n\r\f"
    foreign = 0x3040 <= code <= 0x30FF or 0x4E00 <= code <= 0x9FFF or 0xE000 <= code <= 0xF8FF
    return foreign or code == 0xFFFD or 0x1F1E0 <= code <= 0x1F1FF or 0x1F300 <= code <= 0x1F6FF


@dataclass(frozen=True, slots=True)
class Baseline:
    """olmOCR-bench's own: not empty, no endless end, no foreign characters; or blank where `max_length` is given."""

    max_length: int | None = None
    max_length_skips_image_alt_tags: bool = False
    max_repeats: int = 30
    check_disallowed_characters: bool = True

    def failure(self, markdown: str) -> str | None:
        if self.max_length is not None:
            return Blank(self.max_length).failure(markdown)
        wrong = NotEmpty().failure(markdown) or self._endless_end(searchable(markdown))
        return wrong or (Characters().failure(markdown) if self.check_disallowed_characters else None)

    def _endless_end(self, text: str) -> str | None:
        for period in range(1, 6):
            unit = text[-period:]
            if text.endswith(unit * (self.max_repeats + 1)):
                return f"ends with {_short(unit)} more than {self.max_repeats} times in a row"
        return None
