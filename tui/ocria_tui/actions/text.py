"""What was read: searched and copied."""

from __future__ import annotations

from ocria_tui.actions.view import View, count, refuse, shown
from ocria_tui.screens.find import Find
from ocria_tui.search import Search, markdown_of, text_of


def search(app: View) -> None:
    """Ask for words, and show the first place from this page on where they stand."""
    found = shown(app)
    if found is None:
        return
    document, page = found

    def answered(words: str | None) -> None:
        if words is None:
            return
        if not words:
            app.search = None
            return
        app.search = Search.of(document, words, page.number if page is not None else 1)
        _show_hit(app)

    app.push_screen(Find(document, app.search.words if app.search is not None else ""), answered)


def step_hit(app: View, step: int) -> None:
    """Go to the next place, or the one before, around the ends of the document."""
    if app.search is None:
        refuse(app, "Nothing is looked for. Search first.")
        return
    document = app.state.documents.get(app.search.path)
    if document is None:
        app.search = None
        return
    app.search = app.search.step(document, step)
    _show_hit(app)


def copy_page(app: View) -> None:
    """Put the Markdown of the page, or what has come of it, on the clipboard."""
    found = shown(app)
    if found is None:
        return
    _, page = found
    if page is None or not text_of(page):
        refuse(app, "There is no text on this page." if page is not None else "No page is shown.")
        return
    _copy(app, text_of(page), f"page {page.number}")


def copy_document(app: View) -> None:
    """Put the Markdown of all pages that have text on the clipboard."""
    found = shown(app)
    if found is None:
        return
    document, _ = found
    text = markdown_of(document)
    if not text:
        refuse(app, "Nothing of this document has been read.")
        return
    pages = sum(bool(text_of(page)) for page in document.pages.values())
    _copy(app, text, count(pages, "page"))


def _copy(app: View, text: str, what: str) -> None:
    app.copy_to_clipboard(text)
    app.notify(f"Copied {what}: {count(len(text), 'character')}.")


def _show_hit(app: View) -> None:
    found = app.search
    if found.hit is None:
        app.notify(f"{found.words!r} stands nowhere in this document.", severity="warning", markup=False)
        return
    app.show(found.path, found.hit.page)
    where = f"{found.index + 1} of {len(found.hits)}, page {found.hit.page}"
    app.notify(f"{found.words!r}: {where}", timeout=3, markup=False)
