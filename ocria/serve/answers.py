"""Documents and events as answers."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar
from urllib.parse import quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ocria.document.write import EXTENSIONS, render
from ocria.serve.asked import CONTENT_TYPES
from ocria.serve.desk import Desk
from ocria.serve.events import Told
from ocria.serve.job import Job

_QUIET_S = 10.0
"""After so many seconds without an event a comment says that the connection lives."""
_COMMENT = b": \n\n"
# A document is not to be believed: its HTML runs nothing and loads nothing, also when a browser opens it.
_DOCUMENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"

T = TypeVar("T")


class EventStream(StreamingResponse):
    """Server-sent events. `on_leave` is called when the answer ends, in whichever way."""

    def __init__(self, frames: AsyncIterator[bytes], on_leave: Callable[[], None] | None = None):
        super().__init__(frames, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._frames, self._on_leave = frames, on_leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with aclosing(self._frames):
                await super().__call__(scope, receive, send)
        finally:
            if self._on_leave is not None:
                self._on_leave()


async def frames(
    job: Job, after: int = 0, last: Callable[[], Awaitable[dict[str, Any]]] | None = None
) -> AsyncIterator[bytes]:
    """The events of a job from the one behind `after` on, as they come. `last`: makes the event behind all others where
    there is a result."""
    log, ticks = job.log, 0
    while True:
        ended = log.ended
        for told in log.after(after):
            after = told.number or after
            yield told.frame()
        tick, ticks = log.tick_after(ticks)
        if ended:
            break
        if tick is not None:
            yield tick.frame()
        if log.after(after) or log.ended:
            continue
        try:
            async with asyncio.timeout(_QUIET_S):
                await log.changed()
        except TimeoutError:
            yield _COMMENT
    if job.problem is None and last is not None:
        data = await last()
        yield Told(after + 1, data["type"], json.dumps(data, ensure_ascii=False)).frame()


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Do the work, and give it up when the client goes away, whose body has been read. Raises ClientDisconnect then."""
    leaving, doing = asyncio.ensure_future(_gone(request)), asyncio.ensure_future(work)
    try:
        await asyncio.wait((leaving, doing), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientDisconnect
        return doing.result()
    finally:
        leaving.cancel()
        doing.cancel()


async def written(job: Job, kind: str, page_markers: bool, desk: Desk) -> str | bytes:
    """The document of a job in a format. Raises OcriaError."""
    upload, document, options = job.uploads[0], job.documents[0], job.asked.options

    def write() -> str | bytes:
        if kind != "pdf":
            return render(document, kind, options=options, page_markers=page_markers)
        if desk.workers is None:
            return render(document, kind, options=options, source=upload.read())
        arguments = (document, upload.read(), options.password)
        limit_s = desk.options.timeout
        return desk.workers.run("to_pdf", job.name, *arguments, limit_s=limit_s, until=time.monotonic() + limit_s)

    return await (desk.draw if kind == "pdf" else desk.write)(write)


def document_answer(job: Job, kind: str, content: str | bytes, download: bool = False) -> Response:
    """A document as the body of an answer."""
    headers = {
        "Ocria-Status": job.status or "",
        "Ocria-Pages": str(len(job.done_pages)),
        "Ocria-Seconds": f"{job.seconds or 0.0:.3f}",
        "Content-Security-Policy": _DOCUMENT_POLICY,
    }
    if (model := job.documents[0].model) is not None:
        headers["Ocria-Model"] = quote(model.name, safe="/ ")
    if download:
        headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(job.name + EXTENSIONS[kind], safe='')}"
    return Response(content, media_type=CONTENT_TYPES[kind], headers=headers)


def result_event(job: Job, kind: str, content: str | bytes | None) -> dict[str, Any]:
    """The event behind all others; without content for a job, whose result is fetched."""
    told: dict[str, Any] = {
        "type": "result", "format": kind, "content_type": CONTENT_TYPES[kind], "status": job.status,
    }  # fmt: skip
    if isinstance(content, bytes):
        told |= {"encoding": "base64", "content": base64.b64encode(content).decode()}
    elif content is not None:
        told["content"] = content
    return told


async def _gone(request: Request) -> None:
    """Wait until the client goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
