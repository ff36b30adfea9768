"""What the app knows, kept apart from how it looks: events in, plain data out.

`apply` is the only place that changes it. Nothing here imports textual: a recorded run can be followed without a
terminal.
"""

from __future__ import annotations

from ocria.events import (
    BatchDone,
    DocumentDone,
    DocumentFailed,
    DocumentSkipped,
    DocumentStarted,
    DocumentWritten,
    EngineTick,
    Event,
    LinesFound,
    Note,
    PageDone,
    PageRouted,
    PageStarted,
    PrefillDone,
    RequestSubmitted,
    TextDelta,
    TokensAccepted,
)
from ocria.progress.lines import batch_line, plural
from ocria_tui.app_state import LOG_LINES, SAMPLES, AppState, LogLine
from ocria_tui.documents import (
    CANCELLED,
    DECODE,
    FAILED,
    LIVE,
    PREFILL,
    QUEUED,
    RUNNING,
    SKIPPED,
    STARTED,
    UNFINISHED,
    WAITING,
    WELL,
    DocumentState,
    PageState,
)
from ocria_tui.ledger import add, changed, document_of, end, live_page, log, page_of, remove, renew, set_status, turn
from ocria_tui.messages import (
    DocumentCancelled,
    DocumentQueued,
    Exported,
    PageImage,
    PausedChanged,
    Refused,
    SessionEnded,
)

__all__ = [
    "CANCELLED", "DECODE", "FAILED", "LIVE", "LOG_LINES", "PREFILL", "QUEUED", "RUNNING", "SAMPLES", "SKIPPED",
    "STARTED", "UNFINISHED", "WAITING", "WELL", "AppState", "DocumentState", "LogLine", "PageState", "apply",
]  # fmt: skip


def apply(state: AppState, at: float, event: Event) -> None:
    """Take in an event that came `at` so many seconds after the run began. Events that say nothing to the app, also
    those of kinds it does not know, change nothing."""
    state.now = max(state.now, at)
    if isinstance(event, DocumentQueued | DocumentStarted | PageStarted | EngineTick):
        state.ended = None  # the engine was started again
    match event:
        case TextDelta():
            _text(state, event)
        case TokensAccepted(path=str(), page=int()):
            page = live_page(state, event.path, event.page, DECODE)
            page.tokens_out += event.tokens
        case RequestSubmitted(path=str(), page=int()):
            live_page(state, event.path, event.page, WAITING)
        case PrefillDone(path=str(), page=int()):
            live_page(state, event.path, event.page, PREFILL)
        case PageStarted():
            page = page_of(state, event.path, event.page)
            renew(state, event.path, page)
            page.began = at
            turn(state, event.path, page, STARTED)
        case PageRouted():
            page = live_page(state, event.path, event.page, STARTED)
            page.route, page.reason = event.route, event.reason
        case LinesFound():
            page = live_page(state, event.path, event.page, STARTED)
            page.boxes = tuple(event.boxes)
        case PageDone():
            _page_done(state, event)
        case EngineTick():
            state.tick = event
            state.ticks += 1
            state.speeds.append(event.decode_tokens_per_last_s)
            state.speeds_at.append(at)
        case DocumentQueued():
            _queued(state, event)
        case DocumentStarted():
            _started(state, event)
        case DocumentDone():
            document = document_of(state, event.path)
            document.seconds = event.seconds
            end(state, document, event.status, CANCELLED)
        case DocumentFailed():
            document = document_of(state, event.path)
            document.error, document.cure, document.exit_code = event.message, event.cure, event.exit_code
            end(state, document, FAILED, FAILED)
            log(state, LogLine(at, "error", event.message, event.path, cure=event.cure))
        case DocumentSkipped():
            end(state, document_of(state, event.path), SKIPPED, SKIPPED)
            log(state, LogLine(at, "info", f"skipped: {event.reason}", event.path))
        case DocumentCancelled():
            end(state, document_of(state, event.path), CANCELLED, CANCELLED)
            log(state, LogLine(at, "info", "cancelled", event.path))
        case DocumentWritten() | Exported():
            document = document_of(state, event.path)
            document.outputs = tuple(event.outputs)
            changed(state, document)
            log(state, LogLine(at, "info", f"wrote {', '.join(event.outputs)}", event.path))
        case BatchDone():
            log(state, LogLine(at, "info", batch_line(event)))
        case Note():
            page = state.page(event.path, event.page)
            if page is not None and event.level == "error":
                page.error = event.message
                page.version += 1
            log(state, LogLine(at, event.level, event.message, event.path, event.page))
        case PageImage():
            page = page_of(state, event.path, event.page)
            page.image = event
            page.version += 1
        case PausedChanged():
            _paused(state, event.paused)
        case Refused():
            log(state, LogLine(at, "warning", event.message, event.path, cure=event.cure))
        case SessionEnded():
            _session_ended(state, event)


def _text(state: AppState, event: TextDelta) -> None:
    page = live_page(state, event.path, event.page, DECODE)
    page.units[event.unit] = page.units.get(event.unit, "") + event.text
    page.touched[event.unit] = state.now
    if page.first_text is None:
        page.first_text = state.now


def _page_done(state: AppState, event: PageDone) -> None:
    page = page_of(state, event.path, event.page)
    page.route, page.seconds, page.tokens_out = event.route, event.seconds, event.tokens_out
    page.accept_length, page.markdown = event.accept_length, event.markdown
    if event.result is not None and event.result.error is not None:
        page.error = event.result.error
    page.units.clear()
    page.touched.clear()
    state.estimate.see(event)
    turn(state, event.path, page, event.status)


def _queued(state: AppState, event: DocumentQueued) -> None:
    """A document waits, or pages of it do again, or the pages of one that is being opened are known by now."""
    document = document_of(state, event.path)
    if document.ended:
        set_status(state, document, QUEUED)
        document.error = document.cure = document.exit_code = document.seconds = None
    for number in event.pages or ():
        page = page_of(state, event.path, number)
        if page.done:
            renew(state, event.path, page)
    if event.pages:
        for number in set(document.guessed).difference(event.pages):
            if number in document.pages and document.pages[number].status == QUEUED:
                remove(state, document, number)
        document.guessed.clear()


def _started(state: AppState, event: DocumentStarted) -> None:
    document = document_of(state, event.path)
    if not document.pages:
        document.guessed = list(range(1, event.pages + 1))
        for number in document.guessed:
            add(state, document, number)
    set_status(state, document, RUNNING)
    document.error = document.cure = document.exit_code = None
    state.estimate.see(event)
    log(state, LogLine(state.now, "info", plural(event.pages, "page"), event.path))


def _paused(state: AppState, paused: bool) -> None:
    if paused and not state.paused:
        state.paused_since = state.now
    elif not paused and state.paused_since is not None:
        state.paused_s += state.now - state.paused_since
        state.paused_since = None
    state.paused = paused


def _session_ended(state: AppState, event: SessionEnded) -> None:
    for document in state.documents.values():
        if document.status == RUNNING:
            end(state, document, "interrupted", CANCELLED)
    state.ended = event.message or "finished"
    if event.message is not None:
        log(state, LogLine(state.now, "error", event.message, cure=event.cure))
