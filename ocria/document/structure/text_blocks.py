"""Regions of a page as blocks: running text, headings, lists, code and words on pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from ocria.document.escape import code_block, heading, paragraph
from ocria.document.result import Block
from ocria.document.structure.cells import fill_cells
from ocria.document.structure.columns import table_grid
from ocria.document.structure.list_items import Depths, item_markdown, list_mark, marker_length, split_items
from ocria.document.structure.paragraphs import paragraphs
from ocria.document.structure.pieces import Line, Piece, box_of, line_text, lines_of
from ocria.document.structure.regions import Region
from ocria.document.structure.styled import marked, plain, running, without_start
from ocria.document.table import cells_markdown, cells_text

# Of all letters of a page: from here on its text is set in a monospaced font, and that says nothing.
_ALL_MONO = 0.8
_MOST_HEADING_WORDS = 25


@dataclass(frozen=True, slots=True)
class PageType:
    """How most of a page is set."""

    size: float
    """Points, of most letters."""
    mono: bool
    """Whether a monospaced font is the usual one."""
    height: float


@dataclass(slots=True)
class Flow:
    """The blocks of a page, made one after the other."""

    page: PageType
    blocks: list[Block] = field(default_factory=list)
    depths: Depths = field(default_factory=lambda: Depths([]))
    item: list[Line] = field(default_factory=list)
    """The lines of the last item of a list."""
    code: list[Line] = field(default_factory=list)
    """The lines of the last block of code."""

    def add(self, region: Region) -> None:
        """Add the blocks of a region that is no table."""
        lines = lines_of(region.pieces)
        if region.kind == "picture" and not _is_prose(region, lines):
            self._picture(region, lines)
        elif not lines:
            return
        elif region.kind in ("text", "list-item", "formula", "caption") and self._is_code(lines):
            self._code(lines)
        elif region.kind == "text" and (grid := table_grid(lines)):
            self.add_table(Region("table", region.box, grid, True, region.pieces))
        elif region.kind in ("list-item", "text") and self._hangs(lines):
            self.blocks.pop()
            self._item(self.item + lines)
        elif (
            region.kind == "list-item"
            or (region.kind == "text" and (_all_items(lines) or self._follows(lines)))
            or (region.kind in ("title", "heading") and self._is_short_item(lines))
        ):
            for item in split_items(lines):
                self._item(item)
        elif region.kind in ("title", "heading") and not self._is_run_in(lines):
            self._heading(region.kind, lines)
        else:
            kind = "text" if region.kind in ("title", "heading", "picture") else region.kind
            parts = paragraphs(lines) if kind == "text" and not lines[0][0].style.raised else _notes(lines)
            for part in parts:
                raised = part[0][0].style.raised and kind == "text" and self._is_low_and_small(part)
                self._running("footnote" if raised else kind, part)

    def add_table(self, region: Region) -> None:
        """Add the block of a table with a grid."""
        cells = fill_cells(region.grid, region.pieces, certain=region.certain)
        if max(cell.column + cell.column_span for cell in cells) < 2:
            self.add(Region("text", region.box, pieces=region.pieces))
            return
        box = box_of(region.pieces) if not region.certain else region.box
        markdown = cells_markdown(cells, "auto")
        self.blocks.append(Block("table", box, cells_text(cells), markdown, 0, cells=cells))

    def _picture(self, region: Region, lines: Sequence[Line]) -> None:
        # Words on a chart or a photo: a line each, for they are no running text.
        text = "\n".join(map(line_text, lines))
        self.blocks.append(Block("picture", region.box, text, paragraph(text) if text else "", 0))

    def _running(self, kind: str, lines: Sequence[Line]) -> None:
        runs = running(lines, mono=not self.page.mono)
        self._block(kind, lines, plain(runs), marked(runs))

    def _heading(self, kind: str, lines: Sequence[Line]) -> None:
        runs = running(lines, bold=False, mono=False)
        self._block(kind, lines, plain(runs), heading(marked(runs, starts=False), 1), level=1)

    def _follows(self, lines: list[Line]) -> bool:
        """Whether lines begin with a mark like that of the item right above them."""
        if not self.blocks or self.blocks[-1].type != "list-item":
            return False
        above, below = self.item[0], lines[0]
        marks = [marker_length(line_text(line) + " ", bullets_only=True) for line in (above, below)]
        near = below[0].box[1] - box_of(self.item[-1])[3] <= below[0].size
        return all(marks) and near and abs(above[0].box[0] - below[0].box[0]) <= 3.0

    def _hangs(self, lines: list[Line]) -> bool:
        """Whether lines without a mark go on from the item above them."""
        if not self.blocks or self.blocks[-1].type != "list-item" or marker_length(line_text(lines[0]) + " "):
            return False
        above, below = box_of(self.item[-1]), box_of(lines[0])
        high = above[3] - above[1]
        return -0.5 * high <= below[1] - above[3] <= 0.5 * high and below[0] > box_of(self.item[0])[0] + 2.0

    def _item(self, lines: list[Line]) -> None:
        if not self.blocks or self.blocks[-1].type != "list-item":
            self.depths = Depths([])
        self.item = lines
        runs = running(lines, mono=not self.page.mono)
        text = plain(runs)
        mark, length = list_mark(text + " ")
        depth, indent = self.depths.next(box_of(lines[0])[0], mark)
        words = marked(without_start(runs, length))
        if words.strip():
            self._block("list-item", lines, text, item_markdown(mark, indent, words), level=depth)
        else:
            self._running("text", lines)

    def _code(self, lines: list[Line]) -> None:
        if self.blocks and self.blocks[-1].type == "code" and _goes_on(self.code, lines):
            # An empty line does not end code.
            lines = self.code + lines
            self.blocks.pop()
        self.code = lines
        texts = _with_indents(lines)
        self._block("code", lines, "\n".join(texts), code_block(texts))

    def _block(self, kind: str, lines: Sequence[Line], text: str, markdown: str, level: int | None = None) -> None:
        pieces = [piece for line in lines for piece in line]
        size = round(max(piece.size for piece in pieces), 1)
        self.blocks.append(Block(kind, box_of(pieces), text, markdown, 0, font_size=size, level=level))

    def _is_code(self, lines: Sequence[Line]) -> bool:
        if not all(piece.style.mono for line in lines for piece in line):
            return False
        if not self.page.mono:
            return True
        # On a page that is all typewriter, code is what is indented in steps.
        left = min(box_of(line)[0] for line in lines)
        indented = sum(box_of(line)[0] > left + 1.5 * _advance(line) for line in lines[1:])
        return len(lines) > 2 and indented >= 0.3 * len(lines)

    def _is_run_in(self, lines: Sequence[Line]) -> bool:
        """Whether a heading is none: bold words at the start of a paragraph, or a paragraph that stands out."""
        pieces = [piece for line in lines for piece in line]
        words = len(" ".join(map(line_text, lines)).split())
        bold = [piece.style.bold for piece in pieces]
        if max(piece.size for piece in pieces) > 1.1 * self.page.size:
            return words > 3 * _MOST_HEADING_WORDS
        return words > _MOST_HEADING_WORDS or (bold[0] and 2 * bold.count(True) < len(bold) and words > 8)

    def _is_short_item(self, lines: Sequence[Line]) -> bool:
        """Whether a heading is none: it begins with a bullet and is no larger than text."""
        size = max(piece.size for line in lines for piece in line)
        return size <= 1.1 * self.page.size and marker_length(line_text(lines[0]) + " ", bullets_only=True) > 0

    def _is_low_and_small(self, lines: Sequence[Line]) -> bool:
        pieces = [piece for line in lines for piece in line]
        size = Counter(round(piece.size, 1) for piece in pieces if not piece.style.raised).most_common(1)
        return box_of(pieces)[1] > self.page.height / 2 and bool(size) and size[0][0] < self.page.size - 0.4


def page_type(pieces: Sequence[Piece], height: float) -> PageType:
    """How most letters of a page `height` points high are set."""
    sizes: Counter = Counter()
    mono = 0
    for piece in pieces:
        sizes[round(piece.size, 1)] += len(piece.text)
        mono += piece.style.mono * len(piece.text)
    return PageType(sizes.most_common(1)[0][0] if sizes else 0.0, mono > _ALL_MONO * sizes.total() > 0, height)


def _is_prose(region: Region, lines: Sequence[Line]) -> bool:
    """Whether the words on a picture are running text that fills it: part of a scanned page."""
    if len(lines) < 3 or not all(piece.across for piece in region.pieces):
        return False
    x0, y0, x1, y1 = region.box
    boxes = list(map(box_of, lines))
    wide = median(box[2] - box[0] for box in boxes) >= 0.7 * (x1 - x0)
    high = sum(box[3] - box[1] for box in boxes) >= 0.6 * (y1 - y0)
    return wide and high and median(len(line_text(line).split()) for line in lines) >= 6


def _all_items(lines: Sequence[Line]) -> bool:
    """Whether text that is not known as a list is one: its first line and others begin with bullets or numbers that
    count."""
    texts = [line_text(line) + " " for line in lines]
    marks = [text for text in texts if marker_length(text)]
    return len(marks) > 1 and marker_length(texts[0]) > 0 and _counts(marks)


def _counts(marks: Sequence[str]) -> bool:
    if all(marker_length(mark, bullets_only=True) for mark in marks):
        return not all(mark.startswith(("-", "–", "—")) for mark in marks) or len(marks) > 2
    numbers = [mark.split(".")[0].split(")")[0] for mark in marks]
    if not all(number.isdecimal() for number in numbers):
        return False
    return all(int(b) == int(a) + 1 for a, b in pairwise(numbers))


def _goes_on(code: Sequence[Line], lines: Sequence[Line]) -> bool:
    """Whether lines of code stand right below others."""
    above, below = box_of(code[-1]), box_of(lines[0])
    step = above[3] - above[1]
    return -0.5 * step <= below[1] - above[3] <= 2.5 * step and below[0] < box_of([p for x in code for p in x])[2]


def _notes(lines: Sequence[Line]) -> list[list[Line]]:
    """A raised mark at the start of a line begins a note of its own."""
    parts: list[list[Line]] = []
    for line in lines:
        if not parts or (line[0].style.raised and parts[0][0][0].style.raised):
            parts.append([])
        parts[-1].append(line)
    return parts


def _with_indents(lines: Sequence[Line]) -> list[str]:
    """Lines of code with the spaces that their places tell, and lines left empty."""
    advance = sorted(map(_advance, lines))[len(lines) // 2]
    left = min(box_of(line)[0] for line in lines)
    steps = [b[0].baseline - a[0].baseline for a, b in pairwise(lines)]
    step = min((s for s in steps if s > 0), default=0.0)
    out: list[str] = []
    for at, line in enumerate(lines):
        if at and step:
            out += [""] * max(0, min(3, round(steps[at - 1] / step) - 1))
        text = ""
        for piece in line:
            column = round((piece.box[0] - left) / advance)
            if not text:
                text = " " * column
            elif piece.spaced:
                text += " " * max(column - len(text), 1)
            text += piece.text
        out.append(text)
    return out


def _advance(line: Line) -> float:
    """Width of a character of a monospaced line."""
    piece = max(line, key=lambda piece: len(piece.text))
    return max(0.1, (piece.box[2] - piece.box[0]) / len(piece.text))
