"""One connection: bounds on what a client that sends nothing or takes nothing holds, where uvicorn has none."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ocria.serve.gate import HEADERS
from ocria.serve.problems import Problem

MOST_CONNECTIONS = 512
HEAD_S = 10.0
"""For the head of a request to come."""
TAKE_S = 60.0
"""In which a client must take some of an answer that waits for it."""


class Connection(H11Protocol):
    """Ends where the head of a request does not come or an answer is not taken. Beyond `MOST_CONNECTIONS` the one that
    has been without a request for longest makes room."""

    def __init__(self, *arguments: Any, **named: Any):
        super().__init__(*arguments, **named)
        self._idle_since = self.loop.time()
        self._head: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._wait_for_head()
        if len(self.connections) > MOST_CONNECTIONS:
            idle = [other for other in self.connections if other is not self and other.idle]
            leaving = min(idle, key=lambda other: other._idle_since, default=self)
            self.connections.discard(leaving)
            leaving.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        for timer in (self._head, self._taking):
            if timer is not None:
                timer.cancel()
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.idle and self._head is not None:
            self._head.cancel()
            self._head = None
        elif self.idle and self._head is None:
            self._wait_for_head()

    def on_response_complete(self) -> None:
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_taking()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = Problem(400, "bad_request", "this is no request of HTTP/1.1", headers=HEADERS).response()
            headers = [*answer.raw_headers, (b"connection", b"close")]
            head = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (head, h11.Data(data=answer.body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        self.transport.close()

    def _wait_for_head(self) -> None:
        self._head = self.loop.call_later(HEAD_S, self.transport.abort)

    def _wait_for_taking(self) -> None:
        self._taking = self.loop.call_later(TAKE_S, self._look, self.transport.get_write_buffer_size())

    def _look(self, before: int) -> None:
        if self.transport.get_write_buffer_size() >= before:
            self.transport.abort()
        else:
            self._wait_for_taking()
