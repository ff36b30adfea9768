"""What all panes have in common."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

if TYPE_CHECKING:
    from ocria_tui.app import OcriaApp


class Pane(Widget, can_focus=True):
    """A part of the screen with a title in its border. `look` names what it would show; `update` follows a change."""

    app: OcriaApp
    _seen: Hashable = None
    _title = ""
    _ground: Style | None = None

    def look(self) -> Hashable:
        """What the content depends on: it is drawn again when this changes."""
        raise NotImplementedError

    @property
    def ground(self) -> Style:
        """The style of the pane itself, which `rich_style` works out anew for every line."""
        if self._ground is None:
            self._ground = self.rich_style
        return self._ground

    def notify_style_update(self) -> None:
        self._ground = None
        super().notify_style_update()

    def update(self) -> None:
        """Take over what changed. `redraw` has this, where nothing else is needed."""
        self.refresh()

    def follow(self) -> None:
        """See whether what is shown changed. Nothing happens while the pane is hidden."""
        if self.size and self.is_on_screen:
            seen = (self.look(), self.scrollable_content_region.size, self.app.theme)
            if seen != self._seen:
                self._seen, self._ground = seen, None
                self.update()

    def on_resize(self, event: events.Resize) -> None:
        self.follow()

    def on_show(self, event: events.Show) -> None:
        self.follow()

    def set_title(self, title: str) -> None:
        if title != self._title:
            self._title = title
            self._entitle()

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._entitle()
        self.follow()

    def _entitle(self) -> None:
        # Also without colours it shows where the keyboard is.
        title = f"▸ {self._title}" if self.has_focus else self._title
        self.border_title = title.replace("[", r"\[")


class LinePane(ScrollView, Pane, can_focus=True, inherit_bindings=False):
    """A pane of lines, of which only those in sight are drawn. `set_lines` takes their number, `line` draws one."""

    BINDINGS: ClassVar = [  # not left and right, which are other pages
        Binding("up", "scroll_up", "Up", show=False),
        Binding("down", "scroll_down", "Down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("pagedown,space", "page_down", "Page down", show=False),
        Binding("home", "scroll_home", "Top", show=False),
        Binding("end", "scroll_end", "Bottom", show=False),
    ]

    DEFAULT_CSS = "LinePane { overflow-x: hidden; }"
    drawn = 0
    """Lines drawn so far, for tests of how much work there is."""

    def line(self, index: int, width: int) -> list[Segment]:
        """The line of that number. What it leaves out is filled up, what is too long is cut off."""
        raise NotImplementedError

    @property
    def across(self) -> int:
        """Cells of a line: without the scrollbar."""
        return max(1, self.scrollable_content_region.width)

    def set_lines(self, count: int, changed: Iterable[int] | None = None) -> None:
        """Say how many lines there are, and draw those in sight again: all, or those that changed if it is as many as
        before."""
        size = Size(self.across, count)
        if size != self.virtual_size or changed is None:
            self.virtual_size = size
            self.refresh()
            return
        top, height = self.scroll_offset.y, self.size.height
        rows = [Region(0, line - top, self.size.width, 1) for line in changed if top <= line < top + height]
        if rows:  # none would be all
            self.refresh(*rows)

    def render_line(self, y: int) -> Strip:
        width, index = self.across, y + self.scroll_offset.y
        if index >= self.virtual_size.height:
            return Strip.blank(width, self.ground)
        self.drawn += 1
        return Strip(self.line(index, width)).adjust_cell_length(width).apply_style(self.ground)

    def see(self, index: int) -> None:
        """Scroll as little as needed to have a line in sight, once all is laid out."""
        self.call_after_refresh(self._see, index)

    def _see(self, index: int) -> None:
        top, height = self.scroll_offset.y, self.size.height
        # Forced: the scrollbar of a pane that was just filled is not there yet.
        if index < top:
            self.scroll_to(y=index, animate=False, force=True)
        elif height and index >= top + height:
            self.scroll_to(y=index - height + 1, animate=False, force=True)


def fitted(text: str, width: int, *, end: bool = False) -> str:
    """The text in so many cells, cut off where it is too long; `end` keeps the end, where names of files differ."""
    if width <= 0:
        return ""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    if not end:
        return set_cell_size(text, width - 1) + "…"
    while cell_len(text) > width - 1:
        text = text[1:]
    return set_cell_size("…" + text, width)


def cut(segments: list[tuple[str, Style]]) -> list[Segment]:
    """Segments of pairs, without empty ones."""
    return [Segment(text, style) for text, style in segments if text]
