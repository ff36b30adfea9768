"""Which words to look for."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Label

from ocria_tui.screens.dialog import Dialog
from ocria_tui.search import find
from ocria_tui.state import DocumentState


class Find(Dialog[str]):
    """Gives the words, empty to look for nothing any more. Counts the hits while they are typed."""

    DEFAULT_CSS = "Find { align: center bottom; }"

    def __init__(self, document: DocumentState, words: str):
        super().__init__()
        self.searched, self.words = document, words

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = "Search in all pages"
            yield Input(self.words, placeholder="words, in capitals or not", compact=True, select_on_focus=True)
            yield Label("", id="count", classes="hint")

    @on(Input.Changed)
    def tell(self, event: Input.Changed) -> None:
        hits = find(self.searched, event.value)
        pages = len({hit.page for hit in hits})
        told = f"{len(hits)} on {pages} page{'' if pages == 1 else 's'}" if hits else "nowhere"
        self.query_one("#count", Label).update(told if event.value.strip() else "")

    @on(Input.Submitted)
    def take(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())
