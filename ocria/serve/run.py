"""Run the server until a signal ends it."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from ocria.document.options import ParseOptions
from ocria.errors import OcriaError, UsageError
from ocria.serve.app import make_app
from ocria.serve.connection import Connection
from ocria.serve.desk import Desk
from ocria.serve.model import ServedModel
from ocria.serve.options import ServeOptions

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# The desk cancels what is late; this is for connections that do not end even then.
_AFTER_GRACE_S = 10.0
_BACKLOG = 1024


class Server(uvicorn.Server):
    """A server that listens when it is made; `run` serves until `stop`, a signal, or a model that cannot be loaded.

    Args:
        base: options of all documents, the engine's among them.
        say: takes a line for people.

    Raises:
        UsageError: the address cannot be taken.
    """

    def __init__(self, options: ServeOptions, base: ParseOptions, say: Callable[[str], None] = lambda line: None):
        self._say, self._options = say, options
        self._desk: Desk | None = None
        self._error: OcriaError | None = None
        self._signals = 0
        self._socket = _listen(options)
        host, port = self._socket.getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        """Where it is reached."""
        app = make_app(options, base, self._opened, self._loaded)
        super().__init__(
            uvicorn.Config(
                app, http=Connection, log_config=None, access_log=False, server_header=False, lifespan="on",
                proxy_headers=False, ws="none", timeout_graceful_shutdown=int(options.grace + _AFTER_GRACE_S),
            )
        )  # fmt: skip

    def serve_until_stopped(self) -> None:
        """Serve. Raises EngineError: the model cannot be loaded."""
        logging.getLogger("uvicorn").setLevel(logging.ERROR)  # its warnings are of what clients send
        self.run(sockets=[self._socket])
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """From any thread: take nothing more, and end when what runs is done, or the time of grace over. Once more:
        cancel what runs."""
        self.should_exit = True
        if self._desk is not None:
            self._desk.stop_from_anywhere()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """While it serves, signals end it, as uvicorn has it; but then they are done with."""
        try:
            before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        except ValueError:  # not the main thread
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._signals += 1
        if self._signals > 2:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        self.stop()

    def _opened(self, desk: Desk) -> None:
        self._desk = desk
        self._say(f"listening at {self.url}; the model is being loaded")

    def _loaded(self, model: ServedModel, error: OcriaError | None) -> None:
        if error is not None:
            self._error = error
            self.stop()
        else:
            self._say(f"serving {model.model.name} at {self.url} on {model.about}")


def _listen(options: ServeOptions) -> socket.socket:
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, proto)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        cure = "Choose another with --host and --port"
        raise UsageError(f"{options.host}:{options.port} cannot be taken: {error.strerror}", cure=cure) from error
    return listening
