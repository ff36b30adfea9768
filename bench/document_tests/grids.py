"""Tables in a reader's output, as grids in which a cell that spans stands at every place it covers.

HTML tables are read by the standard library's parser; pipe tables are first made HTML by markdown-it.
"""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser

from markdown_it import MarkdownIt

Place = tuple[int, int]


class Grid:
    """One table: `texts[cell]` is what cell number `cell` holds, `at[row, column]` the number of the cell there."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.at: dict[Place, int] = {}
        self._heads: set[int] = set()
        self._row = -1
        self._head_rows = False

    def start_row(self) -> None:
        self._row += 1

    def add(self, text: str, rows: int, columns: int, head: bool) -> None:
        """Put a cell at the first free place of the current row."""
        column = 0
        while (self._row, column) in self.at:
            column += 1
        cell = len(self.texts)
        self.texts.append(text)
        if head:
            self._heads.add(cell)
        for row in range(self._row, self._row + rows):
            for place in range(column, column + columns):
                self.at.setdefault((row, place), cell)

    def beside(self, cell: int, down: int, right: int) -> list[str]:
        """Texts of the cells one step away, over the whole edge of a cell that spans."""
        found = {
            self.at.get((row + down, column + right)) for (row, column), which in self.at.items() if which == cell
        }
        return [self.texts[other] for other in sorted(found - {None, cell})]

    def top_headings(self, cell: int) -> list[str]:
        """Headings above a cell: the cells marked so, or the topmost with text where none is marked."""
        columns = {column for (_, column), which in self.at.items() if which == cell}
        first = min(row for (row, _), which in self.at.items() if which == cell)
        return self._headings(cell, lambda row, column: column in columns and row < first)

    def left_headings(self, cell: int) -> list[str]:
        """Headings left of a cell: the cells marked so, or the leftmost with text where none is marked."""
        rows = {row for (row, _), which in self.at.items() if which == cell}
        first = min(column for (_, column), which in self.at.items() if which == cell)
        return self._headings(cell, lambda row, column: row in rows and column < first)

    def _headings(self, cell: int, wanted: Callable[[int, int], bool]) -> list[str]:
        found = [which for place, which in sorted(self.at.items()) if wanted(*place) and which != cell]
        found = list(dict.fromkeys(which for which in found if self.texts[which].strip()))
        marked = [which for which in found if which in self._heads]
        return [self.texts[which] for which in marked or found[:1]]


class _Tables(HTMLParser):
    """Collects tables, nested ones too; end tags of cells and rows may be missing."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[Grid] = []
        self._open: list[tuple[Grid, list]] = []  # grid and its open cell: [texts, rows, columns, head], or []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._open.append((Grid(), []))
        elif not self._open:
            return
        elif tag == "tr":
            self._close_cell()
            self._open[-1][0].start_row()
        elif tag in ("td", "th"):
            self._close_cell()
            spans = dict(attrs)
            self._open[-1][1][:] = [[], _span(spans.get("rowspan")), _span(spans.get("colspan")), tag == "th"]
        elif tag == "br":
            self.handle_data(" ")

    def handle_endtag(self, tag: str) -> None:
        if not self._open:
            return
        if tag in ("td", "th", "tr"):
            self._close_cell()
        elif tag == "table":
            self._close_cell()
            grid, _ = self._open.pop()
            self.done.append(grid)

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1][1]:
            self._open[-1][1][0].append(data)

    def _close_cell(self) -> None:
        grid, cell = self._open[-1]
        if cell:
            texts, rows, columns, head = cell
            grid.add("".join(texts), rows, columns, head)
            cell.clear()

    def close(self) -> None:
        super().close()
        while self._open:
            self.handle_endtag("table")


def _span(value: str | None, most: int = 1000) -> int:
    """A span as browsers read it: 1 where it is no positive number."""
    return min(int(value), most) if value and value.isdigit() and int(value) else 1


def _tables_of(markup: str) -> list[Grid]:
    parser = _Tables()
    parser.feed(markup)
    parser.close()
    return [grid for grid in parser.done if grid.texts]


def grids(markdown: str, *, pipes: bool = True) -> list[Grid]:
    """All tables of an output: those written as HTML, then (with `pipes`) those of Markdown."""
    found = _tables_of(markdown)
    return found + _tables_of(_pipe_tables(markdown)) if pipes else found


def _pipe_tables(markdown: str) -> str:
    """The pipe tables of a Markdown text as HTML."""
    reader = MarkdownIt("commonmark").enable("table")
    tokens, inside, kept = reader.parse(markdown), 0, []
    for token in tokens:
        inside += token.type == "table_open"
        if inside:
            kept.append(token)
        inside -= token.type == "table_close"
    return reader.renderer.render(kept, reader.options, {})
