"""Documents and pages as the app knows them. `ocria_tui.state.apply` is the only place that changes them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ocria.events import Box
from ocria_tui.messages import PageImage

QUEUED, STARTED, WAITING, PREFILL, DECODE = "queued", "started", "waiting", "prefill", "decode"
LIVE = (STARTED, WAITING, PREFILL, DECODE)
"""Statuses of a page that is being worked on; `STARTED` until its pixels are with the model, `PREFILL` from its first
prompt in the state to its first token."""
UNFINISHED = (QUEUED, *LIVE)
CANCELLED, SKIPPED, RUNNING, FAILED = "cancelled", "skipped", "running", "failed"
WELL = ("ok", "blank", SKIPPED)
"""Statuses of pages and documents that ended as they should."""


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
    """Text that has come so far, by line; 0 alone for a page model. Dropped when the whole page is there."""
    touched: dict[int, float] = field(default_factory=dict)
    """When text last came for a line that is in `units`."""
    markdown: str | None = None
    """None until the page is done."""
    error: str | None = None
    began: float | None = None
    first_text: float | None = None
    """When the first text came; seconds since the run began, as is `began`."""
    seconds: float | None = None
    tokens_out: int = 0
    accept_length: float | None = None
    image: PageImage | None = None
    version: int = 0
    """Grows with every change, so that a pane knows whether it shows the latest."""

    @property
    def done(self) -> bool:
        return self.status not in UNFINISHED


@dataclass(slots=True)
class DocumentState:
    """One document. status: `queued`, `running`, `cancelled`, `skipped`, or that of its `DocumentDone`."""

    path: str
    status: str = QUEUED
    pages: dict[int, PageState] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    """Numbers of `pages`, ascending."""
    counts: Counter[str] = field(default_factory=Counter)
    """How many pages have each status."""
    guessed: list[int] = field(default_factory=list)
    """Numbers that stand for pages of which only the count was told; real ones take their places."""
    outputs: tuple[str, ...] = ()
    error: str | None = None
    cure: str | None = None
    exit_code: int | None = None
    """Of the error, as the command line has it."""
    seconds: float | None = None
    version: int = 0
    """Grows when its status or that of one of its pages changes."""

    @property
    def ended(self) -> bool:
        return self.status not in (QUEUED, RUNNING)

    @property
    def finished(self) -> int:
        """How many pages are done, however they ended."""
        return len(self.pages) - sum(self.counts[status] for status in UNFINISHED)

    @property
    def unwell(self) -> int:
        """How many pages ended as they should not."""
        return self.finished - sum(self.counts[status] for status in WELL)
