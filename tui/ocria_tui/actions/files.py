"""Which documents are read, and how."""

from __future__ import annotations

from typing import Any

from ocria_tui.actions.view import View, no_engine
from ocria_tui.screens.browse import Browse
from ocria_tui.screens.settings import Settings


def open_files(app: View) -> None:
    """Choose files, folders and globs, and queue them."""
    if no_engine(app):
        return

    def answered(chosen: tuple[list[str], str | None] | None) -> None:
        if chosen is None:
            return
        paths, pages = chosen
        app.session.open(paths, None if pages is None else {"pages": pages})

    app.push_screen(Browse(app.session.options.get("pages")), answered)


def settings(app: View) -> None:
    """Ask for the options of later documents, their formats and folder among them."""
    if no_engine(app):
        return

    def answered(options: dict[str, Any] | None) -> None:
        if options is not None:
            app.session.set_options(options)
            app.notify("The settings hold for documents that are opened from now on.")

    app.push_screen(Settings(app.session.options), answered)
