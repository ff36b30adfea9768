"""What documents are opened with from now on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Button, Input, Label

from ocria.batch.options import FORMATS
from ocria.errors import OcriaError
from ocria_tui.screens.checklist import Checklist
from ocria_tui.screens.dialog import Dialog, Name
from ocria_tui.screens.form import ENGINE, PAGES, PASSWORD, READING, Form
from ocria_tui.screens.paths import PathSuggester
from ocria_tui.settings import OUTPUT_DIR
from ocria_tui.targets import check_folder


class Settings(Dialog[dict[str, Any]]):
    """Gives options by name, those that stand nowhere on the screen as they were."""

    AUTO_FOCUS = "#pages"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "save", "Save")]

    def __init__(self, options: Mapping[str, Any]):
        super().__init__()
        self.options = dict(options)

    def compose(self) -> ComposeResult:
        formats = self.options.get("formats") or ("md",)
        with Vertical(classes="box") as box:
            box.border_title = "Settings of documents that are opened from now on"
            with VerticalScroll(can_focus=False):
                yield Form((PAGES, *READING, *ENGINE, PASSWORD), self.options)
                with Horizontal(classes="row"):
                    yield Name("Folder")
                    yield Input(
                        str(self.options.get("output_dir") or OUTPUT_DIR),
                        id="output_dir",
                        compact=True,
                        suggester=PathSuggester(folders=True),
                    )
                with Horizontal(classes="row"):
                    yield Name("Formats")
                    yield Checklist(*[(kind, kind, kind in formats) for kind in FORMATS], id="formats", compact=True)
            yield Label(id="problem", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel (escape)", id="cancel", compact=True)
                yield Button("Save (ctrl+s)", id="save", variant="primary", compact=True)

    @on(Input.Submitted)
    @on(Checklist.Submitted)
    @on(Button.Pressed, "#save")
    def action_save(self) -> None:
        formats = self.query_one("#formats", Checklist).selected
        folder = self.query_one("#output_dir", Input).value.strip() or OUTPUT_DIR
        try:
            said = self.query_one(Form).values()
            check_folder(folder)
        except OcriaError as error:
            self.complain(str(error))
            return
        if not formats:
            self.complain("choose at least one format")
            return
        formats = tuple(kind for kind in FORMATS if kind in formats)
        self.dismiss({**self.options, **said, "formats": formats, "output_dir": folder})

    @on(Button.Pressed, "#cancel")
    def action_leave(self) -> None:
        self.dismiss(None)
