"""Where the text of a page stands, line by line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ocria.document.result import Block, Document, Page
from ocria.events import Box

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\ufeff\ufffe\uffff]+")
_LINE_PITCH = 1.2
"""Of lines set in a font of size 1."""
_LETTER = 0.5
"""Mean width of a letter of that font."""
_WHOLE_PAGE_MARGIN = 0.05
"""Share of the page's sides, where the model did not tell places."""


@dataclass(frozen=True, slots=True)
class PlacedLine:
    """A line of text, without control characters, and its box on the displayed page."""

    text: str
    box: Box
    turned: int
    """Degrees clockwise by which the displayed page must be turned to read it upright."""


def placed_lines(document: Document, page: Page) -> list[PlacedLine]:
    """The lines of a page: as they were found where a line model read them, else fitted into the boxes of blocks."""
    if page.lines:
        found = [(_clean(line.text), line.box) for line in page.lines]
    else:
        passages = _passages(page, _rows_here(document, page))
        found = [line for text, box in passages for line in _fitted(text, box, page.rotation)]
    return [
        PlacedLine(text, box, page.rotation) for text, box in found if text and box[0] < box[2] and box[1] < box[3]
    ]


def _passages(page: Page, rows: dict[int, str]) -> Iterator[tuple[str, Box]]:
    """Texts and their boxes; blocks that share a box, as where a model tells none, make one text."""
    texts: list[str] = []
    box: Box | None = None
    for block in page.blocks:
        text = rows.get(id(block), block.text)
        if not text.strip():
            continue
        if box is not None and block.box != box:
            yield "\n".join(texts), _inner(box, page)
            texts = []
        box = block.box
        texts.append(text)
    if box is not None:
        yield "\n".join(texts), _inner(box, page)


def _rows_here(document: Document, page: Page) -> dict[int, str]:
    """The rows of tables over several pages that stand on this page, by the identity of the block in their place."""
    here: dict[int, str] = {}
    for block in page.blocks:
        if block.row_pages is not None:
            here[id(block)] = _rows_of(block, page)
        elif block.continues is not None:
            whole = [b for p in document.pages if p.index == block.continues for b in p.blocks if b.row_pages]
            texts = (_rows_of(b, page) for b in whole)
            here[id(block)] = next((text for text in texts if text), "")
    return here


def _rows_of(table: Block, page: Page) -> str:
    rows = table.text.split("\n")
    return "\n".join(row for row, on in zip(rows, table.row_pages or (), strict=False) if on == page.index)


def _inner(box: Box, page: Page) -> Box:
    if box != (0.0, 0.0, page.width, page.height):
        return box
    x, y = _WHOLE_PAGE_MARGIN * page.width, _WHOLE_PAGE_MARGIN * page.height
    return x, y, page.width - x, page.height - y


def _fitted(text: str, box: Box, turned: int) -> Iterator[tuple[str, Box]]:
    """The text broken into lines that fill the box at one size of letters."""
    paragraphs = [line for part in text.split("\n") if (line := _clean(part))]
    if not paragraphs:
        return
    x0, y0, x1, y1 = box
    length, height = (y1 - y0, x1 - x0) if turned in (90, 270) else (x1 - x0, y1 - y0)
    lines = _broken(paragraphs, max(length, 1e-3) / max(height, 1e-3))
    pitch = height / len(lines)
    longest = max(len(line) for line in lines)
    for row, line in enumerate(lines):
        # A short line of a block is not stretched over all of its width.
        share = max(len(line) / longest, 1e-3)
        yield line, _part(box, turned, row * pitch, (row + 1) * pitch, share * length)


def _broken(paragraphs: list[str], shape: float) -> list[str]:
    """Paragraphs as lines of equal measure, so many that they fill a box that is `shape` times as wide as high."""
    letters = sum(map(len, paragraphs))
    count = max(1, round(math.sqrt(letters * _LETTER / (shape * _LINE_PITCH))))
    while True:
        measure = max(1, math.ceil(letters / count))
        lines = [line for paragraph in paragraphs for line in _wrapped(paragraph, measure)]
        # The ends of paragraphs take room: fewer, longer lines make up for it.
        if len(lines) <= max(1.25 * count, len(paragraphs)) or count == 1:
            return lines
        count = max(1, int(count * 0.8))


def _wrapped(paragraph: str, measure: int) -> Iterator[str]:
    """Lines of about `measure` letters, broken between words, in scripts without spaces anywhere."""
    line = ""
    for word in paragraph.split(" "):
        if line and len(line) + 1 + len(word) > measure:
            yield line
            line = ""
        line = f"{line} {word}" if line else word
        while len(line) > 2 * measure and not line.isascii():
            yield line[:measure]
            line = line[measure:]
    if line:
        yield line


def _part(box: Box, turned: int, top: float, bottom: float, length: float) -> Box:
    """A strip of a box, from `top` to `bottom` and `length` long as seen upright."""
    x0, y0, x1, y1 = box
    if turned == 90:
        return x0 + top, y1 - length, x0 + bottom, y1
    if turned == 180:
        return x1 - length, y1 - bottom, x1, y1 - top
    if turned == 270:
        return x1 - bottom, y0, x1 - top, y0 + length
    return x0, y0 + top, x0 + length, y0 + bottom


def _clean(text: str) -> str:
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return " ".join(_CONTROLS.sub(" ", text).split())
