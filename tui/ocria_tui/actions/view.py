"""What actions ask of the app, and what several of them do with it."""

from __future__ import annotations

from typing import Any, Protocol

from ocria_tui.session import Session
from ocria_tui.settings import AppSettings
from ocria_tui.state import AppState, DocumentState, PageState


class View(Protocol):
    """The app as actions know it, beside what every Textual app has."""

    state: AppState
    session: Session
    settings: AppSettings
    document: str | None
    """Path of the document that is shown."""
    page: int | None
    """Number of the page that is shown."""
    following: bool
    """Whether the page that is being read is shown, whichever it is."""
    raw: bool
    boxes: bool
    images: bool
    log_shown: bool
    search: Any
    """An `ocria_tui.search.Search` whose hits are marked in the text, None where nothing is looked for."""
    quit_asked: bool
    """Whether the key to quit was pressed just now while something was being read."""

    def follow_panes(self) -> None:
        """Show what changed."""

    def show(self, path: str, page: int | None = None) -> None:
        """Show a page, of a document its first or the last one shown; no longer follows."""


def shown(app: View) -> tuple[DocumentState, PageState | None] | None:
    """The document and the page that are shown; says so where there is none."""
    document = app.state.documents.get(app.document) if app.document is not None else None
    if document is None:
        refuse(app, "There is no document. Open one first.")
        return None
    return document, document.pages.get(app.page) if app.page is not None else None


def refuse(app: View, why: str) -> None:
    """Tell why something is not done."""
    app.notify(why, severity="warning")


def no_engine(app: View) -> bool:
    """Whether there is none to ask; says so."""
    if not app.session.live:
        refuse(app, "This is a recording: there is no engine behind it.")
    elif app.state.ended is not None:
        refuse(app, "The engine has ended.")
    else:
        return False
    return True


def count(number: int, what: str) -> str:
    """`1 page`, `2 pages`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
