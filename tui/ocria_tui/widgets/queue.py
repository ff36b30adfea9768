"""Documents: which of them are done, read and waiting."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import islice
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding

from ocria.progress.lines import printable
from ocria_tui.documents import DocumentState
from ocria_tui.glyphs import glyph
from ocria_tui.widgets.pane import LinePane, cut, fitted


class Queue(LinePane):
    """A line for each document: the sign of its status, its name, pages done of all, and how many went wrong."""

    BINDINGS: ClassVar = [
        Binding("up", "app.previous_document", "Previous document", show=False),
        Binding("down", "app.next_document", "Next document", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(id="queue", classes="pane")
        self._paths: list[str] = []
        self._cursor: str | None = None

    def look(self) -> Hashable:
        # Documents go away only all at once, so that the sum grows with each change of one.
        state = self.app.state
        return state.changes, self.app.document, self.has_focus

    def update(self) -> None:
        documents = self.app.state.documents
        if len(documents) < len(self._paths):  # a recording begins again
            self._paths.clear()
        self._paths.extend(islice(documents, len(self._paths), None))
        ended = self.app.state.documents_ended
        self.set_title(f"1 Documents {ended}/{len(documents)}" if documents else "1 Documents")
        self.set_lines(max(1, len(self._paths)))
        if self.app.document != self._cursor and self.app.document in documents:
            self._cursor = self.app.document
            self.see(self._paths.index(self._cursor))

    def line(self, index: int, width: int) -> list[Segment]:
        palette = self.app.palette
        if not self._paths:
            return [Segment("No documents. Press o to open some.", palette.muted)]
        document = self.app.state.documents[self._paths[index]]
        sign, role = glyph(document.status, self.app.settings.ascii)
        here = document.path == self.app.document
        count = progress(document)
        name = fitted(printable(document.path.rsplit("/", 1)[-1]), width - len(count) - 4, end=True)
        return cut([
            (">" if here else " ", palette.bright),
            (f"{sign} ", palette.role(role)),
            (name, palette.text if not here else palette.cursor if self.has_focus else palette.bright),
            (" ", palette.text),
            (count, palette.bad if document.unwell or document.error else palette.muted),
        ])

    def on_click(self, event: events.Click) -> None:
        index = event.y - self.gutter.top + self.scroll_offset.y
        if 0 <= index < len(self._paths):
            self.app.show(self._paths[index])


def progress(document: DocumentState) -> str:
    """`12/48`, `12/48 !1` with pages that went wrong, what happened to a document without pages."""
    if not document.pages:
        return document.status
    wrong = f" !{document.unwell}" if document.unwell else ""
    return f"{document.finished}/{len(document.pages)}{wrong}"
