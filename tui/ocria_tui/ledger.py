"""Pages and documents change their status here, and all that is counted of them changes along."""

from __future__ import annotations

from bisect import bisect_left, insort

from ocria_tui.app_state import AppState, LogLine
from ocria_tui.documents import DECODE, LIVE, QUEUED, RUNNING, DocumentState, PageState


def document_of(state: AppState, path: str) -> DocumentState:
    document = state.documents.get(path)
    if document is None:
        document = state.documents[path] = DocumentState(path)
        state.statuses[QUEUED] += 1
        state.unopened += 1
        state.changes += 1
    return document


def page_of(state: AppState, path: str, number: int) -> PageState:
    """A page, which takes the place of one that was only guessed if need be."""
    document = document_of(state, path)
    page = document.pages.get(number)
    if page is not None:
        return page
    while document.guessed:
        guess = document.guessed.pop()
        if guess in document.pages and document.pages[guess].status == QUEUED:
            remove(state, document, guess)
            break
    return add(state, document, number)


def add(state: AppState, document: DocumentState, number: int) -> PageState:
    if not document.pages and document.status == QUEUED:
        state.unopened -= 1
    page = document.pages[number] = PageState(number)
    if document.order and number < document.order[-1]:
        insort(document.order, number)
    else:
        document.order.append(number)
    document.counts[QUEUED] += 1
    state.counts[QUEUED] += 1
    changed(state, document)
    return page


def remove(state: AppState, document: DocumentState, number: int) -> None:
    """A page that waits and does not exist."""
    del document.pages[number]
    del document.order[bisect_left(document.order, number)]
    document.counts[QUEUED] -= 1
    state.counts[QUEUED] -= 1
    if not document.pages and document.status == QUEUED:
        state.unopened += 1


def live_page(state: AppState, path: str, number: int, status: str) -> PageState:
    """A page that something happened to: it is at least as far as `status`. What comes late for a page that is done
    does not bring it back."""
    page = page_of(state, path, number)
    page.version += 1
    far = LIVE.index(page.status) if page.status in LIVE else -1
    if not page.done and LIVE.index(status) > far:
        turn(state, path, page, status)
    return page


def renew(state: AppState, path: str, page: PageState) -> None:
    """A page that waits again, as if it never had been read; its image stays."""
    turn(state, path, page, QUEUED)
    page.route, page.reason, page.boxes, page.markdown, page.error = None, "", (), None, None
    page.units.clear()
    page.touched.clear()
    page.began = page.first_text = page.seconds = page.accept_length = None
    page.tokens_out = 0


def turn(state: AppState, path: str, page: PageState, status: str) -> None:
    """Give a page another status; the counts follow, and what is being read."""
    page.version += 1
    if page.status == status:
        return
    document = state.documents[path]
    for counts in (document.counts, state.counts):
        counts[page.status] -= 1
        counts[status] += 1
    changed(state, document)
    page.status = status
    key = (path, page.number)
    if status in LIVE:
        state.live[key] = None
        if document.status != RUNNING:
            set_status(state, document, RUNNING)
    else:
        state.live.pop(key, None)
    if status == DECODE:
        state.decoding[key] = None
    else:
        state.decoding.pop(key, None)
    _look(state)


def _look(state: AppState) -> None:
    """Choose the page to look at: the one so far while text comes for it, else the first that has some, else the first
    that was begun, else the one so far."""
    if state.reading in state.decoding:
        return
    if state.decoding:
        state.reading = next(iter(state.decoding))
    elif state.live and state.reading not in state.live:
        state.reading = next(iter(state.live))


def set_status(state: AppState, document: DocumentState, status: str) -> None:
    if not document.pages:
        state.unopened += (status == QUEUED) - (document.status == QUEUED)
    state.statuses[document.status] -= 1
    state.statuses[status] += 1
    document.status = status
    changed(state, document)


def changed(state: AppState, document: DocumentState) -> None:
    document.version += 1
    state.changes += 1


def end(state: AppState, document: DocumentState, status: str, rest: str) -> None:
    """No page more will come of a document: those that are not done get the status `rest`."""
    if document.counts.total() > document.finished:
        for page in document.pages.values():
            if not page.done:
                turn(state, document.path, page, rest)
    document.guessed.clear()
    set_status(state, document, status)


def log(state: AppState, line: LogLine) -> None:
    state.log.append(line)
    state.logged += 1
