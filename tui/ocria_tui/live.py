"""Documents read by an engine in a process of its own, so that the app stays quick and outlives a crash."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from ocria.errors import EngineError, OcriaError, OutputError
from ocria.events import DocumentFailed, DocumentStarted, Event, Note, event_from_dict
from ocria.record import Recording
from ocria_tui.coalesce import Coalescer, Timed
from ocria_tui.messages import MESSAGES, PageImage, PausedChanged, Refused, SessionEnded
from ocria_tui.session_options import SessionOptions, plain
from ocria_tui.wire import FORGET, JOB, read_line, write_line

_START = "import sys; sys.path[:] = sys.argv[1:]; from ocria_tui.child import main; main()"
_TAIL_BYTES = 4000
_TAIL_LINES = 4
_KILL_S = 2.0
_MOST_CRASHES = 2
"""After so many with it a document is not opened again, lest one takes all others along."""
# Variables that are no business of the child.
_SECRET = ("OCRIA_PASSWORD",)


class LiveSession:
    """See `ocria_tui.session.Session`.

    Args:
        files: to be opened at the start: files, folders, patterns.
        options: names and values as of `SessionOptions`.
        record: a file that the events are written to as they are drained, images of pages aside.

    Raises:
        UsageError: an option cannot be met.
        OutputError: `record` exists, where the options do not say `overwrite`, or cannot be written.
    """

    live = True

    def __init__(self, files: Sequence[str], options: Mapping[str, Any], record: str | os.PathLike[str] | None = None):
        self.options: Mapping[str, Any] = plain(options)
        settled = SessionOptions.of(self.options)
        self._files = [os.fspath(file) for file in files]
        self._recording = None if record is None else Recording(record, overwrite=settled.batch.overwrite)
        self._events = Coalescer()
        self._jobs: dict[tuple[Any, ...], dict[str, Any]] = {}
        """What is not done, by path and pages."""
        self._reading: str | None = None
        """The document that is being read."""
        self._crashes: Counter[str] = Counter()
        """How often the process ended while a document was read."""
        self._paused = False
        self._closed = False
        self._process: _Process | None = None
        self._begun = 0.0
        self._images = ""

    def start(self) -> None:
        """Start the engine's process and open the files. Raises EngineError where that is not possible."""
        self._begun = time.monotonic()
        self._launch()
        if self._files:
            self.open(self._files)

    def restart(self) -> None:
        """After `SessionEnded`: start the process again, and open what was not done. What runs is left alone."""
        if self._closed or (self._process is not None and self._process.is_there()):
            return
        jobs, self._jobs = list(self._jobs.values()), {}
        self._launch()
        if self._paused:
            self._send(do="pause")
        given_up = set()
        for job in jobs:
            if self._crashes[job["path"]] < _MOST_CRASHES:
                self._send(do="job", job=job)
            else:
                given_up.add(job["path"])
        for path in sorted(given_up):
            message = f"the engine's process ended {_MOST_CRASHES} times while this document was read"
            self._tell(DocumentFailed(path, message, "Open it with other settings", OcriaError.exit_code))
            del self._crashes[path]

    def drain(self) -> list[Timed]:
        happened = self._events.take()
        for at, event in happened:
            self._write_down(at, event)
        return happened

    def open(self, paths: Sequence[str], options: Mapping[str, Any] | None = None) -> None:
        self._send(do="open", paths=[os.fspath(path) for path in paths], options=plain(options or {}))

    def set_options(self, options: Mapping[str, Any]) -> None:
        chosen = {**self.options, **plain(options)}
        try:
            SessionOptions.of(chosen)
        except OcriaError as error:
            self._tell(Refused(error.message, error.cure))
            return
        self.options = chosen
        self._send(do="set_options", options=plain(options))

    def pause(self) -> None:
        self._send(do="pause")

    def resume(self) -> None:
        self._send(do="resume")

    def cancel(self, path: str | None = None, page: int | None = None) -> None:
        self._send(do="cancel", path=path, page=page)

    def retry(self, path: str, pages: Sequence[int] | None = None, options: Mapping[str, Any] | None = None) -> None:
        chosen = None if pages is None else list(pages)
        self._send(do="retry", path=path, pages=chosen, options=plain(options or {}))

    def draw(self, path: str, page: int, width: int) -> None:
        self._send(do="draw", path=path, page=page, width=width)

    def export(self, path: str, kinds: Sequence[str], target: str, overwrite: bool = False) -> None:
        self._send(do="export", path=path, kinds=list(kinds), target=os.fspath(target), overwrite=overwrite)

    def close(self, timeout: float = 10.0) -> None:
        if self._closed:
            return
        self._closed = True
        if self._process is not None:
            self._process.close(timeout)
        if self._images:
            shutil.rmtree(self._images, ignore_errors=True)
        if self._recording is not None:
            for at, event in self.drain():  # it is recorded, and there still for who looks once more
                self._events.add(at, event)
            self._recording.close()
            self._recording = None

    @property
    def pid(self) -> int | None:
        """Of the engine's process; None before it is started."""
        return None if self._process is None else self._process.pid

    def _launch(self) -> None:
        if not os.path.isdir(self._images):
            self._images = tempfile.mkdtemp(prefix="ocria-tui-")
        self._process = _Process(self._take, self._ended)
        self._send(begun=self._begun, options=self.options, images=self._images)

    def _send(self, **command: Any) -> None:
        if self._process is None or not self._process.send(command):
            about = command.get("path")
            self._tell(Refused("the engine is not running", "Restart it", about))

    def _write_down(self, at: float, event: Event) -> None:
        if self._recording is None or isinstance(event, PageImage):  # whose file is gone when somebody reads it
            return
        try:
            self._recording.add(event, at)
        except OutputError as error:
            self._recording = None
            self._tell(Note("error", f"nothing more is recorded: {error}"))

    def _tell(self, event: Event) -> None:
        self._events.add(time.monotonic() - self._begun, event)

    def _take(self, record: dict[str, Any]) -> None:
        """A line of the process."""
        if record.get("type") == JOB:
            job = record["job"]
            self._jobs[job["path"], *(job["again"] or ())] = job
        elif record.get("type") == FORGET:
            self._jobs = {key: job for key, job in self._jobs.items() if key[0] != record["path"]}
            if self._reading == record["path"]:
                self._reading = None
        else:
            try:
                event, at = event_from_dict(record, MESSAGES), float(record["at"])
            except (OcriaError, KeyError, TypeError, ValueError) as error:
                self._tell(Note("warning", f"the engine's process said what is no event: {error}"))
                return
            if isinstance(event, PausedChanged):
                self._paused = event.paused
            elif isinstance(event, DocumentStarted):
                self._reading = event.path
            self._events.add(at, event)

    def _ended(self, code: int, said: list[str]) -> None:
        """The process is gone, and had said this last."""
        if self._closed:
            return
        if self._reading is not None:
            self._crashes[self._reading] += 1
            self._reading = None
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        cure = "Restart it: finished pages are kept, and what was not done is opened again"
        if -code == signal.SIGKILL:
            cure += "; if the memory ran out, a smaller batch or memory may help"
        self._tell(SessionEnded("\n".join([f"the engine's process ended ({how})", *said]), cure))


class _Process:
    """The child, its pipes and the threads that read them.

    Args:
        take: is given each line, parsed.
        ended: is told the exit code (below zero: of a signal) and the last lines on standard error.

    Raises:
        EngineError: it cannot be started.
    """

    def __init__(self, take: Any, ended: Any):
        if not sys.executable:
            raise EngineError("no Python interpreter to start the engine with")
        self._take, self._when_ended = take, ended
        self._complaints = bytearray()
        self._writing = threading.Lock()
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-c", _START, *map(os.path.abspath, sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={name: value for name, value in os.environ.items() if name not in _SECRET},
                # Ctrl-C reaches the app alone, which says what is to be stopped. Not a session of its own: Linux shares
                # the CPU out among sessions first, so the child's niceness would count for nothing beside the app.
                process_group=0,
            )
        except OSError as error:
            raise EngineError(f"the engine's process cannot be started ({error.strerror})") from error
        self._threads = [
            threading.Thread(target=target, args=(stream,), name=name, daemon=True)
            for target, stream, name in (
                (self._listen, self._popen.stdout, "ocria-session"),
                (self._collect, self._popen.stderr, "ocria-complaints"),
            )
        ]
        for thread in reversed(self._threads):
            thread.start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def is_there(self) -> bool:
        return self._popen.poll() is None

    def send(self, command: Mapping[str, Any]) -> bool:
        """Whether it could be sent."""
        try:
            with self._writing:
                write_line(self._popen.stdin, command)
                self._popen.stdin.flush()
        except (OSError, ValueError):  # the pipe has no other end, or was closed
            return False
        return True

    def close(self, timeout: float) -> None:
        """Let it finish, or make it."""
        self.send({"do": "close"})
        with contextlib.suppress(OSError):
            self._popen.stdin.close()
        for wait, then in ((timeout, signal.SIGTERM), (_KILL_S, signal.SIGKILL)):
            try:
                self._popen.wait(wait)
                break
            except subprocess.TimeoutExpired:
                os.killpg(self._popen.pid, then)
        self._popen.wait()
        for thread in self._threads:
            thread.join(_KILL_S)

    def _listen(self, stream: BinaryIO) -> None:
        with stream:
            for line in stream:
                record = read_line(line)
                if record is not None:
                    self._take(record)
        code = self._popen.wait()
        self._threads[1].join(_KILL_S)
        said = bytes(self._complaints).decode("utf-8", "replace").strip().splitlines()
        self._when_ended(code, [line for line in said if line.strip()][-_TAIL_LINES:])

    def _collect(self, stream: BinaryIO) -> None:
        """Keep the last that it says."""
        with stream:
            while part := stream.read1():
                self._complaints += part
                del self._complaints[:-_TAIL_BYTES]
