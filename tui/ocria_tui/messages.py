"""What a session tells the app beside the events of the run. They are events too, and recorded with them."""

from __future__ import annotations

from dataclasses import dataclass

from ocria.events import Event


@dataclass(frozen=True, slots=True)
class DocumentQueued(Event):
    """A document waits for its turn, or some of its pages do once more. pages: those that will be read, None where they
    are not known before it is opened; once they are it is told again."""

    path: str
    pages: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class DocumentCancelled(Event):
    """A document was taken from the queue or broken off; what was read of it is kept."""

    path: str


@dataclass(frozen=True, slots=True)
class PausedChanged(Event):
    paused: bool


@dataclass(frozen=True, slots=True)
class PageImage(Event):
    """A page was drawn. file: a PNG; width, height: of the displayed page in points, as boxes count."""

    path: str
    page: int
    file: str
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Exported(Event):
    path: str
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused(Event):
    """A command could not be followed. path: of the document that it was about."""

    message: str
    cure: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class SessionEnded(Event):
    """Nothing more will come. message: what went wrong, None where nothing did."""

    message: str | None = None
    cure: str | None = None


MESSAGES = (
    DocumentQueued, DocumentCancelled, PausedChanged, PageImage, Exported, Refused, SessionEnded,
)  # fmt: skip
"""All of them, for who reads events back."""
