"""From the command line to the app, or to lines of text where there is no terminal for it."""

from __future__ import annotations

import difflib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from textual.theme import BUILTIN_THEMES

from ocria.errors import UsageError
from ocria_tui.exit_code import exit_code
from ocria_tui.kept import kept_theme
from ocria_tui.keymap import read_keymap
from ocria_tui.plain import must_be_plain, run_plain
from ocria_tui.sessions import make_session
from ocria_tui.settings import AppSettings
from ocria_tui.theme import DARK, THEMES


def run(
    files: Sequence[str],
    options: Mapping[str, Any],
    *,
    replay: str | None = None,
    speed: float = 1.0,
    record: str | None = None,
    theme: str | None = None,
    keymap: str | None = None,
    images: bool = True,
    ascii_only: bool = False,
    animation: bool = True,
    plain: bool = False,
    fail_on: str = "partial",
) -> int:
    """Run the app until the user leaves it; returns the exit code, which tells how the documents went.

    Args:
        files: files, folders and patterns to open at once.
        options: as of `ocria_tui.session_options`.
        replay: a recording to show; then `files` is empty.
        record: a file for everything that happens.
        keymap: a file with keys; None takes the default one, if it is there.
        plain: lines of text in place of the app.
        fail_on: one of `ocria.batch.options.FAIL_ON`.

    Raises:
        OcriaError: an option, a file or the theme that cannot be used.
    """
    settings = AppSettings(_theme(theme), read_keymap(keymap), images, ascii_only, animation)
    plain = plain or must_be_plain()
    if plain and not files and replay is None:
        raise UsageError("nothing to read", cure="Name files, or run it on a terminal to choose them")
    session = make_session(files, options, replay=replay, speed=speed, record=record)
    if plain:
        return run_plain(session, fail_on=fail_on)
    from ocria_tui.app import OcriaApp
    from ocria_tui.graphics import image_widget
    from ocria_tui.terminal import Terminal

    try:
        graphics = image_widget() if images and not ascii_only and "NO_COLOR" not in os.environ else None
        app = OcriaApp(session, settings, graphics)
        signal.signal(signal.SIGTERM, lambda number, frame: app.exit())  # which leaves the terminal as it was
        app.driver_class = Terminal
        app.run()
    finally:
        session.close()
    if app.return_code:  # a fault of the app, which has shown it
        return app.return_code
    return exit_code(app.state, fail_on)


def _theme(name: str | None) -> str:
    """A theme by its name, else the one that was kept unless it is gone, else the app's own. Raises UsageError."""
    known = sorted({*BUILTIN_THEMES, *(theme.name for theme in THEMES)})
    if name is None:
        kept = kept_theme()
        return kept if kept in known else DARK
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        cure = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(known)}"
        raise UsageError(f"there is no theme {name!r}", cure=cure)
    return name
