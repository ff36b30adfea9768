"""What every reporter does: notes and errors on standard error, and with `verbose` routes and pages."""

from __future__ import annotations

from ocria.events import (
    BatchStarted,
    DocumentFailed,
    DocumentSkipped,
    DocumentWritten,
    Event,
    Note,
    PageDone,
    PageRouted,
)
from ocria.progress.lines import failure_line, page_line, printable, write_line

STOPPING = "stopping, finished pages are kept; Ctrl-C again stops at once"


class Reporter:
    """Shows the notes of a run, and with `verbose` its routes and pages. Use it as a context manager."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False):
        self.quiet, self.verbose = quiet, verbose
        self.many = False
        """Whether lines must say which document they are about."""

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """The run is over, or broke off."""

    def show(self, event: Event) -> None:
        """Show one event."""
        match event:
            case BatchStarted():
                self.many = event.documents > 1
            case Note():
                self._note(event)
            case DocumentFailed():
                self.say(f"error: {failure_line(event)}")
            case DocumentSkipped() if self.verbose:
                self.say(f"{event.path}: skipped: {event.reason}")
            case DocumentWritten() if self.verbose:
                self.say(f"{event.path}: wrote {', '.join(event.outputs)}")
            case PageRouted() if self.verbose:
                self.say(f"{self.place(event.path, event.page)}{event.route} ({event.reason})")
            case PageDone() if self.verbose:
                self.say(self.page(event))

    def say(self, line: str) -> None:
        """Print a line for people."""
        write_line(f"ocria: {printable(line)}")

    def error(self, message: str, exit_code: int) -> None:
        """Say what ended the run."""
        self.say(message)

    def stopping(self) -> bytes | None:
        """What the handler of Ctrl-C writes, past all buffers: it may run in the middle of another write."""
        return None if self.quiet else f"\nocria: {STOPPING}\n".encode()

    def page(self, event: PageDone) -> str:
        """A line about a page that is done."""
        return f"{event.path}, {page_line(event)}" if self.many else page_line(event)

    def place(self, path: str | None, page: int | None) -> str:
        """`page 3: `, with the document in front where there are several; nothing where a line concerns all."""
        parts = [path] if self.many and path is not None else []
        parts += [] if page is None else [f"page {page}"]
        return f"{', '.join(parts)}: " if parts else ""

    def _note(self, event: Note) -> None:
        if event.level == "error" or (not self.quiet and (event.level != "debug" or self.verbose)):
            self.say(f"{event.level}: {self.place(event.path, event.page)}{event.message}")
