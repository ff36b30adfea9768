"""Live bars on a terminal: the document, the whole batch above it, and how fast it goes below."""

from __future__ import annotations

import sys
import threading
import time

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from ocria.events import BatchStarted, DocumentStarted, EngineTick, Event, TaskProgress
from ocria.progress.estimate import Estimate, Left, Reading
from ocria.progress.lines import duration, plural, printable, tick_line
from ocria.progress.reporter import Reporter

_NAME_CELLS = 24
_MOST_BAR_CELLS = 30
_TICK_HOLDS_S = 3.0


class Bar(Reporter):
    """Nothing of it stays when the run is over; lines that are said meanwhile stand above it."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False):
        super().__init__(quiet=quiet, verbose=verbose)
        self._estimate = Estimate()
        self._lock = threading.Lock()
        """Bars are drawn in a thread of their own while events are counted. Not held while anything is printed."""
        self._live: Live | None = None
        self._began = time.monotonic()
        self._shown: tuple[str, Reading, float] | None = None
        """The document of the lower bar: its path, how far it is, when it began."""
        self._tick: tuple[float, EngineTick] | None = None
        self._task: tuple[TaskProgress, float] | None = None
        """What is being done where nothing is parsed, and when it began."""

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def show(self, event: Event) -> None:
        with self._lock:
            self._estimate.see(event)
        super().show(event)
        match event:
            case BatchStarted() if event.documents > 1:
                self._start()
            case DocumentStarted() if event.pages:
                self._shown = (event.path, self._estimate.reading[event.path], time.monotonic())
                self._start()
            case TaskProgress():
                same = self._task is not None and self._task[0].task == event.task
                self._task = (event, self._task[1] if same else time.monotonic())
                self._start()
            case EngineTick():
                self._tick = (time.monotonic(), event)

    def say(self, line: str) -> None:
        if self._live is None:
            super().say(line)
        else:
            # As Text it is taken as it is: no markup, no emoji, no colours. A long line is left to the terminal.
            self._live.console.print(Text(f"ocria: {printable(line)}"), soft_wrap=True)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """All that is shown, as wide as the terminal is now, less a cell, so that it never wraps."""
        with self._lock:
            lines = self._lines(options.max_width - 1, fancy=not options.ascii_only)
        yield from lines

    def _start(self) -> None:
        if self._live is not None or sys.stderr is None:
            return
        console = Console(file=sys.stderr, force_terminal=True)
        self._live = Live(
            self,
            console=console,
            refresh_per_second=8,
            transient=True,
            redirect_stdout=False,  # data, which may be on its way to the same terminal
        )
        self._live.start()
        console.show_cursor(True)  # a run that is killed could not bring it back

    def _lines(self, width: int, fancy: bool) -> list[Text]:
        """Of at most so many cells each. `fancy`: the terminal shows more than ASCII."""
        now, lines = time.monotonic(), []
        estimate = self._estimate
        if self.many:
            count = f"{len(estimate.ended)}/{plural(estimate.documents, 'document')}"
            share = self._batch_share()
            lines.append(_line(width, "all documents", share, count, now - self._began, estimate.left(), fancy))
        if self._shown is not None:
            path, reading, began = self._shown
            name = printable(path.rsplit("/", 1)[-1])
            count = f"{reading.done}/{plural(reading.pages, 'page')}"
            share = min(1.0, reading.done / reading.pages)
            lines.append(_line(width, name, share, count, now - began, estimate.left_of(path), fancy))
        if self._task is not None:
            task, began = self._task
            count, share = f"{task.done}/{task.total}", task.done / max(1, task.total)
            left = None if task.left_s is None else Left(task.left_s)
            lines.append(_line(width, task.task, share, count, now - began, left, fancy))
        speed = self._speed(now)
        if speed:
            lines.append(Text(set_cell_size(f"  {speed}", min(width, cell_len(speed) + 2)), style="dim"))
        return lines

    def _batch_share(self) -> float:
        """How much of the batch is done; of documents that are being read their part."""
        begun = sum(min(1.0, r.done / r.pages) for r in self._estimate.reading.values() if r.pages)
        return min(1.0, (len(self._estimate.ended) + begun) / max(1, self._estimate.documents))

    def _speed(self, now: float) -> str:
        """Figures of the engine while they are fresh, and pages a second."""
        pace = self._estimate.pages_per_s()
        parts = [] if pace is None else [f"{pace:.1f} pages/s" if pace >= 1 else f"{60 * pace:.1f} pages/min"]
        if self._tick is not None and now - self._tick[0] < _TICK_HOLDS_S:
            parts.insert(0, tick_line(self._tick[1], brief=True))
        return ", ".join(parts)


def _line(width: int, name: str, share: float, count: str, seconds: float, left: Left | None, fancy: bool) -> Text:
    """`report.pdf ████░░░░ 3/12 pages 0:42 1:10 left`; on a narrow terminal without the bar, then without the end."""
    name = name if cell_len(name) <= _NAME_CELLS else _end_of(name, _NAME_CELLS, fancy)
    tail = f" {count:<16} {duration(seconds)}"
    if left is not None and share < 1:
        tail += f"  {'~' if left.rough else ''}{duration(left.seconds)} left"
    name = set_cell_size(name, _NAME_CELLS if width >= 60 else min(_NAME_CELLS, cell_len(name)))
    room = min(_MOST_BAR_CELLS, width - cell_len(name) - cell_len(tail) - 1)
    line = Text(name)
    if room >= 5:
        filled = int(share * room)
        full, empty = ("█", "░") if fancy else ("#", ".")
        line.append(" " + full * filled, style="green").append(empty * (room - filled), style="dim")
    line.append(tail)
    line.truncate(max(1, width), overflow="crop")
    return line


def _end_of(name: str, cells: int, fancy: bool) -> str:
    """The end of a long name: there stands what tells files of a series apart."""
    mark = "…" if fancy else "~"
    while cell_len(name) > cells - 1:
        name = name[1:]
    return mark + name
