"""What a client asks for: fields of a form or a query as options of a run and the form of its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ocria.document.options import ParseOptions
from ocria.document.write import FORMATS
from ocria.errors import UsageError
from ocria.serve.options import ServeOptions
from ocria.serve.problems import Problem

CONTENT_TYPES = {
    "md": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "text": "text/plain; charset=utf-8",
    "pdf": "application/pdf",
}
_ACCEPTED = {kind.split(";")[0]: name for name, kind in CONTENT_TYPES.items()} | {"application/jsonl": "jsonl"}
_NAMES = {"markdown": "md", "txt": "text"}
_IMAGES = ("none", "placeholder", "embed")
"""Not `extract`: there is no folder for it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How a document is to be read and written."""

    format: str
    options: ParseOptions
    timeout: float
    """Seconds, waiting included."""
    page_markers: bool = False
    stream: bool = False


def asked_of(fields: Mapping[str, str], accept: str, base: ParseOptions, limits: ServeOptions) -> Asked:
    """Read the fields of a request. `base`: the options of the server.

    Raises:
        Problem: a field that is not for clients, or a value that it does not take.
        UsageError: likewise.
    """
    for name in fields:
        if name not in _FIELDS:
            known = ", ".join(sorted(_FIELDS))
            raise Problem(422, "usage_error", f"unknown field {name[:60]!r}", f"Known: {known}", param=name[:60])
    values = {}
    for name, text in fields.items():
        if text != "" or name == "password":
            values[name] = _FIELDS[name](name, text)
    chosen = {name: value for name, value in values.items() if name not in _OWN}
    return Asked(
        format=values.get("format") or accepted(accept),
        options=replace(base, **chosen),
        timeout=min(limits.timeout, values.get("timeout", limits.timeout)),
        page_markers=values.get("page_markers", False),
        stream=values.get("stream", False),
    )


def accepted(accept: str) -> str:
    """The format that an `Accept` header asks for: the first that is known, else Markdown."""
    for part in accept.lower().split(","):
        if (name := _ACCEPTED.get(part.split(";")[0].strip())) is not None:
            return name
    return "md"


def format_of(name: str, text: str) -> str:
    """A format by its name. Raises UsageError."""
    chosen = _NAMES.get(text, text)
    if chosen not in FORMATS:
        raise UsageError(f"{name} must be one of {', '.join(FORMATS)}, not {text[:60]!r}")
    return chosen


def flag(name: str, text: str) -> bool:
    """Raises UsageError."""
    value = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}.get(text.lower())
    if value is None:
        raise UsageError(f"{name} must be true or false, not {text[:60]!r}")
    return value


def whole(name: str, text: str) -> int:
    """Raises UsageError."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"{name} must be a whole number, not {text[:60]!r}")
    return int(text)


def _seconds(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UsageError(f"{name} must be seconds above 0, not {text[:60]!r}")
    return value


def _text(name: str, text: str) -> str:
    return text


def _images(name: str, text: str) -> str:
    if text not in _IMAGES:
        raise UsageError(f"{name} must be one of {', '.join(_IMAGES)}, not {text[:60]!r}")
    return text


_OWN = {"format", "stream", "name", "page_markers", "timeout"}
"""Fields that are no options of a run, or not as they stand."""
_FIELDS: dict[str, Callable[[str, str], Any]] = {
    "format": format_of,
    "stream": flag,
    "name": _text,
    "page_markers": flag,
    "timeout": _seconds,
    "pages": _text,
    "mode": _text,
    "password": _text,
    "dpi": whole,
    "keep_headers_footers": flag,
    "table_format": _text,
    "merge_tables": flag,
    "images": _images,
}
