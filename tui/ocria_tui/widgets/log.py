"""What happened, with the cure where something went wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from io import StringIO
from itertools import islice

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from ocria.progress.lines import duration, printable
from ocria_tui.state import LOG_LINES, LogLine
from ocria_tui.theme import Palette
from ocria_tui.widgets.pane import LinePane

_TIME = 8
"""Cells of the time and a space."""
_CONSOLE = Console(file=StringIO(), legacy_windows=False)
_ROLES = {"debug": "muted", "info": "text", "warning": "warn", "error": "bad"}


class LogPane(LinePane, can_focus=True):
    """What was said, wrapped, each with its cure. It stays at the end unless it was scrolled up."""

    def __init__(self) -> None:
        super().__init__(id="log", classes="pane")
        self._rows: deque[list[Segment]] = deque(maxlen=4 * LOG_LINES)
        self._made_for: Hashable = None
        """Width and theme of the rows."""
        self._taken = 0
        self._wrong = 0

    def look(self) -> Hashable:
        return self.app.state.logged

    def update(self) -> None:
        state = self.app.state
        at_end = self.scroll_offset.y >= self.virtual_size.height - self.size.height - 1
        if self._made_for != (self.across, self.app.theme):
            self._made_for, self._taken = (self.across, self.app.theme), 0
            self._rows.clear()
            self._wrong = 0
        new = min(state.logged - self._taken, len(state.log))
        for entry in islice(state.log, len(state.log) - new, None):
            self._rows.extend(rows_of(entry, self.across, self.app.palette))
            self._wrong += entry.level in ("warning", "error")
        self._taken = state.logged
        self.set_title(f"5 Log, {self._wrong} warnings and errors" if self._wrong else "5 Log")
        self.set_lines(max(1, len(self._rows)))
        if at_end:
            self.see(len(self._rows) - 1)

    def line(self, index: int, width: int) -> list[Segment]:
        return self._rows[index] if self._rows else [Segment("Nothing yet.", self.app.palette.muted)]


def rows_of(entry: LogLine, width: int, palette: Palette) -> list[list[Segment]]:
    """An entry behind its time, and its cure below."""
    role = palette.role(_ROLES.get(entry.level, "text"))
    said = Text("" if entry.level == "info" else f"{entry.level}: ", role)
    said.append(place(entry), palette.muted).append(printable(entry.message), role)
    texts = [said]
    if entry.cure is not None:
        texts.append(Text(f"cure: {printable(entry.cure)}", palette.live))
    rows: list[list[Segment]] = []
    for text in texts:
        for part in text.wrap(_CONSOLE, max(10, width - _TIME)):
            time = f"{duration(entry.at):>{_TIME - 1}} " if not rows else " " * _TIME
            rows.append([Segment(time, palette.muted), *part.render(_CONSOLE)])
    return rows


def place(entry: LogLine) -> str:
    """`report.pdf, page 3: `, as much as is known."""
    parts = [] if entry.path is None else [printable(entry.path.rsplit("/", 1)[-1])]
    parts += [] if entry.page is None else [f"page {entry.page}"]
    return f"{', '.join(parts)}: " if parts else ""
