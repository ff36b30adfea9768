"""What happens to a job, kept for those who listen, also for those who come late or again."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from ocria.document.options import ParseOptions
from ocria.document.write.html import page_html
from ocria.events import (
    EngineTick,
    Event,
    LinesFound,
    Note,
    PageDone,
    PrefillDone,
    RequestSubmitted,
    TextDelta,
    TokensAccepted,
)

_UNTOLD = (RequestSubmitted, PrefillDone, TokensAccepted)
"""Single requests of the engine are no business of clients."""
_PASSING = (TextDelta, LinesFound)
"""What `PageDone` makes superfluous."""


@dataclass(frozen=True, slots=True)
class Told:
    """An event as it is sent."""

    number: int | None
    """From 1, in order and with gaps; None for what only concerns the moment."""
    name: str
    data: str
    """One line of JSON."""
    page: int | None = None
    """Of what is forgotten when this page is done."""

    def frame(self) -> bytes:
        """As server-sent events have it."""
        head = "" if self.number is None else f"id: {self.number}\n"
        return f"{head}event: {self.name}\ndata: {self.data}\n\n".encode()


def data_of(event: Event, options: ParseOptions) -> dict[str, Any] | None:
    """What is told of an event, a page as HTML too; None for what is not told. A full page takes its time: this is no
    work for the event loop.

    Args:
        options: of the document.
    """
    if isinstance(event, _UNTOLD) or (isinstance(event, Note) and event.level in ("debug", "info")):
        return None
    told = event.to_dict()
    if isinstance(event, PageDone) and event.result is not None:
        told["html"] = page_html(event.result, options)
        told["size"] = [event.result.width, event.result.height]
    return told


class EventLog:
    """The events of one job, in the thread of the event loop."""

    def __init__(self) -> None:
        self._told: list[Told] = []
        self._last = 0
        self._tick: Told | None = None
        self._ticks = 0
        self._changed = asyncio.Event()
        self.ended = False
        """Whether nothing more comes."""

    def add(self, event: Event, told: dict[str, Any]) -> None:
        """Keep an event of the run, as `data_of` has it."""
        if isinstance(event, EngineTick):
            self._tick, self._ticks = Told(None, told["type"], _line(told)), self._ticks + 1
            self._wake()
            return
        if isinstance(event, PageDone):
            self._told = [one for one in self._told if one.page != event.page]
        self.tell(told, event.page if isinstance(event, _PASSING) else None)

    def tell(self, data: dict[str, Any], page: int | None = None) -> None:
        """Keep something else; `type` is its name."""
        self._last += 1
        self._told.append(Told(self._last, data["type"], _line(data), page))
        self._wake()

    def end(self) -> None:
        """Nothing more comes."""
        self.ended = True
        self._wake()

    def after(self, number: int) -> list[Told]:
        """All that was kept with a higher number."""
        low, high = 0, len(self._told)
        while low < high:
            middle = (low + high) // 2
            if self._told[middle].number <= number:
                low = middle + 1
            else:
                high = middle
        return self._told[low:]

    def tick_after(self, count: int) -> tuple[Told | None, int]:
        """The state of the engine if it is newer than the `count`-th, and how many there were."""
        return (self._tick if self._ticks > count else None), self._ticks

    async def changed(self) -> None:
        """Wait for something new."""
        await self._changed.wait()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _line(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, default=str)
