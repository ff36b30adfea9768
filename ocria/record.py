"""A run written down while it happens, and read back: a header, then one event a line with its time.

    {"type": "recording", "version": 1, "ocria": "0.1.0"}
    {"at": 0.0132, "type": "document_started", "path": "scan.pdf", ...}

The events hold the text of the documents.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from ocria import __version__
from ocria.errors import InputError, OutputError
from ocria.events import Event, event_from_dict

VERSION = 1
"""Of the form of the file; it changes when readers must."""


class Recording:
    """A recording that is being written. A line is in the file as soon as its event is added, so what was recorded can
    be read wherever the run ends. Not for several threads at once.

    Args:
        path: a file, or a pipe or device that is there.
        overwrite: replace a file that is there.

    Raises:
        OutputError: the file exists already or cannot be written, at once or later.
    """

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False):
        self.path = os.fspath(path)
        made_new = not (overwrite or _is_device(self.path))
        try:
            # Without a buffer each line is there at once.
            self._file: IO[bytes] = open(self.path, "xb" if made_new else "wb", buffering=0)  # noqa: SIM115
        except FileExistsError as error:
            raise OutputError("the recording exists already", path=path, cure="Replace it with --overwrite") from error
        except OSError as error:
            raise OutputError(f"the recording cannot be written: {error.strerror}", path=path) from error
        self._began = time.monotonic()
        self._write({"type": "recording", "version": VERSION, "ocria": __version__})

    def add(self, event: Event, at: float | None = None) -> None:
        """Write an event down; `at`: seconds since the start where that is not now."""
        at = time.monotonic() - self._began if at is None else at
        self._write({"at": round(at, 4), **event.to_dict()})

    def close(self) -> None:
        """Nothing is added any more; more than once does no harm."""
        self._file.close()

    def _write(self, told: dict[str, Any]) -> None:
        # Names of files may hold lone surrogates, which ASCII JSON keeps.
        rest = memoryview(json.dumps(told, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n")
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise OutputError(f"the recording cannot be written: {error.strerror}", path=self.path) from error


def read_recording(
    path: str | os.PathLike[str], also: Iterable[type[Event]] = ()
) -> Iterator[tuple[float, Event]]:
    """The events of a recording in order, each with the seconds since the start; read as they are asked for. A last
    line that was cut off, as a run that was killed leaves it, counts as not written.

    Args:
        path: of the file.
        also: kinds of events beside those of `ocria.events`.

    Raises:
        InputError: the file cannot be read, is no recording, was written by a newer version, or has a line that is
            broken, which is named.
    """
    kinds = tuple(also)
    try:
        with open(path, "rb") as file:
            _check_header(file.readline(), path)
            for number, line in enumerate(file, 2):
                told = _told(line)
                if told is None and not line.endswith(b"\n"):
                    return
                try:
                    yield _time(told), event_from_dict(told or {}, kinds)
                except InputError as error:
                    raise InputError(f"line {number}: {error.message}", path=path, cure=error.cure) from error
    except OSError as error:
        raise InputError(f"the recording cannot be read: {error.strerror}", path=path) from error


def _check_header(line: bytes, path: str | os.PathLike[str]) -> None:
    told = _told(line) or {}
    version = told.get("version")
    if told.get("type") != "recording" or not isinstance(version, int):
        raise InputError("line 1: this is no recording", path=path, cure="`ocria parse --record FILE` makes one")
    if version > VERSION:
        raise InputError("line 1: a newer version of ocria wrote this recording", path=path)


def _told(line: bytes) -> dict[str, Any] | None:
    """The object that a line holds; None where it holds none."""
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):  # as the parser has it for what is nested too deeply
        return None
    return told if isinstance(told, dict) else None


def _time(told: dict[str, Any] | None) -> float:
    if told is None:
        raise InputError("this is no event")
    at = told.get("at")
    if not isinstance(at, (int, float)) or isinstance(at, bool) or not 0 <= at < math.inf:
        raise InputError(f"{at!r} is no time")
    return float(at)


def _is_device(path: str) -> bool:
    """Whether it is there and neither a file nor a folder."""
    place = Path(path)
    return place.exists() and not place.is_file() and not place.is_dir()
