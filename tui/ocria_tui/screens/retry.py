"""Which pages to read again, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input, Label

from ocria.document.ranges import select_pages
from ocria.errors import OcriaError, UsageError
from ocria_tui.screens.dialog import Dialog, Name
from ocria_tui.screens.form import PASSWORD, READING, Form


class Retry(Dialog[tuple[list[int] | None, dict[str, Any]]]):
    """Gives the pages, None for all, and the options that are to be others than those of the session. Where no page is
    known the document could not be opened: all of it is read, and the keyboard is where its password goes."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "take", "Read again")]

    def __init__(self, pages: Sequence[int], page: int | None, options: Mapping[str, Any]):
        super().__init__()
        self.pages, self.page = pages, page
        self.options = {name: value for name, value in options.items() if name != "pages"}

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = "Read again"
            if self.pages:
                with Horizontal(classes="row"):
                    yield Name("Pages")
                    shown = "" if self.page is None else str(self.page)
                    yield Input(shown, placeholder="all, or such as 1-3,8", id="which", compact=True)
            yield Form((*READING, PASSWORD), self.options)
            yield Label(id="problem", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel (escape)", id="cancel", compact=True)
                yield Button("Read again (ctrl+s)", id="take", variant="primary", compact=True)

    def on_mount(self) -> None:
        if not self.pages:
            self.query_one("#password").focus()

    @on(Input.Submitted)
    @on(Button.Pressed, "#take")
    def action_take(self) -> None:
        text = self.query_one("#which", Input).value.strip() if self.pages else ""
        try:
            pages = select_pages(text, self.pages[-1]) if text else None
            if pages is not None and (strange := sorted(set(pages) - set(self.pages))):
                raise UsageError(f"page {strange[0]} is not among the pages of this run")
            said = self.query_one(Form).changed()
        except OcriaError as error:
            self.complain(str(error))
            return
        self.dismiss((pages, said))

    @on(Button.Pressed, "#cancel")
    def action_leave(self) -> None:
        self.dismiss(None)
