"""Items of lists: their marks, their depth and their Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ocria.document.escape import escape_starts
from ocria.document.structure.pieces import Line, box_of, line_text

_BULLET = re.compile("[•◦‣▪▫●○■□◆◇➢➤►▶❖✓✔∙·⁃–—*\uf000-\uf0ff-](?=\\s)|[•◦‣▪▫●○■□◆◇➢➤►▶❖✓✔⁃\uf0b7\uf0a7\uf0d8](?=\\S)")
_NUMBER = re.compile(r"(\d{1,3})([.)])(?=\s)")
_LETTER = re.compile(r"\((?:\d{1,3}|[a-z]|[ivx]{1,5})\)(?=\s)|(?:[a-zA-Z]|[ivx]{1,5})[.)](?=\s)|\[\d{1,3}\](?=\s)")
_STEP = 6.0
"""Points by which an item must be indented to be part of another."""
_DEEPEST = 6


@dataclass(slots=True)
class Depths:
    """Where the items of one list begin, from the outermost one in: how deep the next one is, and its Markdown."""

    open: list[tuple[float, int]]
    """Of each item that may hold the next: its x, and the columns that its Markdown takes to its text."""

    def next(self, x: float, mark: str) -> tuple[int, str]:
        """Depth from 1 of an item that begins at `x`, and the indentation of its Markdown."""
        while self.open and self.open[-1][0] > x - _STEP:
            self.open.pop()
        indent = sum(width for _, width in self.open)
        self.open.append((x, len(mark) + 1))
        return min(len(self.open), _DEEPEST), " " * indent


def marker_length(text: str, *, bullets_only: bool = False) -> int:
    """Characters of the mark that an item begins with; 0 where it has none."""
    for pattern in (_BULLET,) if bullets_only else (_BULLET, _NUMBER, _LETTER):
        if match := pattern.match(text):
            return match.end()
    return 0


def list_mark(text: str) -> tuple[str, int]:
    """The mark of an item in Markdown, and how many characters of its text that stands for. Letters and numbers in
    brackets, which Markdown has no lists for, stay part of the text."""
    if match := _BULLET.match(text):
        return "-", match.end()
    if match := _NUMBER.match(text):
        return match[0], match.end()
    return "-", 0


def item_markdown(mark: str, indent: str, words: str) -> str:
    """An item; `words` is its running Markdown."""
    hang = indent + " " * (len(mark) + 1)
    first, *others = escape_starts(words).split("\n")
    # A box to tick is a task to some.
    first = re.sub(r"^(\[[ xX])(?=\]( |$))", r"\1\\", first)
    return "\n".join([f"{indent}{mark} {first}".rstrip(), *(hang + line for line in others)])


def split_items(lines: Sequence[Line]) -> list[list[Line]]:
    """The lines of each item; each begins with a mark, or at the left of the line above where no line has one."""
    starts = [marker_length(line_text(line) + " ") > 0 for line in lines]
    if sum(starts) < 2:
        # Without marks an item hangs: what begins further left than the line before is a new one.
        starts = [at > 0 and box_of(line)[0] < box_of(lines[at - 1])[0] - 2.0 for at, line in enumerate(lines)]
    elif starts.count(True) > 1:
        starts = _of_one_kind(lines, starts)
    items: list[list[Line]] = []
    for line, start in zip(lines, starts, strict=True):
        if not items or start:
            items.append([])
        items[-1].append(line)
    return items


def _of_one_kind(lines: Sequence[Line], starts: list[bool]) -> list[bool]:
    """A dash or a number in the middle of an item may stand at the start of a line by chance: marks stand at or left
    of the text of their item."""
    kept: list[bool] = []
    text_x = None
    for line, start in zip(lines, starts, strict=True):
        x = box_of(line)[0]
        if start and text_x is not None and x > text_x + 2.0 and len(line) > 1 and not _BULLET.match(line_text(line)):
            start = False
        kept.append(start)
        if start and len(line) > 1:
            text_x = line[1].box[0]
    return kept
