"""Messages between this process and its children, over pipes.

A message is pickled; arrays travel behind it as they lie in memory. Both ends run the same code, so nothing here
guards against a foreign sender.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import select
import struct
import time
from dataclasses import dataclass, field
from typing import Any

LAYOUT = "ocria.document.layout"
"""A module that a child loads when it is idle, or when it is asked to."""

_HEAD = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_PIPE_BYTES = 1 << 20
_MOST_READ = 1 << 30  # bytes that one call of the system may move


@dataclass(frozen=True, slots=True)
class Request:
    """What a child is to do."""

    call: str
    """A name in `ocria.document.workers.child`."""
    arguments: tuple[Any, ...] = ()
    document: int | None = None
    """The number of an open document that it concerns."""
    forget: tuple[int, ...] = ()
    """Documents to close first."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The arguments of the call `open`."""

    path: str
    """For messages."""
    sha256: str
    """Of the file's bytes."""
    password: str | None = field(default=None, repr=False)
    file: str | None = None
    """The absolute path of the bytes, where `content` is None."""
    content: bytes | None = field(default=None, repr=False)
    kind: str | None = None
    """As `ocria.document.source.Readable` has it, once that is known; so `converted_from`."""
    converted_from: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """The answer to the call `open`."""

    page_count: int
    repaired: bool
    kind: str
    converted_from: str | None
    converted: bytes | None
    """The PDF that was made of the file, where it was no PDF, so that it is made only once."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An exception of a child."""

    kind: str
    """The name of a class in `ocria.errors`."""
    message: str
    path: str | None = None
    cure: str | None = None
    fatal: bool = False
    """Whether the child cannot be used any more."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request."""

    value: Any
    """A `Fault` where it failed."""
    memory: int
    """Bytes that the child has in use."""


def widen(fd: int) -> None:
    """Let a pipe take more at once, where the system can."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        try:
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            return  # over the user's limit: it stays as it is, and works


def send(fd: int, message: object) -> None:
    """Write a message. Raises BrokenPipeError where nobody reads."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    lengths = b"".join(_LENGTH.pack(view.nbytes) for view in views)
    _write(fd, memoryview(_HEAD.pack(len(body), len(views)) + lengths + body))
    for view in views:
        _write(fd, view)


def receive(fd: int, until: float | None = None) -> Any:
    """The next message.

    Args:
        until: a time of `time.monotonic`; None waits for ever.

    Raises:
        EOFError: the other end is closed.
        TimeoutError: the message was not there in time.
    """
    length, count = _HEAD.unpack(_read(fd, _HEAD.size, until))
    sizes = [_LENGTH.unpack(_read(fd, _LENGTH.size, until))[0] for _ in range(count)]
    body = _read(fd, length, until)
    return pickle.loads(body, buffers=[_read(fd, size, until) for size in sizes])


def _write(fd: int, data: memoryview) -> None:
    while data:
        data = data[os.write(fd, data[:_MOST_READ]) :]


def _read(fd: int, size: int, until: float | None) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while view:
        wait = None if until is None else max(0.0, until - time.monotonic()) * 1000
        if not poll.poll(wait):
            raise TimeoutError
        got = os.readv(fd, [view[:_MOST_READ]])
        if got == 0:
            raise EOFError
        view = view[got:]
    return data
