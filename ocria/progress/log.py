"""A log file beside what is shown: every event with its time, whatever the terminal gets.

The text of documents is not logged, and no password: events hold none.
"""

from __future__ import annotations

import contextlib
import json
import os
from datetime import UTC, datetime
from typing import IO, Any

from ocria.errors import OutputError
from ocria.events import (
    BatchDone,
    BatchStarted,
    DocumentDone,
    DocumentFailed,
    DocumentSkipped,
    DocumentStarted,
    DocumentWritten,
    EngineTick,
    Event,
    LinesFound,
    Note,
    PageDone,
    PageRouted,
    PageStarted,
    TextDelta,
)
from ocria.progress.lines import batch_line, failure_line, page_line, plural, printable, tick_line
from ocria.progress.reporter import Reporter

LOG_FORMATS = ("text", "json")
_TEXTS = ("markdown",)


class Log:
    """An open log, to which lines are appended as they come, so that several runs may share a file.

    Raises:
        OutputError: the file cannot be opened; later, it can no longer be written.
    """

    def __init__(self, path: str | os.PathLike[str], kind: str = "text"):
        self.path, self.kind = os.fspath(path), kind
        try:
            # Without a buffer each line is there at once, and in one piece.
            self._file: IO[bytes] | None = open(self.path, "ab", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise OutputError(f"the log cannot be opened: {error.strerror}", path=self.path) from error

    def show(self, event: Event) -> None:
        """Log one event; `TextDelta`, which is text of a document, is left out."""
        if isinstance(event, TextDelta):
            return
        if self.kind == "json":
            self._object({name: value for name, value in event.to_dict().items() if name not in _TEXTS})
        else:
            self._line(*_told(event))

    def say(self, line: str) -> None:
        """Log what was said to people."""
        self._either("info", line, {"type": "note", "level": "info", "message": line})

    def error(self, message: str, exit_code: int) -> None:
        """Log what ended the run."""
        told = {"type": "error", "message": message, "exit_code": exit_code}
        self._either("error", f"{message} (exit code {exit_code})", told)

    def begin(self, version: str, command: str, settings: dict[str, Any]) -> None:
        """Log what is run, with the settings that are worth telling."""
        told = ", ".join(f"{name} {value}" for name, value in settings.items())
        facts = {"type": "begin", "version": version, "command": command, "settings": settings}
        self._either("info", f"begin: {command}, version {version}; {told}", facts)

    def end(self, exit_code: int) -> None:
        """Log how it ended."""
        self._either("info", f"end: exit code {exit_code}", {"type": "end", "exit_code": exit_code})

    def close(self) -> None:
        """Let go of the file; nothing is logged from here on."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def _either(self, level: str, line: str, told: dict[str, Any]) -> None:
        if self.kind == "json":
            self._object(told)
        else:
            self._line(level, line)

    def _line(self, level: str, line: str) -> None:
        self._write(f"{_now()} {level:<7} {printable(line)}\n")

    def _object(self, told: dict[str, Any]) -> None:
        self._write(json.dumps({"time": _now(), **told}, default=str) + "\n")

    def _write(self, line: str) -> None:
        if self._file is None:
            return
        data = line.encode("utf-8", "backslashreplace")
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            broken, self._file = self._file, None  # what reports this error must not run into it again
            with contextlib.suppress(OSError):  # the same again: closing writes what is left
                broken.close()
            raise OutputError(f"the log cannot be written: {error.strerror}", path=self.path) from error


class Logged(Reporter):
    """A reporter with a log beside it, which gets the same events and errors."""

    def __init__(self, reporter: Reporter, log: Log):
        super().__init__(quiet=reporter.quiet, verbose=reporter.verbose)
        self._reporter, self._log = reporter, log

    def close(self) -> None:
        self._reporter.close()

    def show(self, event: Event) -> None:
        self._reporter.show(event)
        self._log.show(event)

    def say(self, line: str) -> None:
        self._reporter.say(line)
        self._log.say(line)

    def error(self, message: str, exit_code: int) -> None:
        self._reporter.error(message, exit_code)
        self._log.error(message, exit_code)

    def stopping(self) -> bytes | None:
        return self._reporter.stopping()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _told(event: Event) -> tuple[str, str]:
    """The level of an event, and what it says."""
    match event:
        case Note():
            parts = [event.path] if event.path is not None else []
            parts += [] if event.page is None else [f"page {event.page}"]
            return event.level, f"{', '.join(parts)}: {event.message}" if parts else event.message
        case BatchStarted():
            pages = "" if event.pages is None else f", {plural(event.pages, 'page')}"
            return "info", f"batch: {plural(event.documents, 'document')}{pages}"
        case DocumentStarted():
            which = f" (document {event.position} of {event.documents})" if event.documents > 1 else ""
            return "info", f"{event.path}: {plural(event.pages, 'page')}{which}"
        case DocumentFailed():
            return "error", f"{failure_line(event)} (exit code {event.exit_code})"
        case DocumentSkipped():
            return "info", f"{event.path}: skipped: {event.reason} ({event.status})"
        case DocumentWritten():
            return "info", f"{event.path}: wrote {', '.join(event.outputs)}"
        case DocumentDone():
            return "info", f"{event.path}: {event.status} in {event.seconds:.1f} s"
        case BatchDone():
            return "info", f"batch: {batch_line(event)}"
        case PageStarted():
            return "debug", f"{event.path}, page {event.page}: begins"
        case PageRouted():
            return "info", f"{event.path}, page {event.page}: {event.route} ({event.reason})"
        case LinesFound():
            return "debug", f"{event.path}, page {event.page}: {plural(len(event.boxes), 'line')}"
        case PageDone():
            return "info", f"{event.path}, {page_line(event)}"
        case EngineTick():
            return "debug", f"engine: {tick_line(event)}"
        case _:
            told = event.to_dict()
            kind = told.pop("type")
            return "debug", f"{kind}: " + ", ".join(f"{k} {v}" for k, v in told.items() if v is not None)
