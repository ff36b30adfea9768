"""The line above all panes and, on small screens, the one below them."""

from __future__ import annotations

from collections.abc import Hashable

from rich.style import Style
from rich.text import Text

from ocria.progress.lines import duration, printable
from ocria_tui.eta import eta
from ocria_tui.state import AppState
from ocria_tui.widgets.engine import NA, now_speed, number, pace_of, pages_per_s
from ocria_tui.widgets.pane import Pane, fitted

_BOLD = Style(bold=True)
_PANES = "keys 1-5: panes"


class Headline(Pane, can_focus=False):
    """What is shown, how far all is, and when it will be done."""

    def __init__(self) -> None:
        super().__init__(id="headline")

    def look(self) -> Hashable:
        app, state = self.app, self.app.state
        return app.document, app.page, app.following, state.changes, state.paused, state.ended, int(state.now)

    def render(self) -> Text:
        app, palette, width = self.app, self.app.palette, self.size.width
        right = f" {standing(app.state)} "
        where = "follows" if app.following else "stays (enter follows)"
        document = app.shown_document
        name = "" if document is None else printable(document.path.rsplit("/", 1)[-1])
        page = "" if app.page is None or document is None else f" page {place_of(document.order, app.page)}"
        middle = f"{page}, {where}" if document is not None else ""
        room = width - len(right) - len(middle) - 8
        text = Text(no_wrap=True, overflow="crop")
        text.append(" ocria ", palette.title)
        text.append(fitted(name, min(len(name), max(0, room)), end=True), palette.text + _BOLD)
        text.append(middle, palette.muted)
        text.pad_right(max(0, width - text.cell_len - len(right)))
        text.append(right, palette.warn if app.state.paused or app.state.ended else palette.text)
        return text


class StatusLine(Pane, can_focus=False):
    """The engine in a line, for screens without room for its pane."""

    def __init__(self) -> None:
        super().__init__(id="status")

    def look(self) -> Hashable:
        return self.app.state.ticks, int(self.app.state.now)

    def render(self) -> Text:
        state = self.app.state
        tick = state.tick
        parts = [
            f"decode {now_speed(tick)} tokens/s",
            f"batch {NA if tick is None else tick.running}",
            f"accept {number(tick and tick.accept_length, 1)}",
            f"pages {pace_of(pages_per_s(state))}",
        ]
        text = Text(" " + "  ".join(parts), self.app.palette.muted, no_wrap=True, overflow="crop")
        text.pad_right(max(1, self.size.width - text.cell_len - len(_PANES) - 1))
        return text.append(_PANES, self.app.palette.live)


def standing(state: AppState) -> str:
    """How the run stands, in a few words."""
    pages = sum(state.counts.values())
    done = pages - state.pages_left
    parts = [f"{done}/{pages} pages"] if pages else []
    if state.ended is not None:
        return "  ".join(["ended", *parts])
    if state.paused:
        return "  ".join(["PAUSED", *parts])
    if state.pages_left or state.unopened:
        left = eta(state)
        parts.append(f"{left or NA} left")
    elif pages:
        parts.append("done")
    return "  ".join([duration(state.now), *parts])


def place_of(order: list[int], number: int) -> str:
    """`12/48`: of pages that are not those of 1 to 48, `12 of 48 pages`."""
    whole = not order or order[-1] == len(order)
    return f"{number}/{len(order)}" if whole else f"{number}, {len(order)} in all"
