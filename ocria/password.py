"""The password of an encrypted document: from the command line, a file, the environment, or whoever sits at the
terminal. It is shown nowhere and put into no message."""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from ocria.errors import EncryptedError, EncryptionUnsupportedError, UsageError
from ocria.events import Event

VARIABLE = "OCRIA_PASSWORD"
_TRIES = 3


def given_password(password: str | None, file: str | None) -> str | None:
    """The password as an option, or the first line of a file, or else the variable `OCRIA_PASSWORD`, unless empty.

    The file `-` is standard input, of which no more than its first line is taken; from a terminal it is not echoed.

    Raises:
        UsageError: both options, or a file that cannot be read.
    """
    if file is None:
        return password if password is not None else os.environ.get(VARIABLE) or None
    if password is not None:
        raise UsageError("give either --password or --password-file")
    try:
        line = _first_line(file).decode("utf-8-sig")
    except UnicodeDecodeError:  # whose message would quote the file
        raise UsageError("the password file is not written in UTF-8", path=file) from None
    except OSError as error:
        raise UsageError(f"the password file cannot be read ({error.strerror})", path=file) from error
    return line.removesuffix("\n").removesuffix("\r")


def _first_line(file: str) -> bytes:
    if file != "-":
        with Path(file).open("rb") as content:
            return content.readline()
    if sys.stdin is None:
        raise UsageError("standard input is closed, and the password was to come from it")
    if not sys.stdin.isatty():
        return sys.stdin.buffer.readline()
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return getpass.getpass("Password: ").encode("utf-8", "surrogateescape")
        except (EOFError, getpass.GetPassWarning) as error:
            raise UsageError("no password was given at the terminal") from error


def someone_is_there() -> bool:
    """Whether a question would be seen and could be answered."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def events_once_unlocked(begin: Callable[[str | None], Iterator[Event]], password: str | None) -> Iterator[Event]:
    """The events of a run that `begin` starts with a password. Where one is missing, whoever is at the terminal is
    asked for it, three times at most.

    Raises:
        EncryptedError: no password, or none that fits.
    """
    tries = _TRIES if password is None and someone_is_there() else 0
    while True:
        events = begin(password)
        try:
            first = next(events)
            break
        except EncryptedError as error:
            if not tries or isinstance(error, EncryptionUnsupportedError):
                raise
            tries -= 1
            again = "" if password is None else "That is not it. "
            password = _ask(f"{again}Password of {_printable(error.path)}: ", error)
    yield first
    yield from events


def _ask(question: str, error: EncryptedError) -> str:
    with warnings.catch_warnings(), _interruptible():
        # Rather not at all than where the answer would show.
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return getpass.getpass(question)
        except (EOFError, getpass.GetPassWarning, OSError):
            raise error from None


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the question; elsewhere it only asks the run to stop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _printable(path: str | None) -> str:
    from ocria.progress import printable

    return printable(path or "the document")
