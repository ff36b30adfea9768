"""What every request passes, and every answer: who may come in, headers, counts, the log."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hmac
import json
import logging
import sys
import time
from datetime import UTC, datetime
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ocria.serve.metrics import Metrics
from ocria.serve.options import ServeOptions
from ocria.serve.problems import Problem

_LOG = logging.getLogger("ocria.serve")
HEALTH = ("/health", "/health/live")
HEADERS = {
    # The pictures of documents are data: URLs.
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ROUTES = ("/", "/app.js", "/style.css", "/health", "/health/live", "/metrics", "/v1/parse", "/v1/jobs", "/v1/models",
           "/v1/chat/completions")  # fmt: skip
_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
# A client that is refused while it sends hears of it only if somebody takes the rest.
_MOST_DRAINED = 8 << 20
_DRAIN_S = 2.0


class Gate:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, options: ServeOptions, metrics: Metrics):
        self._app, self._options, self._metrics = app, options, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asks_first = Headers(scope=scope).get("expect", "").lower() == "100-continue"
        begun, exchange = time.monotonic(), _Exchange(receive, send, self._metrics, asks_first)
        try:
            problem = self._refused(scope)
            app = self._app if problem is None else problem.response()
            await app(scope, exchange.receive, exchange.send)
        except Exception:
            if not exchange.complete:
                raise
            _LOG.exception("a request failed")  # and was answered; uvicorn would end the connection unannounced
        finally:
            seconds = time.monotonic() - begun
            status = exchange.status or 499  # the client left before there was an answer
            route = route_of(scope["path"])
            self._metrics.request(route, status, seconds)
            if not self._options.quiet:
                self._log(scope, route, status, seconds, exchange)

    def _refused(self, scope: Scope) -> Problem | None:
        """Why a request does not come in, or None."""
        headers = Headers(scope=scope)
        options = self._options
        host = headers.get("host", "")
        if options.loopback and options.key is None and _name_of(host) not in (*_LOCAL_NAMES, options.host):
            return Problem(421, "forbidden", "this server is for this machine", "Call it localhost")
        origin = headers.get("origin")
        if origin is not None and (_netloc_of(origin) != host.lower() or not host):
            return Problem(403, "forbidden", "other web pages may not use this server")
        if options.key is None or scope["path"] in HEALTH or hmac.compare_digest(_key_of(headers), options.key):
            return None
        # A browser that opens the page asks for the key; programs have no use for that.
        scheme = 'Basic realm="ocria", charset="UTF-8"' if "text/html" in headers.get("accept", "") else "Bearer"
        cure = "Send it as `Authorization: Bearer KEY`"
        return Problem(401, "unauthorized", "the key is missing or wrong", cure, headers={"WWW-Authenticate": scheme})

    def _log(self, scope: Scope, route: str, status: int, seconds: float, exchange: _Exchange) -> None:
        now, client = datetime.now(UTC).isoformat(timespec="milliseconds"), (scope.get("client") or ("-",))[0]
        if self._options.log_format == "json":
            told = {
                "time": now, "type": "request", "client": client, "method": scope["method"], "route": route,
                "status": status, "seconds": round(seconds, 4), "bytes_in": exchange.bytes_in,
                "bytes_out": exchange.bytes_out,
            }  # fmt: skip
            line = json.dumps(told)
        else:
            sizes = f"{exchange.bytes_in} B in, {exchange.bytes_out} B out"
            line = f"{now} {client} {scope['method']} {route} {status} {seconds:.3f} s, {sizes}"
        print(line, file=sys.stderr, flush=True)


class _Exchange:
    """One request and its answer, as they pass."""

    def __init__(self, receive: Receive, send: Send, metrics: Metrics, asks_first: bool):
        self._receive, self._send, self._metrics = receive, send, metrics
        self._whole = False
        self._asks_first = asks_first
        self.status: int | None = None
        self.complete = False
        """Whether the whole answer was sent."""
        self.bytes_in = self.bytes_out = 0

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            self.bytes_in += size
            self._metrics.upload_bytes += size
        self._whole = self._whole or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if self.status >= 400 and not self._whole and not await self._drain():
                headers["Connection"] = "close"
        self.bytes_out += len(message.get("body", b""))
        await self._send(message)
        self.complete = message["type"] == "http.response.body" and not message.get("more_body", False)

    async def _drain(self) -> bool:
        """Take what is left of a body, without keeping it. Whether that was all."""
        if self._asks_first and not self.bytes_in:
            return False  # it has sent nothing yet, and need not
        most = self.bytes_in + _MOST_DRAINED
        with contextlib.suppress(TimeoutError):  # what does not come is not waited for
            async with asyncio.timeout(_DRAIN_S):
                while not self._whole and self.bytes_in < most:
                    await self.receive()
        return self._whole


def route_of(path: str) -> str:
    """A path without what differs from request to request, for counts."""
    if path in _ROUTES:
        return path
    parts = path.strip("/").split("/")
    if parts[:2] == ["v1", "models"]:
        return "/v1/models/{name}"
    if parts[:2] == ["v1", "jobs"] and len(parts) > 2:
        if len(parts) == 3:
            return "/v1/jobs/{id}"
        if len(parts) == 4 and parts[3] in ("events", "result"):
            return f"/v1/jobs/{{id}}/{parts[3]}"
        if len(parts) == 5 and parts[3] == "pages":
            return "/v1/jobs/{id}/pages/{page}.png"
    return "other"


def _name_of(host: str) -> str:
    """A `Host` header without the port."""
    try:
        return (urlsplit(f"//{host}").hostname or "") if host.isascii() and "/" not in host else ""
    except ValueError:  # a bracket without another
        return ""


def _netloc_of(origin: str) -> str:
    """Host and port of an `Origin` header."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _key_of(headers: Headers) -> bytes:
    """The key that a request has."""
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip().encode("latin-1")
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(rest.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b""
