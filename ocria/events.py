"""Events of a run: one frozen kind of message for the command line, the app and Python.

Pages are 1-based physical numbers, boxes are `(x0, y0, x1, y1)` in points of the displayed page with the
origin top left.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data, with the kind of event in snake case under `type`."""
        kind = re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()
        return {"type": kind, **asdict(self)}


@dataclass(frozen=True, slots=True)
class DocumentStarted(Event):
    path: str
    pages: int
    """How many pages will be read, which may be fewer than the document has."""


@dataclass(frozen=True, slots=True)
class PageStarted(Event):
    path: str
    page: int


@dataclass(frozen=True, slots=True)
class PageRouted(Event):
    path: str
    page: int
    route: str
    """`blank`, `text` or `model`."""
    reason: str


@dataclass(frozen=True, slots=True)
class LinesFound(Event):
    path: str
    page: int
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class TextDelta(Event):
    path: str
    page: int
    unit: int
    """Which request of the page: the index of the line, or 0 for a page model."""
    text: str


@dataclass(frozen=True, slots=True)
class PageDone(Event):
    path: str
    page: int
    status: str
    """`ok`, `blank`, `failed`, `truncated`, `degenerate` or `timeout`."""
    route: str
    seconds: float
    tokens_out: int
    markdown: str


@dataclass(frozen=True, slots=True)
class DocumentDone(Event):
    path: str
    status: str
    """`ok`, `partial` (some pages failed), `failed` or `interrupted`."""
    seconds: float
    document: Any = None
    """The `ocria.Document`; not part of `to_dict`."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "type": "document_done", "path": self.path, "status": self.status, "seconds": self.seconds
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class EngineTick(Event):
    decode_tokens_per_s: float
    prefill_tokens_per_s: float
    running: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Note(Event):
    level: str
    """`debug`, `info`, `warning` or `error`."""
    message: str
    path: str | None = None
    page: int | None = None
