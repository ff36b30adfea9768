"""What all screens that ask something have in common."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.events import DescendantFocus
from textual.screen import ModalScreen
from textual.widgets import Label

Answer = TypeVar("Answer")


class Name(Label):
    """What a line of a form is called. It has a mark where the keyboard is, which shows without colours too."""

    def __init__(self, text: str):
        super().__init__(f"  {text}", classes="name", markup=False)
        self.text = text

    def mark(self, here: bool) -> None:
        self.update(f"{'> ' if here else '  '}{self.text}")


class Dialog(ModalScreen[Answer]):
    """A box over the app. Escape gives None; `complain` says what is wrong with an answer in its line `#problem`. Lines
    to fill in have the class `row` and begin with their `Name`."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Cancel")]
    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog > .box {
        width: 76; max-width: 100%; height: auto; max-height: 100%; padding: 0 1;
        background: $surface; border: round $primary; border-title-color: $text;
    }
    Dialog #problem { color: $text-error; display: none; width: 1fr; height: auto; }
    Dialog #problem.said { display: block; }
    Dialog .row { height: auto; }
    Dialog .row > .name { width: 17; padding: 0 1 0 0; }
    Dialog .row > Input, Dialog .row > Select { width: 1fr; }
    Dialog .buttons { height: auto; align-horizontal: right; }
    Dialog .buttons Button { margin: 0 0 0 2; }
    Dialog Checklist { height: auto; max-height: 8; width: 1fr; }
    Dialog .box > VerticalScroll { height: auto; max-height: 75vh; }
    Dialog .hint { color: $text-muted; width: 1fr; height: auto; }
    """

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        for name in self.query(Name):
            name.mark(event.widget.parent is name.parent)

    def complain(self, problem: str) -> None:
        """Say what is wrong; an empty text takes it back."""
        label = self.query_one("#problem", Label)
        label.update(problem, layout=True)
        label.set_class(bool(problem), "said")

    def action_leave(self) -> None:
        self.dismiss(None)
