"""Bodies that are on their way: how large, how slow and how many. They have no place in the queue, so that clients that
send slowly keep nobody else from being read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from starlette.requests import Request
from starlette.types import Message

from ocria.serve.options import ServeOptions
from ocria.serve.problems import Problem

MOST_BODIES = 64
STALL_S = 10.0
"""In which some bytes must come."""
_YOUNG_S = 2.0
T = TypeVar("T")


@dataclass(eq=False)
class _Body:
    clock: asyncio.Timeout
    begun: float
    size: int = 0


class Intake:
    """Takes bodies. Where there are `MOST_BODIES`, the slowest makes room."""

    def __init__(self, options: ServeOptions):
        self._options = options
        self._coming: set[_Body] = set()

    def __len__(self) -> int:
        """How many are on their way."""
        return len(self._coming)

    async def take(self, request: Request, read: Callable[[Request], Awaitable[T]]) -> T:
        """Call `read` with a request that gives the body of this one, within bounds.

        Raises:
            Problem: too large, too slow, too many at once.
        """
        most = self._options.max_bytes
        too_large = Problem(413, "too_large", f"the body has more than {most} bytes")
        told = request.headers.get("content-length", "")
        if told.isdecimal() and int(told) > most:
            raise too_large
        loop = asyncio.get_running_loop()
        begun = loop.time()
        end = begun + self._options.upload_timeout
        self._make_room(begun)

        async def receive() -> Message:
            body.clock.reschedule(min(end, loop.time() + STALL_S))
            message = await request.receive()
            body.size += len(message.get("body", b""))
            if body.size > most:
                raise too_large
            return message

        body = _Body(asyncio.timeout_at(end), begun)
        self._coming.add(body)
        try:
            async with body.clock:
                return await read(Request(request.scope, receive))
        except TimeoutError:
            cure = f"A body may take {self._options.upload_timeout:g} seconds and must not pause for {STALL_S:g}"
            raise Problem(408, "upload_timeout", "the body did not come in time", cure) from None
        finally:
            self._coming.discard(body)

    def _make_room(self, now: float) -> None:
        if len(self._coming) < MOST_BODIES:
            return
        old = [body for body in self._coming if now - body.begun > _YOUNG_S and not body.clock.expired()]
        if not old:
            raise Problem(429, "busy", "too many bodies come at once", "Try again later", headers={"Retry-After": "2"})
        slowest = min(old, key=lambda body: body.size / (now - body.begun))
        self._coming.discard(slowest)
        slowest.clock.reschedule(now)
