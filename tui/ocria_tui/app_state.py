"""All that the app knows, as plain data. `ocria_tui.state.apply` is the only place that changes it."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from ocria.events import EngineTick
from ocria.progress.estimate import Estimate
from ocria_tui.documents import QUEUED, RUNNING, UNFINISHED, DocumentState, PageState

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
