"""What the app knows, kept apart from how it looks: events in, plain data out.

`apply` is the only place that changes it. Nothing here imports textual: a recorded run can be followed without a
terminal.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ocria.events import Box, EngineTick

QUEUED, STARTED, WAITING, PREFILL, DECODE = "queued", "started", "waiting", "prefill", "decode"
LIVE = (STARTED, WAITING, PREFILL, DECODE)
"""Statuses of a page that is being worked on; `STARTED` until its pixels are with the model."""
CANCELLED = "cancelled"

SAMPLES = 120
"""How many ticks the sparkline shows."""
LOG_LINES = 2000


@dataclass(slots=True)
class PageState:
    """One page. status: one of the above, or that of its `PageDone`."""

    number: int
    status: str = QUEUED
    route: str | None = None
    reason: str = ""
    boxes: tuple[Box, ...] = ()
    """Of the lines that were found, in points."""
    units: dict[int, str] = field(default_factory=dict)
    """Text that has come so far, by line; 0 alone for a page model."""
    markdown: str | None = None
    """None until the page is done."""
    error: str | None = None
    seconds: float | None = None
    tokens_out: int = 0
    accept_length: float | None = None


@dataclass(slots=True)
class DocumentState:
    """One document. status: `queued`, `running`, `cancelled`, `skipped`, or that of its `DocumentDone`."""

    path: str
    status: str = QUEUED
    pages: dict[int, PageState] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    error: str | None = None
    cure: str | None = None
    seconds: float | None = None


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
    speeds: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    """Decode tokens/s of the last ticks."""
    log: deque[LogLine] = field(default_factory=lambda: deque(maxlen=LOG_LINES))
    paused: bool = False
    ended: str | None = None
    """Why the engine process is gone; None while it is there."""
