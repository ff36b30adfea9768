"""Pages of the document that is shown, one cell each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding

from ocria_tui.glyphs import glyph
from ocria_tui.widgets.pane import LinePane, cut
from ocria_tui.widgets.queue import progress

_LABEL = 6
_MOST_ROWS, _MOST_ROWS_SHORT = 6, 2


class PageStrip(LinePane):
    """Signs of pages in rows, each row with the number of its first page; only rows in sight are drawn. A click goes to
    a page, as do the arrows: up and down by a row."""

    BINDINGS: ClassVar = [
        Binding("up", "row(-1)", "Up", show=False),
        Binding("down", "row(1)", "Down", show=False),
        Binding("home", "end(0)", "First page", show=False),
        Binding("end", "end(-1)", "Last page", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(id="strip", classes="pane")
        self._cursor: tuple[str, int] | None = None

    def look(self) -> Hashable:
        document = self.app.shown_document
        return None if document is None else (document.path, document.version, self.app.page)

    def update(self) -> None:
        document = self.app.shown_document
        if document is None:
            self.set_title("2 Pages")
            self.set_lines(1)
            return
        self.set_title(f"2 Pages {progress(document)}" if document.pages else "2 Pages")
        page = self.app.shown_page
        self.border_subtitle = "" if page is None else f"{page.number} {self._sign(page.status)[0]} {page.status}"
        rows = max(1, -(-len(document.order) // self._columns))
        self._fit(rows)
        self.set_lines(rows)
        here = (document.path, self.app.page or 0)
        if here != self._cursor and document.order:
            self._cursor = here
            self.see(bisect_left(document.order, here[1]) // self._columns)

    def line(self, index: int, width: int) -> list[Segment]:
        palette, document = self.app.palette, self.app.shown_document
        if document is None or not document.order:
            told = "" if document is None else "no page is known" if document.ended else "pages are not known yet"
            return [Segment(told, palette.muted)]
        numbers = document.order[index * self._columns : (index + 1) * self._columns]
        parts = [(f"{numbers[0]:>{_LABEL - 1}} " if numbers else "", palette.muted)]
        for number in numbers:
            sign, role = self._sign(document.pages[number].status)
            parts.append((sign, palette.cursor if number == self.app.page else palette.role(role)))
        return cut(parts)

    def _sign(self, status: str) -> tuple[str, str]:
        return glyph(status, self.app.settings.ascii)

    def _fit(self, rows: int) -> None:
        """Be as high as the rows need, up to a few."""
        high = min(rows, _MOST_ROWS if self.app.size.height >= 36 else _MOST_ROWS_SHORT)
        if self.styles.height is None or self.styles.height.value != high + 2:
            self.styles.height = high + 2

    @property
    def _columns(self) -> int:
        """Pages in a row; a round number, so that numbers of pages are easy to find."""
        room = max(1, self.across - _LABEL)
        return room - room % 10 if room >= 10 else room

    def on_click(self, event: events.Click) -> None:
        document = self.app.shown_document
        column, row = event.x - self.gutter.left - _LABEL, event.y - self.gutter.top + self.scroll_offset.y
        if document is None or not 0 <= column < self._columns:
            return
        place = row * self._columns + column
        if 0 <= place < len(document.order):
            self.app.show(document.path, document.order[place])

    def action_row(self, step: int) -> None:
        document = self.app.shown_document
        if document is not None and document.order:
            place = bisect_left(document.order, self.app.page or 0) + step * self._columns
            if 0 <= place < len(document.order):
                self.app.show(document.path, document.order[place])

    def action_end(self, place: int) -> None:
        document = self.app.shown_document
        if document is not None and document.order:
            self.app.show(document.path, document.order[place])
