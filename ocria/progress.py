"""Progress and notes on standard error: a live bar, plain lines, one JSON object an event, or notes alone."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from typing import Any

from ocria.events import DocumentDone, DocumentStarted, EngineTick, Event, Note, PageDone, PageRouted

KINDS = ("auto", "bar", "plain", "json", "none")
_PLAIN_TICK_S = 5.0
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_STOPPING = "stopping, finished pages are kept; Ctrl-C again stops at once"


def make_reporter(kind: str = "auto", *, quiet: bool = False, verbose: bool = False) -> Reporter:
    """The reporter of a kind in `KINDS`; `auto` is a bar on a terminal and notes alone elsewhere."""
    if kind == "auto":
        terminal = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        kind = "bar" if terminal and not quiet else "none"
    return {"bar": Bar, "plain": Plain, "json": Json, "none": Reporter}[kind](quiet=quiet, verbose=verbose)


class Reporter:
    """Shows the notes of a run, and with `verbose` its routes and pages. Use it as a context manager."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False):
        self.quiet, self.verbose = quiet, verbose

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """The run is over, or broke off."""

    def show(self, event: Event) -> None:
        """Show one event."""
        match event:
            case Note():
                self._note(event)
            case PageRouted() if self.verbose:
                self.say(f"page {event.page}: {event.route} ({event.reason})")
            case PageDone() if self.verbose:
                self.say(page_line(event))

    def say(self, line: str) -> None:
        """Print a line for people."""
        write_line(f"ocria: {printable(line)}")

    def error(self, message: str, exit_code: int) -> None:
        """Say what ended the run."""
        write_line(f"ocria: {printable(message)}")

    def stopping(self) -> bytes | None:
        """What the handler of Ctrl-C writes, past all buffers: it may run in the middle of another write."""
        return None if self.quiet else f"\nocria: {_STOPPING}\n".encode()

    def _note(self, event: Note) -> None:
        if event.level == "error" or (not self.quiet and (event.level != "debug" or self.verbose)):
            where = "" if event.page is None else f"page {event.page}: "
            self.say(f"{event.level}: {where}{event.message}")


class Bar(Reporter):
    """A bar of pages with live figures of the engine behind it."""

    _bar: Any = None
    _task: Any = None

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def show(self, event: Event) -> None:
        super().show(event)
        match event:
            case DocumentStarted() if event.pages:
                self._start(event)
            case PageDone() if self._bar is not None:
                self._bar.advance(self._task)
            case EngineTick() if self._bar is not None:
                self._bar.update(self._task, engine=tick_line(event, brief=True))

    def say(self, line: str) -> None:
        if self._bar is None:
            super().say(line)
        else:
            self._bar.console.print(printable(line), markup=False, highlight=False)

    def _start(self, event: DocumentStarted) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=10),
            MofNCompleteColumn(),
            TextColumn("pages"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[engine]}"),
            console=Console(file=sys.stderr, force_terminal=True),
            transient=True,
        )
        name = event.path.rsplit("/", 1)[-1]  # its end, so that all fits into a line of 80
        self._task = self._bar.add_task(printable(name[-20:]), total=event.pages, engine="")
        self._bar.start()


class Plain(Reporter):
    """A labelled line for every page and for the engine now and then; nothing is rewritten in place."""

    _ticked = 0.0

    def show(self, event: Event) -> None:
        match event:
            case PageDone():
                self.say(page_line(event))
                return
            case DocumentStarted():
                self.say(f"{event.path}: {event.pages} {'page' if event.pages == 1 else 'pages'}")
            case DocumentDone():
                self.say(f"{event.path}: {event.status} in {event.seconds:.1f} s")
            case EngineTick() if time.monotonic() - self._ticked >= _PLAIN_TICK_S:
                self._ticked = time.monotonic()
                self.say(f"engine: {tick_line(event)}")
        super().show(event)


class Json(Reporter):
    """One JSON object a line for every event, notes of all levels among them, and for the error that ends a run."""

    def show(self, event: Event) -> None:
        write_line(json.dumps(event.to_dict()))

    def error(self, message: str, exit_code: int) -> None:
        write_line(json.dumps({"type": "error", "message": message, "exit_code": exit_code}))

    def stopping(self) -> bytes:
        note = Note("info", _STOPPING)
        return (json.dumps(note.to_dict()) + "\n").encode()


def page_line(event: PageDone) -> str:
    """`page 3: ok in 1.20 s, 512 tokens, accept 3.4`; tokens and accept length where there are any."""
    tokens = f", {event.tokens_out} tokens" if event.tokens_out else ""
    accept = "" if event.accept_length is None else f", accept {event.accept_length:.1f}"
    return f"page {event.page}: {event.status} in {event.seconds:.2f} s{tokens}{accept}"


def tick_line(event: EngineTick, brief: bool = False) -> str:
    """`812 tokens/s, batch 28, 3 waiting, 1.2 pages/s`, the first two if `brief`; figures that are not known are left
    out."""
    parts = [f"{event.decode_tokens_per_last_s:.0f} tokens/s", f"batch {event.running}"]
    if brief:
        return ", ".join(parts)
    if event.waiting:
        parts.append(f"{event.waiting} waiting")
    if event.accept_length is not None:
        parts.append(f"accept {event.accept_length:.1f}")
    if event.pages_per_s is not None:
        parts.append(f"{event.pages_per_s:.1f} pages/s")
    if event.bandwidth_percent is not None:
        parts.append(f"bandwidth {event.bandwidth_percent:.0f} %")
    return ", ".join(parts)


def write_line(line: str) -> None:
    """Print to standard error, if there is one: `print` would take standard output for a closed one."""
    if sys.stderr is not None:
        print(line, file=sys.stderr)


def printable(line: str) -> str:
    """The line with control characters spelt out: names of files and complaints about a damaged file may hold any,
    and a terminal would obey them."""
    return _CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", line)
