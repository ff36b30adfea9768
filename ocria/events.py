"""Events of a run: one frozen kind of message for the command line, the app and Python.

Pages are 1-based physical numbers, boxes are `(x0, y0, x1, y1)` in points of the displayed page with the
origin top left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ocria.errors import InputError

Box = tuple[float, float, float, float]
_UNTOLD = {"untold": True}
"""Marks a field that is not part of `to_dict`."""


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data, with the kind of event in snake case under `type`; `event_from_dict` reads it."""
        values = ((f.name, getattr(self, f.name)) for f in fields(self) if "untold" not in f.metadata)
        told = {name: v.as_dict() if hasattr(v, "as_dict") else v for name, v in values}
        return {"type": _kind(type(self)), **told}


@dataclass(frozen=True, slots=True)
class DocumentStarted(Event):
    path: str
    pages: int
    """How many pages will be read, which may be fewer than the document has."""
    position: int = 1
    """Which document of the batch this is, from 1."""
    documents: int = 1
    """How many the batch has."""


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
    size: tuple[float, float] | None = None
    """Width and height of the displayed page in points, which the boxes are in."""


@dataclass(frozen=True, slots=True)
class TextDelta(Event):
    """New text of a line or page as the decoder writes it. What comes of it is in the page's result: a line may get a
    second opinion (`ocria.runtime.opinion`), a loop is cut, a line without text dropped."""

    path: str
    page: int
    unit: int
    """Which request of the page: the index of the line, or 0 for a page model."""
    text: str


@dataclass(frozen=True, slots=True)
class RequestSubmitted(Event):
    """A request waits for its turn.

    `request` is the engine's name for it. In a run over a document, `path`, `page` and `unit` say what it reads, as
    in `TextDelta`; from the engine itself they are None. So in the next two events.
    """

    request: str | int
    tokens_in: int
    """Rows of the prompt, image tokens included."""
    path: str | None = None
    page: int | None = None
    unit: int | None = None


@dataclass(frozen=True, slots=True)
class PrefillDone(Event):
    """The prompt of a request is in the state."""

    request: str | int
    tokens_in: int
    seconds: float
    """Since the first work on the request, that on its image included."""
    path: str | None = None
    page: int | None = None
    unit: int | None = None


@dataclass(frozen=True, slots=True)
class TokensAccepted(Event):
    """What decode steps brought a request since its last such event."""

    request: str | int
    tokens: int
    """Tokens that were chosen for it, a stop token included."""
    drafted: int = 0
    """Drafts that were verified."""
    accepted: int = 0
    """Those of them that the model chose itself."""
    path: str | None = None
    page: int | None = None
    unit: int | None = None
    acceptance: Any = None
    """The drafts by source and by position, an `ocria.runtime.acceptance.Acceptance`, or what its `as_dict` gives where
    the event was read back; None where there were none."""


@dataclass(frozen=True, slots=True)
class PageDone(Event):
    path: str
    page: int
    status: str
    """`ok`, `blank`, `failed`, `truncated`, `degenerate`, `timeout` or `cancelled`."""
    route: str
    seconds: float
    tokens_out: int
    markdown: str
    accept_length: float | None = None
    """As in `EngineTick`, of this page."""
    result: Any = field(default=None, metadata=_UNTOLD)
    """The `ocria.Page`, as it was read: what depends on other pages, such as the level of headings, is decided when the
    document is done. Not part of `to_dict`."""


@dataclass(frozen=True, slots=True)
class DocumentDone(Event):
    path: str
    status: str
    """`ok`, `partial` (some pages failed), `failed` or `interrupted`."""
    seconds: float
    document: Any = field(default=None, metadata=_UNTOLD)
    """The `ocria.Document`; not part of `to_dict`."""


@dataclass(frozen=True, slots=True)
class BatchStarted(Event):
    """Inputs were found and will be parsed one after the other."""

    documents: int
    pages: int | None = None
    """Of all of them, where that is known."""


@dataclass(frozen=True, slots=True)
class DocumentFailed(Event):
    """A document of a batch could not be parsed or written at all; the batch goes on."""

    path: str
    message: str
    """Without the path."""
    cure: str | None
    exit_code: int
    """Of the error, as the command line has it."""


@dataclass(frozen=True, slots=True)
class DocumentSkipped(Event):
    """A document of a batch was done by an earlier run with the same options and model."""

    path: str
    status: str
    """As in `DocumentDone`, or `failed` where it could not be opened."""
    reason: str


@dataclass(frozen=True, slots=True)
class DocumentWritten(Event):
    path: str
    outputs: tuple[str, ...]
    """Paths of the files that now hold it."""


@dataclass(frozen=True, slots=True)
class BatchDone(Event):
    """The end of a batch, in numbers of documents and pages."""

    ok: int
    partial: int
    failed: int
    skipped: int
    """Done by an earlier run; not among the others."""
    interrupted: int
    """Begun and not finished, or not begun."""
    pages: int
    """Read in this run."""
    failed_pages: int
    """Neither `ok` nor `blank`."""
    tokens_out: int
    seconds: float


@dataclass(frozen=True, slots=True)
class EngineTick(Event):
    """How the engine is doing, a few times a second. Speeds are those while it decodes or prefills, never averaged
    over idle time; what is not known is None. Definitions: `ocria.runtime.metrics`."""

    decode_tokens_per_s: float
    """Since the engine was made."""
    prefill_tokens_per_s: float
    running: int
    """Requests in the batch."""
    waiting: int
    """Requests in the queue."""
    decode_tokens_per_last_s: float = 0.0
    """Over the last second; 0 when nothing was decoded in it."""
    accept_length: float | None = None
    """Tokens of a request and verification, the one after the drafts included; None without drafts."""
    state_bytes: int | None = None
    """Allocated for the state of all slots."""
    device_bytes: int | None = None
    """In use on the device by this process, weights included."""
    bytes_per_s: float | None = None
    """Estimate of what decode steps of the last second moved."""
    bandwidth_percent: float | None = None
    """The same in percent of what the device's memory can do."""
    pages_per_s: float | None = None
    """Of the document that is being parsed, since it was opened."""
    acceptance: Any = None
    """What became of drafts since the engine was made, by source and by position, as in `TokensAccepted`; None without
    drafts."""
    prefill_tokens_per_last_s: float | None = None
    """Of prefill, as `decode_tokens_per_last_s`."""


@dataclass(frozen=True, slots=True)
class TaskProgress(Event):
    """How far a step of a long task is that parses nothing, such as quantising a model."""

    task: str
    done: int
    total: int
    left_s: float | None = None
    """Seconds until it is over, where that is known."""


@dataclass(frozen=True, slots=True)
class Note(Event):
    level: str
    """`debug`, `info`, `warning` or `error`."""
    message: str
    path: str | None = None
    page: int | None = None


def event_from_dict(told: Mapping[str, Any], also: Iterable[type[Event]] = ()) -> Event:
    """The event that `to_dict` has told, also by way of JSON: lists become tuples.

    What `to_dict` leaves out is None. An `acceptance` stays plain data, for its `as_dict` tells sums and not all that
    was counted. Keys that no field has, as a newer ocria may write them, are passed over.

    Args:
        told: the plain data.
        also: kinds of events beside those of this module.

    Raises:
        InputError: no such kind of event; a field is missing or holds what it cannot.
    """
    kind = told.get("type")
    known = _KINDS.get(kind) if isinstance(kind, str) else None
    event = known or next((other for other in also if _kind(other) == kind), None)
    if event is None:
        raise InputError(f"unknown kind of event {kind!r}", cure="A newer version of ocria may know it")
    values = {}
    for name, (hint, required) in _told_fields(event).items():
        if name in told:
            values[name] = _as_tuple(told[name])
            if not _fits(values[name], hint):
                raise InputError(f"event {kind!r}: {name} cannot be of type {type(told[name]).__name__}")
        elif required:
            raise InputError(f"event {kind!r}: {name} is missing")
    return event(**values)


def _kind(event: type[Event]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event.__name__).lower()


def _told_fields(event: type[Event]) -> dict[str, tuple[Any, bool]]:
    """The type of each field that `to_dict` tells, and whether it must be there."""
    if event not in _FIELDS:
        hints = get_type_hints(event)
        told = (f for f in fields(event) if "untold" not in f.metadata)
        _FIELDS[event] = {f.name: (hints[f.name], f.default is f.default_factory is MISSING) for f in told}
    return _FIELDS[event]


def _as_tuple(value: Any) -> Any:
    return tuple(_as_tuple(item) for item in value) if isinstance(value, (list, tuple)) else value


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type. An int is a float; a bool is neither."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is tuple and isinstance(value, tuple):
        each = inner[:1] * len(value) if inner[-1] is ... else inner
        return len(each) == len(value) and all(map(_fits, value, each))
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    return isinstance(value, origin or hint)


EVENTS: tuple[type[Event], ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, type) and issubclass(value, Event)
)[1:]
"""All kinds of events here; the first class is their base."""
_KINDS = {_kind(event): event for event in EVENTS}
_FIELDS: dict[type[Event], dict[str, tuple[Any, bool]]] = {}
