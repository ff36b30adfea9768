"""Progress and notes on standard error: a live bar on a terminal, only the notes elsewhere."""

from __future__ import annotations

import re
import sys
import time
from typing import Any

from ocria.events import DocumentStarted, Event, Note, PageDone, PageRouted, TextDelta

_REDRAW_S = 0.1
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Reporter:
    """Shows the events of a run. Use it as a context manager, so that the bar is cleared in the end."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False):
        self._quiet = quiet
        self._verbose = verbose
        self._bar: Any = None
        self._task: Any = None
        self._characters = 0
        self._drawn = 0.0

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def show(self, event: Event) -> None:
        """Show one event."""
        match event:
            case DocumentStarted():
                self._start(event)
            case PageRouted() if self._verbose:
                self._say(f"page {event.page}: {event.route} ({event.reason})")
            case TextDelta():
                self._count(event)
            case PageDone():
                self._page(event)
            case Note():
                self._note(event)

    def _start(self, event: DocumentStarted) -> None:
        if self._quiet or not sys.stderr.isatty() or event.pages == 0:
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("pages"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[characters]}"),
            console=Console(stderr=True),
            transient=True,
        )
        name = event.path.rsplit("/", 1)[-1]
        self._task = self._bar.add_task(name[-40:], total=event.pages, characters="")
        self._bar.start()

    def _count(self, event: TextDelta) -> None:
        """Characters read so far; redrawn a few times a second, however fast they come."""
        self._characters += len(event.text)
        now = time.monotonic()
        if self._bar is not None and now - self._drawn > _REDRAW_S:
            self._drawn = now
            self._bar.update(self._task, characters=f"{self._characters} characters read")

    def _page(self, event: PageDone) -> None:
        if self._bar is not None:
            self._bar.advance(self._task)
        if self._verbose:
            tokens = f", {event.tokens_out} tokens" if event.tokens_out else ""
            self._say(f"page {event.page}: {event.status} in {event.seconds:.2f} s{tokens}")

    def _note(self, event: Note) -> None:
        if event.level == "error" or (not self._quiet and (event.level != "debug" or self._verbose)):
            where = "" if event.page is None else f"page {event.page}: "
            self._say(f"{event.level}: {where}{event.message}")

    def _say(self, line: str) -> None:
        if self._quiet and not line.startswith("error"):
            return
        line = printable(line)
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            print(f"ocria: {line}", file=sys.stderr)


def printable(line: str) -> str:
    """The line with control characters spelt out: names of files and complaints about a damaged file may hold any,
    and a terminal would obey them."""
    return _CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", line)
