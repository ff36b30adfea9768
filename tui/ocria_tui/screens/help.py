"""All keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ActiveBinding
from textual.widgets import Static

from ocria_tui.keymap import ACTIONS
from ocria_tui.screens.dialog import Dialog

_SPELT = ("enter", "backspace", "left", "right", "up", "down")


class Help(Dialog[None]):
    """Lists the bindings it is given: those that hold, whatever the keymap says."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark,q", "leave", "Close")]

    def __init__(self, active: Sequence[ActiveBinding]):
        super().__init__()
        self.active = active

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box") as box:
            box.border_title = "Keys"
            box.border_subtitle = "escape closes"
            yield Static("\n".join(self.lines()), markup=False, id="keys")

    def lines(self) -> list[str]:
        """Keys and what they do, by group; then those of the part that has the focus."""
        keys: dict[str, list[str]] = {}
        for each in self.active:
            if each.binding.id is not None:
                keys.setdefault(each.binding.id, []).append(self._key(each.binding))
        lines: list[str] = []
        group = None
        for action in ACTIONS:
            if action.group != group:
                lines += ["", action.group] if lines else [action.group]
                group = action.group
            shown = ", ".join(keys.get(action.name, ["-"]))
            lines.append(f"  {shown:<10} {action.help}")
        here = [
            f"  {self._key(each.binding):<10} {each.binding.description}"
            for each in self.active
            if each.binding.id is None and each.node is not self.app and each.binding.description
        ]
        return [*lines, "", "Where you are", *here] if here else lines

    def _key(self, binding: Binding) -> str:
        """A key as the manual writes it: Textual's pictures for some have no likeness in ASCII."""
        return binding.key if binding.key in _SPELT else self.app.get_key_display(binding)
