"""In which formats to write a document, and where."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input, Label

from ocria.batch.options import FORMATS
from ocria.errors import OcriaError
from ocria_tui.screens.checklist import Checklist
from ocria_tui.screens.confirm import Confirm
from ocria_tui.screens.dialog import Dialog, Name
from ocria_tui.screens.paths import PathSuggester
from ocria_tui.targets import targets


class Export(Dialog[tuple[tuple[str, ...], str, bool]]):
    """Gives formats, a target (a file of one format, or a folder), and whether to replace what exists there, which is
    asked."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "take", "Write")]

    def __init__(self, path: str, formats: Sequence[str], folder: str):
        super().__init__()
        self.path, self.formats, self.folder = path, formats, folder

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = "Export"
            yield Label(self.path, classes="hint", markup=False)
            yield Checklist(*[(kind, kind, kind in self.formats) for kind in FORMATS], id="formats", compact=True)
            with Horizontal(classes="row"):
                yield Name("To")
                yield Input(self.folder, id="target", compact=True, suggester=PathSuggester(folders=True))
            yield Label("a folder, or a file for one format", classes="hint")
            yield Label(id="problem", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel (escape)", id="cancel", compact=True)
                yield Button("Write (ctrl+s)", id="take", variant="primary", compact=True)

    @on(Input.Submitted)
    @on(Checklist.Submitted)
    @on(Button.Pressed, "#take")
    def action_take(self) -> None:
        selected = self.query_one("#formats", Checklist).selected
        formats = tuple(kind for kind in FORMATS if kind in selected)
        target = os.path.expanduser(self.query_one("#target", Input).value.strip())
        if not formats or not target:
            self.complain("choose at least one format" if target else "name a folder or a file")
            return
        try:
            files = targets(self.path, formats, target)
        except OcriaError as error:
            self.complain(str(error))
            return
        there = [file for file in files if os.path.lexists(file)]
        if not there:
            self.dismiss((formats, target, False))
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self.dismiss((formats, target, True))

        self.app.push_screen(Confirm(f"Replace {', '.join(map(str, there))}?", "Replace"), answered)

    @on(Button.Pressed, "#cancel")
    def action_leave(self) -> None:
        self.dismiss(None)
