"""How the engine is doing. What is not known reads `n/a`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from io import StringIO
from typing import Any

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from ocria.events import EngineTick
from ocria.progress.lines import duration
from ocria_tui.eta import eta
from ocria_tui.glyphs import spark
from ocria_tui.state import AppState
from ocria_tui.theme import Palette
from ocria_tui.widgets.pane import LinePane

NA = "n/a"
_CONSOLE = Console(file=StringIO(), legacy_windows=False)
_BAR = 10
"""Cells of the bar of a position."""


class EnginePane(LinePane, can_focus=True):
    """Speeds now and in the mean, accept length and its shares by position, batch, memory, bandwidth, a sparkline."""

    def __init__(self) -> None:
        super().__init__(id="engine", classes="pane")
        self._lines: list[list[Segment]] = []

    def look(self) -> Hashable:
        state = self.app.state
        return state.ticks, state.paused, state.ended, state.counts["ok"], int(state.now)

    def update(self) -> None:
        state, size = self.app.state, self.size
        stands = "ended" if state.ended is not None else "paused" if state.paused else None
        self.set_title("4 Engine" if stands is None else f"4 Engine: {stands}")
        text = engine_text(state, self.app.palette, size.width, size.height, self.app.settings.ascii)
        before, self._lines = self._lines, [list(line.render(_CONSOLE)) for line in text.split("\n")]
        changed = [row for row, (old, new) in enumerate(zip(before, self._lines, strict=False)) if old != new]
        self.set_lines(len(self._lines), changed)

    def line(self, index: int, width: int) -> list[Segment]:
        return self._lines[index]


def engine_text(state: AppState, palette: Palette, width: int, height: int, ascii_only: bool = False) -> Text:
    """The pane, at most so high: what there is no room for is left out, last things first."""
    tick = state.tick
    lines: list[tuple[str, str]] = [("", f"{'tokens/s':<9}{'now':>8}{'mean':>8}")]
    lines.append(("decode", f"{now_speed(tick):>8}{_speed(tick and tick.decode_tokens_per_s):>8}"))
    lines.append(("prefill", f"{prefill_now(tick):>8}{_speed(tick and tick.prefill_tokens_per_s):>8}"))
    lines.append(("pages", f"{pace_of(pages_per_s(state)):>8}"))
    left = eta(state)
    lines.append(("left", f"{left or NA!s:>8}" if state.pages_left or state.unopened else f"{'-':>8}"))
    lines.append(("accept", f"{number(tick and tick.accept_length, 2):>8} tokens a pass"))
    lines.append(("batch", f"{NA if tick is None else tick.running:>8} running"))
    lines.append(("queue", f"{NA if tick is None else tick.waiting:>8} waiting"))
    lines.append(("memory", f"{size_of(tick and tick.device_bytes):>8} in use"))
    lines.append(("state", f"{size_of(tick and tick.state_bytes):>8} of all slots"))
    lines.append(("moved", f"{size_of(tick and tick.bytes_per_s):>8}/s, {percent(tick)} of limit"))
    text = Text(no_wrap=True, overflow="crop")
    for name, value in lines:
        text.append(f"{name:<9}" if name else "", palette.muted)
        text.append(f"{value}\n", palette.text if name else palette.muted)
    room = height - len(lines)
    if room >= 2:
        speeds = list(state.speeds)[-max(1, width) :]
        window = state.speeds_at[-1] - state.speeds_at[-len(speeds)] if len(speeds) > 1 else 0.0
        text.append(f"{spark(speeds, ascii_only)}\n", palette.good)
        named = f"decode, last {duration(window)}, top {max(speeds):.0f}/s" if speeds else f"decode speed {NA}"
        text.append(f"{named}\n", palette.muted)
        room -= 2
    shares = accepted_shares(None if tick is None else tick.acceptance)
    if room >= 2:
        told = f": {100 * shares[0]:.0f} to {100 * shares[-1]:.0f} %" if shares else f": {NA}"
        text.append(f"drafts held by position{told}\n", palette.muted)
        room -= 1
        if shares and room >= len(shares):
            _bars(text, shares, palette, ascii_only)
        elif shares:
            text.append(spark([max(share, 1e-9) for share in shares], ascii_only) + "\n", palette.good)
    text.right_crop(1)
    return text


def _bars(text: Text, shares: list[float], palette: Palette, ascii_only: bool) -> None:
    """A line for each position."""
    full, empty = ("#", ".") if ascii_only else ("█", "░")
    for position, share in enumerate(shares, 1):
        filled = round(share * _BAR)
        text.append(f"{position:>7}  ", palette.muted)
        text.append(full * filled, palette.good).append(empty * (_BAR - filled), palette.muted)
        text.append(f"{100 * share:>5.0f} %\n", palette.text)


def accepted_shares(acceptance: Any) -> list[float]:
    """Of the drafts at position 1, 2, … of their block the share that held. acceptance: an
    `ocria.runtime.acceptance.Acceptance`, its plain data, or None."""
    if acceptance is None:
        return []
    told = acceptance if isinstance(acceptance, Mapping) else acceptance.as_dict()
    pairs = zip(told["accepted_at"], told["verified_at"], strict=True)
    return [held / tried for held, tried in pairs if tried]


def now_speed(tick: EngineTick | None) -> str:
    """Decode tokens/s over the last second: `n/a` before anything was decoded at all."""
    if tick is None or not tick.decode_tokens_per_s:
        return NA
    return f"{tick.decode_tokens_per_last_s:.0f}" if tick.decode_tokens_per_last_s else "idle"


def prefill_now(tick: EngineTick | None) -> str:
    if tick is None or not tick.prefill_tokens_per_s:
        return NA
    speed = tick.prefill_tokens_per_last_s
    return NA if speed is None else f"{speed:.0f}" if speed else "idle"


def pages_per_s(state: AppState) -> float | None:
    """Of the last pages of all documents, else of the document that is read."""
    pace = state.estimate.pages_per_s()
    return pace if pace is not None or state.tick is None else state.tick.pages_per_s


def pace_of(pages: float | None) -> str:
    """`3.1/s`, `12/min`; not known before there is a page."""
    return NA if not pages else f"{pages:.1f}/s" if pages >= 1 else f"{60 * pages:.1f}/min"


def number(value: float | None, places: int) -> str:
    return NA if value is None else f"{value:.{places}f}"


def _speed(value: float | None) -> str:
    """Of a mean, which is 0 where nothing was measured."""
    return f"{value:.0f}" if value else NA


def size_of(value: float | None) -> str:
    """`3.2 GB`; powers of 1000."""
    if value is None:
        return NA
    units = ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        del units[0]
    return f"{value:.0f} {units[0]}" if value >= 100 or units[0] == "B" else f"{value:.1f} {units[0]}"


def percent(tick: EngineTick | None) -> str:
    return NA if tick is None or tick.bandwidth_percent is None else f"{tick.bandwidth_percent:.0f} %"
