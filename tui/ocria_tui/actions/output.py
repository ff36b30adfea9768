"""What was read, written to files and given to an editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from textual.app import SuspendNotSupported

from ocria.errors import MissingDependencyError, OcriaError
from ocria_tui.actions.view import View, no_engine, refuse, shown
from ocria_tui.screens.export import Export
from ocria_tui.search import markdown_of
from ocria_tui.settings import OUTPUT_DIR

_EDITORS = ("editor", "nano", "vim", "vi")


def export(app: View) -> None:
    """Ask for formats and a place, and write what is there of the document."""
    found = shown(app)
    if found is None or no_engine(app):
        return
    document, _ = found
    if not any(page.markdown is not None for page in document.pages.values()):
        refuse(app, "No page of this document is done yet.")
        return

    def answered(chosen: tuple[tuple[str, ...], str, bool] | None) -> None:
        if chosen is None:
            return
        formats, target, replaces = chosen
        app.session.export(document.path, formats, target, replaces)

    options = app.session.options
    formats, folder = options.get("formats") or ("md",), str(options.get("output_dir") or OUTPUT_DIR)
    app.push_screen(Export(document.path, formats, folder), answered)


def edit(app: View) -> None:
    """Hand the terminal to an editor with the Markdown of the document in a temporary file, until it ends."""
    found = shown(app)
    if found is None:
        return
    document, _ = found
    text = markdown_of(document)
    if not text:
        refuse(app, "Nothing of this document has been read.")
        return
    try:
        editor = find_editor()
        with tempfile.TemporaryDirectory(prefix="ocria-") as folder:
            path = Path(folder, f"{Path(document.path).name}.md")
            path.write_text(text, encoding="utf-8")
            with app.suspend():
                code = subprocess.run([*editor, str(path)], check=False).returncode
            changed = path.read_text(encoding="utf-8", errors="replace") != text
    except (OcriaError, OSError) as error:
        app.notify(str(error), severity="error", markup=False)
    except SuspendNotSupported:
        app.notify("This terminal cannot be handed to an editor.", severity="error")
    else:
        if code:
            app.notify(f"{editor[0]} ended with {code}.", severity="warning", markup=False)
        elif changed:
            app.notify("The editor had a copy: what was changed in it and not saved elsewhere is gone.")


def find_editor(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The words of `$VISUAL` or `$EDITOR`, else of an editor that is there. Raises MissingDependencyError."""
    for name in ("VISUAL", "EDITOR"):
        if value := environment.get(name, "").strip():
            try:
                return shlex.split(value)
            except ValueError as error:
                raise MissingDependencyError(f"{name} is no command: {error}", cure=f"Set {name} anew") from error
    for name in _EDITORS:
        if any(os.access(Path(folder, name), os.X_OK) for folder in os.get_exec_path(environment)):
            return [name]
    raise MissingDependencyError("no editor was found", cure="Set EDITOR, such as EDITOR=nano")
