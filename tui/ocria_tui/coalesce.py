"""Fewer events that say the same: what happened between two looks, in order."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import replace

from ocria.events import EngineTick, Event, TextDelta, TokensAccepted

Timed = tuple[float, Event]
"""An event and the seconds since the start at which it happened."""


class Coalescer:
    """Takes events from one thread and hands them to another one.

    Text of one line is one event, and so are the tokens of one request, with the time of the first of them; of ticks of
    the engine the last one stays. All other events are kept in their order. Text never moves past an event that
    concerns its page, so what is told of a page that is read again begins anew.
    """

    def __init__(self) -> None:
        self._events: list[Timed | None] = []
        self._places: dict[Hashable, int] = {}
        """Where an event stands that a later one may join."""
        self._latest = 0.0
        self._lock = threading.Lock()

    def add(self, at: float, event: Event) -> None:
        """An event happened `at` seconds after the start. What came on another way counts as no earlier than what is
        there already."""
        with self._lock:
            self._latest = max(self._latest, at)
            self._add(self._latest, event)

    def take(self) -> list[Timed]:
        """What happened since the last call."""
        with self._lock:
            taken = [timed for timed in self._events if timed is not None]
            self._events, self._places = [], {}
        return taken

    def _add(self, at: float, event: Event) -> None:
        key = _key(event)
        place = None if key is None else self._places.get(key)
        if isinstance(event, EngineTick) and place is not None:
            self._events[place] = None
        elif place is not None:
            before, earlier = self._events[place]
            joined = _joined(earlier, event)
            if joined is not None:
                self._events[place] = (before, joined)
                return
        if key is None:
            self._part(event)
        else:
            self._places[key] = len(self._events)
        self._events.append((at, event))

    def _part(self, event: Event) -> None:
        """Nothing that comes later joins what stands before this event about the same unit, page or document."""
        about = tuple(getattr(event, name, None) for name in ("path", "page", "unit"))
        known = [part for part in about if part is not None]
        if known:
            for key in [key for key in self._places if list(key[1 : 1 + len(known)]) == known]:
                del self._places[key]


def _key(event: Event) -> tuple[Hashable, ...] | None:
    """Equal for events that may become one; None for those that stay alone. What it concerns comes second."""
    match event:
        case EngineTick():
            return ("tick",)
        case TextDelta():
            return ("text", event.path, event.page, event.unit)
        case TokensAccepted():
            return ("tokens", event.path, event.page, event.unit, event.request)
        case _:
            return None


def _joined(earlier: Event, later: Event) -> Event | None:
    """Both as one; None where that cannot be."""
    if isinstance(later, TextDelta):
        return replace(earlier, text=earlier.text + later.text)
    one, other = earlier.acceptance, later.acceptance
    if isinstance(one, dict) or isinstance(other, dict):
        return None  # plain data of a recording, which has no sum
    return replace(
        earlier,
        tokens=earlier.tokens + later.tokens,
        drafted=earlier.drafted + later.drafted,
        accepted=earlier.accepted + later.accepted,
        acceptance=other if one is None else one if other is None else one + other,
    )


