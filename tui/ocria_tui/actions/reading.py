"""Pause, cancel, retry."""

from __future__ import annotations

from typing import Any

from ocria_tui.actions.view import View, count, no_engine, refuse, shown
from ocria_tui.screens.confirm import Confirm
from ocria_tui.screens.retry import Retry
from ocria_tui.state import AppState


def pause(app: View) -> None:
    """Pause, or go on. What came of it arrives as an event."""
    if app.state.paused:
        app.session.resume()
    else:
        app.session.pause()


def cancel_page(app: View) -> None:
    """Give up the page that is shown."""
    found = shown(app)
    if found is None or no_engine(app):
        return
    document, page = found
    if page is None or page.done:
        refuse(app, "This page is not being read." if page is None else f"Page {page.number} is done already.")
        return
    app.session.cancel(document.path, page.number)
    app.notify(f"Page {page.number} is given up.")


def cancel_document(app: View) -> None:
    """Give up the document that is shown."""
    found = shown(app)
    if found is None or no_engine(app):
        return
    document, _ = found
    if document.ended:
        refuse(app, "This document is done already.")
        return
    app.session.cancel(document.path)
    app.notify("The document is given up; its finished pages are kept.")


def cancel_all(app: View) -> None:
    """Give up everything, once that is confirmed."""
    if no_engine(app):
        return
    left = [document for document in app.state.documents.values() if not document.ended]
    if not left:
        refuse(app, "Nothing is being read.")
        return

    def answered(yes: bool | None) -> None:
        if yes:
            app.session.cancel()

    app.push_screen(Confirm(f"Give up {count(len(left), 'document')}? Finished pages are kept.", "Give up"), answered)


def retry(app: View) -> None:
    """Read the page that is shown again, or the document where none of its pages is known."""
    found = shown(app)
    if found is None or no_engine(app):
        return
    document, page = found
    if page is not None and not page.done:
        refuse(app, f"Page {page.number} is being read.")
        return
    app.session.retry(document.path, None if page is None else [page.number])
    app.notify("The document is read again." if page is None else f"Page {page.number} is read again.")


def retry_with(app: View) -> None:
    """Read pages again with options that are asked for."""
    found = shown(app)
    if found is None or no_engine(app):
        return
    document, page = found

    def answered(chosen: tuple[list[int] | None, dict[str, Any]] | None) -> None:
        if chosen is None:
            return
        pages, options = chosen
        app.session.retry(document.path, pages, options)
        app.notify(f"To be read again: {'all pages' if pages is None else count(len(pages), 'page')}.")

    screen = Retry(sorted(document.pages), None if page is None else page.number, dict(app.session.options))
    app.push_screen(screen, answered)


def restart(app: View) -> None:
    """Start an engine that has ended, or show a recording from its beginning."""
    if not app.session.live:
        app.state, app.search, app.following = AppState(), None, True
        app.document = app.page = None
        app.follow_panes()
    elif app.state.ended is None:
        refuse(app, "The engine is running.")
        return
    app.session.restart()
