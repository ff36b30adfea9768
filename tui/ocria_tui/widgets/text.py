"""The text of the page that is shown, growing while it is read."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable

from rich.segment import Segment
from rich.text import Text
from textual import events

from ocria_tui.documents import DocumentState, PageState
from ocria_tui.markdown import WIDEST, GrowingMarkdown, harmless, markdown_lines, plain_lines
from ocria_tui.search import pattern, text_of
from ocria_tui.theme import Palette
from ocria_tui.widgets.pane import LinePane

FRESH_S = 0.6
"""So long after its last text a line counts as one that is being read."""
_KEPT = 8
"""Pages whose lines are kept."""
_REST = 4
"""A growing page is laid out again after this many times as long as that took last."""

Lines = list[list[Segment]]


class TextPane(LinePane, can_focus=True):
    """The Markdown of a page that is done, as it is meant or, with `raw`, as it is written. Until then, of a line
    model, a line for each line that was found, so that nothing moves while they are filled; of a page model what has
    come."""

    def __init__(self) -> None:
        super().__init__(id="text", classes="pane")
        self._lines: Lines = []
        self._page: tuple[str | None, int | None] = (None, None)
        self._cache: OrderedDict[Hashable, Lines] = OrderedDict()
        self._growing: GrowingMarkdown | None = None
        self._growing_of: Hashable = None
        self._drawn_with = ""
        """The theme."""
        self._held = False
        """Whether the user scrolled this page, so that it stays where it is."""
        self._again = 0.0
        """When a growing page may be laid out again, of `time.monotonic`."""
        self._hit: Hashable = None

    def look(self) -> Hashable:
        page, app = self.app.shown_page, self.app
        fresh = page is not None and bool(page.touched) and app.state.now - max(page.touched.values()) < FRESH_S
        version = None if app.shown_document is None else app.shown_document.version
        shown = version if page is None else (page.version, page.began)
        return app.document, app.page, shown, fresh, app.raw, app.search

    def follow(self) -> None:
        page = self.app.shown_page
        growing = page is not None and not page.done and (self.app.document, self.app.page) == self._page
        if not growing or time.monotonic() >= self._again:
            super().follow()

    def update(self) -> None:
        here, page = (self.app.document, self.app.page), self.app.shown_page
        if here != self._page:
            self._page, self._held = here, False
            self.scroll_to(y=0, animate=False)
        began = time.monotonic()
        width = max(1, min(self.across, WIDEST))
        before, self._lines = self._lines, self._marked(self._laid_out(page, width))
        self._again = time.monotonic() + _REST * (time.monotonic() - began)
        self.set_title(self._named(page))
        same = self._drawn_with == self.app.theme
        self._drawn_with = self.app.theme
        changed = [row for row, (old, new) in enumerate(zip(before, self._lines, strict=False)) if old != new]
        if changed or not same or len(before) != len(self._lines):
            self.set_lines(len(self._lines), changed if same else None)
        self._go(page)

    def line(self, index: int, width: int) -> list[Segment]:
        return self._lines[index]

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._held = True

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._held = True

    def on_key(self, event: events.Key) -> None:
        if event.key in ("up", "down", "pageup", "pagedown", "home", "end", "space"):
            self._held = True

    def _named(self, page: PageState | None) -> str:
        if page is None:
            return "3 Text"
        form = "raw" if self.app.raw else "Markdown"
        return f"3 Text, page {page.number}: {form if page.done else 'being read' if page.began else page.status}"

    def _laid_out(self, page: PageState | None, width: int) -> Lines:
        palette = self.app.palette
        if page is None:
            document = self.app.shown_document
            if document is None:
                return plain_lines(WELCOME, width, palette.muted)
            return no_pages(document, width, palette)
        if not page.done:
            of = (self.app.document, page.number, page.began, width, self.app.theme)
            if of != self._growing_of:
                self._growing_of, self._growing = of, GrowingMarkdown(width, palette)
            markdown = None if self.app.raw else self._growing
            return growing(page, width, palette, self.app.state.now, markdown)
        key = (self.app.document, page.number, page.version, width, self.app.raw, self.app.theme)
        if key not in self._cache:
            self._cache[key] = finished(page, width, palette, self.app.raw)
            while len(self._cache) > _KEPT:
                self._cache.popitem(last=False)
        self._cache.move_to_end(key)
        return self._cache[key]

    def _marked(self, lines: Lines) -> Lines:
        """The lines with the places marked that were looked for, and the line of the present one in `_hit_line`."""
        search = self.app.search
        found = pattern(search.words) if search is not None and search.path == self.app.document else None
        self._hit_line: int | None = None
        if found is None:
            return lines
        which = -1
        if search.hit is not None and search.hit.page == self.app.page:
            which = sum(hit.page == self.app.page for hit in search.hits[: search.index])
        marked, seen = [], 0
        for index, line in enumerate(lines):
            text = Text.assemble(*((segment.text, segment.style or "") for segment in line), end="")
            places = list(found.finditer(text.plain))
            for place in places:
                here = seen == which
                if here:
                    self._hit_line = index
                text.stylize(self.app.palette.cursor if here else self.app.palette.mark, place.start(), place.end())
                seen += 1
            marked.append(list(text.render(self.app.console)) if places else line)
        return marked

    def _go(self, page: PageState | None) -> None:
        """Scroll to what was looked for, once, or to what is being read unless the user scrolled."""
        if self._hit_line is not None and self.app.search is not self._hit:
            self._hit = self.app.search
            self.see(self._hit_line)
        elif page is not None and not page.done and page.touched and not self._held:
            last = max(page.touched, key=page.touched.__getitem__)
            self.see(len(self._lines) - 1 if not page.boxes else min(last, len(self._lines) - 1))


def no_pages(document: DocumentState, width: int, palette: Palette) -> Lines:
    """Of a document of which no page is known: how it stands, and what is wrong with it."""
    if document.error is None:
        return plain_lines(f"This document is {document.status}.", width, palette.muted)
    lines = plain_lines(f"{document.status}: {document.error}", width, palette.bad)
    return lines if document.cure is None else lines + plain_lines(f"cure: {document.cure}", width, palette.live)


def finished(page: PageState, width: int, palette: Palette, raw: bool) -> Lines:
    """Of a page that is done: its Markdown, or why there is none."""
    text = text_of(page)
    lines = [] if page.error is None else plain_lines(f"{page.status}: {page.error}", width, palette.bad)
    if text.strip():
        return lines + (plain_lines(text, width, palette.text) if raw else markdown_lines(text, width, palette))
    return lines or plain_lines(f"This page is {page.status}: there is no text.", width, palette.muted)


def growing(page: PageState, width: int, palette: Palette, now: float, markdown: GrowingMarkdown | None) -> Lines:
    """Of a page that is not done. Lines that text comes for are bright, those that wait are a dot; what a page model
    writes is laid out by `markdown`, or left as it is."""
    if not page.boxes:
        text = page.units.get(0, "")
        if not text:
            return plain_lines(f"Page {page.number} is {page.status}.", width, palette.muted)
        return plain_lines(text, width, palette.text) if markdown is None else markdown.lines(text)
    lines: Lines = []
    for unit in _units(page):
        text = page.units.get(unit)
        if text is None:
            lines.append([Segment("·", palette.muted)])
        else:
            fresh = now - page.touched[unit] < FRESH_S
            # One line of the terminal each, or all would move as they grow.
            lines.append([Segment(harmless(text).replace("\n", " "), palette.bright if fresh else palette.text)])
    return lines


def _units(page: PageState) -> Iterable[int]:
    return range(max(len(page.boxes), max(page.units, default=-1) + 1))


WELCOME = """Nothing to read yet.

Press o to open files or folders, ? for all keys, ctrl+p to find any command by name, q to quit."""
