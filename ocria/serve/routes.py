"""The routes: what is asked for goes to the desk, what comes back is an answer."""

from __future__ import annotations

import asyncio
import io
import time
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ocria import __version__
from ocria.document.control import Control, Deadline
from ocria.document.options import ParseOptions
from ocria.errors import OcriaError, UsageError
from ocria.serve.answers import EventStream, document_answer, frames, result_event, unless_gone, written
from ocria.serve.asked import asked_of, flag, format_of, whole
from ocria.serve.chat import Answer, chat_of, job_of
from ocria.serve.desk import Desk
from ocria.serve.job import DONE, Job
from ocria.serve.metrics import CONTENT_TYPE
from ocria.serve.options import ServeOptions
from ocria.serve.problems import Problem, problem_of
from ocria.serve.reading import check_pixels
from ocria.serve.upload import Upload, read_file

_WEB = Path(__file__).parent / "web"
_FILES = {
    "/": ("index.html", "text/html"),
    **{f"/{path.name}": (path.name, "text/javascript") for path in _WEB.glob("*.js")},
    "/style.css": ("style.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_PICTURE_WIDTHS = (50, 2000)
_PICTURE_DPI = 150


class Routes:
    """Handlers of requests over one desk.

    Args:
        base: options of all documents.
    """

    def __init__(self, options: ServeOptions, base: ParseOptions):
        self.options, self.base = options, base
        self.desk: Desk
        self._created = int(time.time())

    def routes(self) -> list[Route]:
        web = [Route(path, self.web, methods=["GET"]) for path in _FILES]
        return [
            *web,
            Route("/health", self.health, methods=["GET"]),
            Route("/health/live", self.live, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/v1/parse", self.parse, methods=["POST"]),
            Route("/v1/jobs", self.new_job, methods=["POST"]),
            Route("/v1/jobs/{id}", self.job, methods=["GET"]),
            Route("/v1/jobs/{id}", self.delete_job, methods=["DELETE"]),
            Route("/v1/jobs/{id}/events", self.job_events, methods=["GET"]),
            Route("/v1/jobs/{id}/result", self.job_result, methods=["GET"]),
            Route("/v1/jobs/{id}/pages/{page}.png", self.job_page, methods=["GET"]),
            Route("/v1/models", self.models, methods=["GET"]),
            Route("/v1/models/{name:path}", self.one_model, methods=["GET"]),
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
        ]

    async def web(self, request: Request) -> Response:
        name, kind = _FILES[request.url.path]
        return Response((_WEB / name).read_bytes(), media_type=kind)

    async def health(self, request: Request) -> Response:
        state = "stopping" if self.desk.stopping else self.desk.model.state
        told = {"status": state, "version": __version__, **self.desk.counts()}
        return JSONResponse(told, 200 if state == "ready" else 503)

    async def live(self, request: Request) -> Response:
        return JSONResponse({"status": "live"})

    async def metrics(self, request: Request) -> Response:
        desk, model = self.desk, self.desk.model
        text = desk.metrics.exposition(desk.counts(), self.options.queue, model.state == "ready", model.tick())
        return Response(text, media_type=CONTENT_TYPE)

    async def parse(self, request: Request) -> Response:
        job = await self._submitted(request, keep=False)
        asked = job.asked
        if asked.stream:
            return EventStream(frames(job, last=lambda: self._last(job)), lambda: self.desk.discard(job))
        try:
            await unless_gone(request, job.ended.wait())
            if job.problem is not None:
                raise job.problem
            content = await written(job, asked.format, asked.page_markers, self.desk)
        finally:
            self.desk.discard(job)
        return document_answer(job, asked.format, content)

    async def new_job(self, request: Request) -> Response:
        job = await self._submitted(request, keep=True)
        headers = {"Location": f"/v1/jobs/{job.id}"}
        return JSONResponse(job.to_dict(self.desk.ahead(job)), 202, headers=headers)

    async def job(self, request: Request) -> Response:
        job = self._job(request)
        return JSONResponse(job.to_dict(self.desk.ahead(job)))

    async def delete_job(self, request: Request) -> Response:
        self.desk.discard(self._job(request))
        return Response(status_code=204)

    async def job_events(self, request: Request) -> Response:
        job = self._job(request)
        after = whole("after", request.headers.get("last-event-id") or request.query_params.get("after") or "0")

        async def last() -> dict[str, Any]:
            return result_event(job, job.asked.format, None)

        return EventStream(frames(job, after, last))

    async def job_result(self, request: Request) -> Response:
        job, query = self._job(request), request.query_params
        if job.problem is not None:
            raise job.problem
        if job.state != DONE:
            raise Problem(409, "not_done", "the document is not done")
        kind = format_of("format", query["format"]) if "format" in query else job.asked.format
        markers = flag("page_markers", query.get("page_markers", "false")) or job.asked.page_markers
        content = await unless_gone(request, written(job, kind, markers, self.desk))
        return document_answer(job, kind, content, flag("download", query.get("download", "false")))

    async def job_page(self, request: Request) -> Response:
        job = self._job(request)
        width = whole("width", request.query_params.get("width", "1000"))
        if not _PICTURE_WIDTHS[0] <= width <= _PICTURE_WIDTHS[1]:
            raise UsageError(f"width must be between {_PICTURE_WIDTHS[0]} and {_PICTURE_WIDTHS[1]}, not {width}")
        number = whole("page", request.path_params["page"])
        if job.problem is not None and job.pages is None:
            raise job.problem  # it could not be opened, or shall not be
        # Of clients that went away, such as those that turn pages quickly, none is drawn that still waits.
        draw = self.desk.draw(self._picture, job.uploads[0], job.asked.options, number, width)
        picture = await unless_gone(request, draw)
        return Response(picture, media_type="image/png", headers={"Cache-Control": "private, max-age=600"})

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._model(name) for name in await self._names()]})

    async def one_model(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in await self._names():
            raise Problem(404, "not_found", f"there is no model {name[:100]!r}", param="model")
        return JSONResponse(self._model(name))

    async def chat(self, request: Request) -> Response:
        try:
            self.desk.check_room()
            body = await self.desk.intake.take(request, Request.body)
            names = await self._names()
            chat = await asyncio.to_thread(chat_of, body, names, self.options)
            job = job_of(chat, self.base, self.options)
            self.desk.submit(job)
            answer = Answer(chat, job, self.desk)
            if chat.stream:
                return EventStream(answer.chunks(), lambda: self.desk.discard(job))
            try:
                return JSONResponse(await unless_gone(request, answer.whole()))
            finally:
                self.desk.discard(job)
        except UsageError as error:
            raise Problem(400, "usage_error", error.message, error.cure) from error

    async def _submitted(self, request: Request, keep: bool) -> Job:
        """Take a file and queue it. Raises Problem or UsageError."""
        self.desk.check_room()
        received = await self.desk.intake.take(request, read_file)
        try:
            asked = asked_of(received.fields, request.headers.get("accept", ""), self.base, self.options)
        except BaseException:
            received.upload.close()
            raise
        job = Job((received.upload,), asked, keep)
        self.desk.submit(job)
        return job

    async def _last(self, job: Job) -> dict[str, Any]:
        """The result as the last event."""
        asked = job.asked
        try:
            return result_event(job, asked.format, await written(job, asked.format, asked.page_markers, self.desk))
        except OcriaError as error:
            problem = problem_of(error)
            return {"type": "error", "error": {**problem.to_dict(), "status": problem.status}}

    def _job(self, request: Request) -> Job:
        return self.desk.find(request.path_params["id"])

    async def _names(self) -> tuple[str, ...]:
        """What the model is called; waits until it is loaded."""
        return ((await asyncio.to_thread(lambda: self.desk.model.model)).name, *self.options.names)

    def _model(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": "ocria"}

    def _picture(self, upload: Upload, options: ParseOptions, number: int, width: int) -> bytes:
        """A page as PNG. Raises OcriaError, or Problem where there is no such page."""
        from PIL import Image

        from ocria.document.source import open_source

        workers, content = self.desk.workers, upload.read()
        until = Deadline(Control(), self.options.timeout)
        check_pixels(content, upload.name, self.options.max_pixels, workers, until.at())
        source = open_source(upload, options.password, workers, page_timeout=options.page_timeout, until=until)
        try:
            if not 1 <= number <= source.page_count:
                raise Problem(404, "not_found", f"there is no page {number}; the file has {source.page_count}")
            image = Image.fromarray(source.page(number).render(_PICTURE_DPI))
        finally:
            source.close()
        if image.width > width:
            image = image.resize((width, max(1, round(image.height * width / image.width))), reducing_gap=2.0)
        out = io.BytesIO()
        image.save(out, "PNG", compress_level=1)
        return out.getvalue()
