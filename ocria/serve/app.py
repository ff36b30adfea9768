"""The application: routes behind the gate, and what it holds while it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp

from ocria.document.options import ParseOptions
from ocria.errors import OcriaError
from ocria.serve.desk import Desk
from ocria.serve.gate import Gate
from ocria.serve.metrics import Metrics
from ocria.serve.model import ServedModel
from ocria.serve.options import ServeOptions
from ocria.serve.problems import Problem, problem_of
from ocria.serve.routes import Routes

_KINDS = {404: "not_found", 405: "method_not_allowed"}


def make_app(
    options: ServeOptions,
    base: ParseOptions,
    on_desk: Callable[[Desk], None] | None = None,
    on_model: Callable[[ServedModel, OcriaError | None], None] | None = None,
) -> ASGIApp:
    """The application of a server.

    Args:
        base: options of all documents, the engine's among them.
        on_desk: called with the desk when it is open.
        on_model: called in a thread when the model is loaded, with what kept it from that.
    """
    metrics = Metrics()
    routes = Routes(options, base)

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        workers = None
        if base.jobs != 0:
            from ocria.document.workers import Workers

            # A document that takes for ever to open would keep a process and a reader from all others.
            workers = Workers(base.jobs or 1, open_s=base.page_timeout or options.timeout)
        model = ServedModel(base, lambda error: on_model(model, error) if on_model is not None else None)
        desk = Desk(options, model, workers, metrics)
        model.start()
        routes.desk = desk
        if on_desk is not None:
            on_desk(desk)
        try:
            yield
        finally:
            await desk.close()

    app = Starlette(
        routes=routes.routes(),
        exception_handlers={
            Problem: _problem, OcriaError: _problem, Exception: _problem, HTTPException: _http,
            ClientDisconnect: _gone,
        },
        lifespan=life,
    )  # fmt: skip
    app.router.redirect_slashes = False  # what is not there is not elsewhere
    # Outside of all that Starlette wraps around routes, so that answers to faults pass it too.
    return Gate(app, options, metrics)


async def _problem(request: Request, error: Exception) -> Response:
    return problem_of(error).response()


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = _KINDS.get(error.status_code, "bad_request")
    return Problem(error.status_code, kind, error.detail, headers=dict(error.headers or {})).response()


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it; the log does
