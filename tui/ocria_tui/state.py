"""What the app knows, kept apart from how it looks: events in, plain data out.

`apply` is the only place that changes it. Nothing here imports textual: a recorded run can be followed without a
terminal.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, deque
from dataclasses import dataclass, field

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
from ocria.progress.estimate import Estimate
from ocria.progress.lines import batch_line, plural
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

SAMPLES = 120
"""How many ticks the sparkline shows."""
LOG_LINES = 2000


@dataclass(slots=True)
class LogLine:
    """level: as of `Note`. at: seconds since the run began."""

    at: float
    level: str
    message: str
    path: str | None = None
    page: int | None = None
    cure: str | None = None


@dataclass(slots=True)
class AppState:
    """All of it. tick: the last one of the engine, None before the model is loaded."""

    documents: dict[str, DocumentState] = field(default_factory=dict)
    tick: EngineTick | None = None
    ticks: int = 0
    """How many there were."""
    speeds: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    """Decode tokens/s of the last ticks."""
    speeds_at: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    """When they came."""
    log: deque[LogLine] = field(default_factory=lambda: deque(maxlen=LOG_LINES))
    logged: int = 0
    """Lines ever logged; `log` holds the last of them."""
    paused: bool = False
    ended: str | None = None
    """Why the engine process is gone; None while it is there."""
    now: float = 0.0
    """When the last event came."""
    paused_since: float | None = None
    paused_s: float = 0.0
    """How long reading has stood still at the user's wish, the present pause not included."""
    counts: Counter[str] = field(default_factory=Counter)
    """How many pages of all documents have each status."""
    statuses: Counter[str] = field(default_factory=Counter)
    """How many documents have each status."""
    changes: int = 0
    """Grows with the `version` of any document."""
    unopened: int = 0
    """Documents that wait and whose number of pages is not known."""
    live: dict[tuple[str, int], None] = field(default_factory=dict)
    """Pages that are being worked on, in the order in which they were begun."""
    decoding: dict[tuple[str, int], None] = field(default_factory=dict)
    """Those of them that text comes for, in the order in which it began."""
    reading: tuple[str, int] | None = None
    """The page to look at: text comes for it, or did last. It changes only when it is done."""
    estimate: Estimate = field(init=False)

    def __post_init__(self) -> None:
        self.estimate = Estimate(clock=self.working_s)

    def working_s(self) -> float:
        """Seconds of the run without its pauses."""
        here = 0.0 if self.paused_since is None else max(0.0, self.now - self.paused_since)
        return self.now - self.paused_s - here

    @property
    def documents_ended(self) -> int:
        return len(self.documents) - self.statuses[QUEUED] - self.statuses[RUNNING]

    @property
    def pages_left(self) -> int:
        """Pages that are known and not done, of documents that have not ended."""
        return sum(self.counts[status] for status in UNFINISHED)

    def page(self, path: str | None, number: int | None) -> PageState | None:
        document = None if path is None else self.documents.get(path)
        return None if document is None or number is None else document.pages.get(number)


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
            page = _live_page(state, event.path, event.page, DECODE)
            page.tokens_out += event.tokens
        case RequestSubmitted(path=str(), page=int()):
            _live_page(state, event.path, event.page, WAITING)
        case PrefillDone(path=str(), page=int()):
            _live_page(state, event.path, event.page, PREFILL)
        case PageStarted():
            page = _page(state, event.path, event.page)
            _renew(state, event.path, page)
            page.began = at
            _turn(state, event.path, page, STARTED)
        case PageRouted():
            page = _live_page(state, event.path, event.page, STARTED)
            page.route, page.reason = event.route, event.reason
        case LinesFound():
            page = _live_page(state, event.path, event.page, STARTED)
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
            document = _document(state, event.path)
            document.seconds = event.seconds
            _end(state, document, event.status, CANCELLED)
        case DocumentFailed():
            document = _document(state, event.path)
            document.error, document.cure, document.exit_code = event.message, event.cure, event.exit_code
            _end(state, document, FAILED, FAILED)
            _log(state, LogLine(at, "error", event.message, event.path, cure=event.cure))
        case DocumentSkipped():
            _end(state, _document(state, event.path), SKIPPED, SKIPPED)
            _log(state, LogLine(at, "info", f"skipped: {event.reason}", event.path))
        case DocumentCancelled():
            _end(state, _document(state, event.path), CANCELLED, CANCELLED)
            _log(state, LogLine(at, "info", "cancelled", event.path))
        case DocumentWritten() | Exported():
            document = _document(state, event.path)
            document.outputs = tuple(event.outputs)
            _changed(state, document)
            _log(state, LogLine(at, "info", f"wrote {', '.join(event.outputs)}", event.path))
        case BatchDone():
            _log(state, LogLine(at, "info", batch_line(event)))
        case Note():
            page = state.page(event.path, event.page)
            if page is not None and event.level == "error":
                page.error = event.message
                page.version += 1
            _log(state, LogLine(at, event.level, event.message, event.path, event.page))
        case PageImage():
            page = _page(state, event.path, event.page)
            page.image = event
            page.version += 1
        case PausedChanged():
            _paused(state, event.paused)
        case Refused():
            _log(state, LogLine(at, "warning", event.message, event.path, cure=event.cure))
        case SessionEnded():
            _session_ended(state, event)


def _text(state: AppState, event: TextDelta) -> None:
    page = _live_page(state, event.path, event.page, DECODE)
    page.units[event.unit] = page.units.get(event.unit, "") + event.text
    page.touched[event.unit] = state.now
    if page.first_text is None:
        page.first_text = state.now


def _page_done(state: AppState, event: PageDone) -> None:
    page = _page(state, event.path, event.page)
    page.route, page.seconds, page.tokens_out = event.route, event.seconds, event.tokens_out
    page.accept_length, page.markdown = event.accept_length, event.markdown
    if event.result is not None and event.result.error is not None:
        page.error = event.result.error
    page.units.clear()
    page.touched.clear()
    state.estimate.see(event)
    _turn(state, event.path, page, event.status)


def _queued(state: AppState, event: DocumentQueued) -> None:
    """A document waits, or pages of it do again, or the pages of one that is being opened are known by now."""
    document = _document(state, event.path)
    if document.ended:
        _set_status(state, document, QUEUED)
        document.error = document.cure = document.exit_code = document.seconds = None
    for number in event.pages or ():
        page = _page(state, event.path, number)
        if page.done:
            _renew(state, event.path, page)
    if event.pages:
        for number in set(document.guessed).difference(event.pages):
            if number in document.pages and document.pages[number].status == QUEUED:
                _remove(state, document, number)
        document.guessed.clear()


def _started(state: AppState, event: DocumentStarted) -> None:
    document = _document(state, event.path)
    if not document.pages:
        document.guessed = list(range(1, event.pages + 1))
        for number in document.guessed:
            _add(state, document, number)
    _set_status(state, document, RUNNING)
    document.error = document.cure = document.exit_code = None
    state.estimate.see(event)
    _log(state, LogLine(state.now, "info", plural(event.pages, "page"), event.path))


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
            _end(state, document, "interrupted", CANCELLED)
    state.ended = event.message or "finished"
    if event.message is not None:
        _log(state, LogLine(state.now, "error", event.message, cure=event.cure))


def _document(state: AppState, path: str) -> DocumentState:
    document = state.documents.get(path)
    if document is None:
        document = state.documents[path] = DocumentState(path)
        state.statuses[QUEUED] += 1
        state.unopened += 1
        state.changes += 1
    return document


def _page(state: AppState, path: str, number: int) -> PageState:
    """A page, which takes the place of one that was only guessed if need be."""
    document = _document(state, path)
    page = document.pages.get(number)
    if page is not None:
        return page
    while document.guessed:
        guess = document.guessed.pop()
        if guess in document.pages and document.pages[guess].status == QUEUED:
            _remove(state, document, guess)
            break
    return _add(state, document, number)


def _add(state: AppState, document: DocumentState, number: int) -> PageState:
    if not document.pages and document.status == QUEUED:
        state.unopened -= 1
    page = document.pages[number] = PageState(number)
    if document.order and number < document.order[-1]:
        insort(document.order, number)
    else:
        document.order.append(number)
    document.counts[QUEUED] += 1
    state.counts[QUEUED] += 1
    _changed(state, document)
    return page


def _remove(state: AppState, document: DocumentState, number: int) -> None:
    """A page that waits and does not exist."""
    del document.pages[number]
    del document.order[bisect_left(document.order, number)]
    document.counts[QUEUED] -= 1
    state.counts[QUEUED] -= 1
    if not document.pages and document.status == QUEUED:
        state.unopened += 1


def _live_page(state: AppState, path: str, number: int, status: str) -> PageState:
    """A page that something happened to: it is at least as far as `status`. What comes late for a page that is done
    does not bring it back."""
    page = _page(state, path, number)
    page.version += 1
    far = LIVE.index(page.status) if page.status in LIVE else -1
    if not page.done and LIVE.index(status) > far:
        _turn(state, path, page, status)
    return page


def _renew(state: AppState, path: str, page: PageState) -> None:
    """A page that waits again, as if it never had been read; its image stays."""
    _turn(state, path, page, QUEUED)
    page.route, page.reason, page.boxes, page.markdown, page.error = None, "", (), None, None
    page.units.clear()
    page.touched.clear()
    page.began = page.first_text = page.seconds = page.accept_length = None
    page.tokens_out = 0


def _turn(state: AppState, path: str, page: PageState, status: str) -> None:
    """Give a page another status; the counts follow, and what is being read."""
    page.version += 1
    if page.status == status:
        return
    document = state.documents[path]
    for counts in (document.counts, state.counts):
        counts[page.status] -= 1
        counts[status] += 1
    _changed(state, document)
    page.status = status
    key = (path, page.number)
    if status in LIVE:
        state.live[key] = None
        if document.status != RUNNING:
            _set_status(state, document, RUNNING)
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


def _set_status(state: AppState, document: DocumentState, status: str) -> None:
    if not document.pages:
        state.unopened += (status == QUEUED) - (document.status == QUEUED)
    state.statuses[document.status] -= 1
    state.statuses[status] += 1
    document.status = status
    _changed(state, document)


def _changed(state: AppState, document: DocumentState) -> None:
    document.version += 1
    state.changes += 1


def _end(state: AppState, document: DocumentState, status: str, rest: str) -> None:
    """No page more will come of a document: those that are not done get the status `rest`."""
    if document.counts.total() > document.finished:
        for page in document.pages.values():
            if not page.done:
                _turn(state, document.path, page, rest)
    document.guessed.clear()
    _set_status(state, document, status)


def _log(state: AppState, line: LogLine) -> None:
    state.log.append(line)
    state.logged += 1
