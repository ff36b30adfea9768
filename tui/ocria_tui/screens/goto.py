"""Which page to show."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Label

from ocria_tui.screens.dialog import Dialog


class GoTo(Dialog[int]):
    """Gives the number of one of the pages."""

    def __init__(self, pages: Sequence[int]):
        super().__init__()
        self.pages = pages

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = "Go to page"
            yield Input(placeholder=self._range(), type="integer", compact=True)
            yield Label(id="problem", markup=False)

    @on(Input.Submitted)
    def take(self, event: Input.Submitted) -> None:
        number = int(event.value) if event.value.strip().lstrip("+-").isdecimal() else None
        if number in self.pages:
            self.dismiss(number)
        else:
            self.complain(f"There is no page {event.value or 'without a number'} here: {self._range()}.")

    def _range(self) -> str:
        first, last = self.pages[0], self.pages[-1]
        if first == last:
            return str(first)
        return f"{first} to {last}" if len(self.pages) == last - first + 1 else f"some of {first} to {last}"
