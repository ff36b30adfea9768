"""What happened, with the cure where something went wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from rich.segment import Segment

from ocria.progress.lines import duration, printable
from ocria_tui.state import LOG_LINES, LogLine
from ocria_tui.widgets.pane import LinePane, cut

_ROLES = {"debug": "muted", "info": "text", "warning": "warn", "error": "bad"}


class LogPane(LinePane, can_focus=True):
    """A line for each thing that was said, and one for its cure. It stays at the end unless it was scrolled up."""

    def __init__(self) -> None:
        super().__init__(id="log", classes="pane")
        self._rows: deque[tuple[LogLine, bool]] = deque(maxlen=2 * LOG_LINES)
        self._taken = 0
        self._wrong = 0

    def look(self) -> Hashable:
        return self.app.state.logged

    def update(self) -> None:
        state = self.app.state
        at_end = self.scroll_offset.y >= self.virtual_size.height - self.size.height - 1
        new = min(state.logged - self._taken, len(state.log))
        for entry in list(state.log)[len(state.log) - new :]:
            self._rows.append((entry, False))
            if entry.cure is not None:
                self._rows.append((entry, True))
            self._wrong += entry.level in ("warning", "error")
        self._taken = state.logged
        self.set_title(f"5 Log, {self._wrong} warnings and errors" if self._wrong else "5 Log")
        self.set_lines(max(1, len(self._rows)))
        if at_end:
            self.see(len(self._rows) - 1)

    def line(self, index: int, width: int) -> list[Segment]:
        palette = self.app.palette
        if not self._rows:
            return [Segment("Nothing yet.", palette.muted)]
        entry, cure = self._rows[index]
        if cure:
            return cut([(" " * 8, palette.muted), (f"cure: {printable(entry.cure or '')}", palette.live)])
        role = palette.role(_ROLES.get(entry.level, "text"))
        level = "" if entry.level == "info" else f"{entry.level}: "
        return cut([
            (f"{duration(entry.at):>7} ", palette.muted),
            (level, role),
            (place(entry), palette.muted),
            (printable(entry.message), role),
        ])


def place(entry: LogLine) -> str:
    """`report.pdf, page 3: `, as much as is known."""
    parts = [] if entry.path is None else [printable(entry.path.rsplit("/", 1)[-1])]
    parts += [] if entry.page is None else [f"page {entry.page}"]
    return f"{', '.join(parts)}: " if parts else ""
