"""A question before something that cannot be taken back."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Label

from ocria_tui.screens.dialog import Dialog


class Confirm(Dialog[bool]):
    """Gives True for yes. The safe answer has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "yes", "Yes"), Binding("n", "leave", "No")]

    def __init__(self, question: str, yes: str):
        super().__init__()
        self.question, self.yes = question, yes

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Label(self.question, markup=False)
            with Horizontal(classes="buttons"):
                yield Button("No (n)", id="no", compact=True)
                yield Button(f"{self.yes} (y)", id="yes", variant="error", compact=True)

    def on_mount(self) -> None:
        self.query_one("#no").focus()

    @on(Button.Pressed, "#no")
    def action_leave(self) -> None:
        self.dismiss(False)

    @on(Button.Pressed, "#yes")
    def action_yes(self) -> None:
        self.dismiss(True)
