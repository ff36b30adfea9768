"""One child process, as its parent sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import weakref

from ocria.document.workers.wire import LAYOUT, Answer, Fault, Opened, Opening, Request, receive, send, widen
from ocria.errors import EngineError

_START = "import sys; sys.path[:] = sys.argv[3:]; from ocria.document.workers.child import main; main()"
_TAIL_BYTES = 2000
# Variables that are no business of the child.
_SECRET = ("OCRIA_PASSWORD",)
# A machine that is busy with other things may take long to load the libraries.
_START_S = 300.0
_NEED_LAYOUT = ("lay_out", "lay_out_lines")


_RUNNING: weakref.WeakSet[Process] = weakref.WeakSet()


class Crashed(Exception):
    """The child ended before it answered; the message says how."""


class Process:
    """A started child. It works for one thread at a time.

    Args:
        memory_bytes: the most memory it may ask for.
    """

    def __init__(self, memory_bytes: int):
        if not sys.executable:
            raise EngineError("no Python interpreter to start a process with", cure="Do without with --jobs 0")
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115, closed by stop
        life, held = os.pipe()
        self._life = os.fdopen(held, "wb", 0)
        try:
            self._popen = self._start(memory_bytes, life)
        except OSError as error:
            self._life.close()
            self._complaints.close()
            raise EngineError(
                f"a process that reads files cannot be started ({error.strerror})", cure="Do without with --jobs 0"
            ) from error
        finally:
            os.close(life)
        self._requests, self._answers = self._popen.stdin.fileno(), self._popen.stdout.fileno()
        widen(self._requests)
        self._ready = False
        self.documents: set[int] = set()
        """The numbers of those that are open in it."""
        self.calls = 0
        """That it answered."""
        self.memory = 0
        """Bytes that it had in use at its last answer."""
        self.broken = False
        """Whether it must not be asked again."""
        self._has_layout = False
        _RUNNING.add(self)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def wait_until_ready(self, until: float | None = None) -> None:
        """Wait until its libraries are loaded.

        Raises:
            TimeoutError: `until`, a time of `time.monotonic`, came first.
            EngineError: it does not start.
        """
        if self._ready:
            return
        start = time.monotonic() + _START_S
        self.broken = True
        try:
            self.memory = receive(self._answers, start if until is None else min(start, until)).memory
        except EOFError:
            raise EngineError(f"the process that reads files does not start ({self._ending()})") from None
        except TimeoutError:
            self.broken = time.monotonic() >= start  # else it still loads, for others
            raise
        self._ready, self.broken = True, False

    def open(self, number: int, opening: Opening, forget: set[int], until: float) -> Opened | Fault:
        """Open a document under a number of its own. Errors are those of `ask`."""
        answer = self.ask(Request("open", (opening,), number, tuple(forget & self.documents)), until)
        self.documents -= forget
        if not isinstance(answer, Fault):
            self.documents.add(number)
        return answer

    def prepare(self, call: str, until: float | None) -> None:
        """Wait until what a call needs is loaded, which is no time of its page. Errors are those of `ask`."""
        if call not in _NEED_LAYOUT or self._has_layout:
            return
        start = time.monotonic() + _START_S
        fault = self._exchange(Request("load", (LAYOUT,)), start if until is None else min(start, until))
        if isinstance(fault, Fault):
            raise EngineError(f"the process that reads files cannot lay pages out ({fault.message})")
        self._has_layout = True

    def forget(self, numbers: set[int]) -> None:
        """Close documents; it must be idle. Nothing is answered."""
        known = numbers & self.documents
        self.documents -= known
        try:
            send(self._requests, Request("forget", forget=tuple(known)))
        except BrokenPipeError:
            self.broken = True

    def ask(self, request: Request, until: float) -> object:
        """What the child answers, a `Fault` where the call raised.

        Raises:
            Crashed: it ended instead.
            TimeoutError: `until` came first.
        """
        value = self._exchange(request, until)
        self.calls += 1
        return value

    def _exchange(self, request: Request, until: float) -> object:
        done = False
        try:
            send(self._requests, request)
            answer: Answer = receive(self._answers, until)
            done = True
        except (BrokenPipeError, EOFError):
            raise Crashed(self._ending()) from None
        finally:
            self.broken = self.broken or not done
        self.memory = answer.memory
        self.broken = isinstance(answer.value, Fault) and answer.value.fatal
        return answer.value

    def kill(self) -> None:
        """End it; a thread that waits for its answer is told that it crashed."""
        self._popen.kill()

    def stop(self) -> None:
        """End it and wait until it is gone. Only the thread that it works for may call this."""
        self._popen.kill()
        self._popen.wait()
        self._popen.stdin.close()
        self._popen.stdout.close()
        self._life.close()
        self._complaints.close()

    def leave(self) -> None:
        """Have nothing to do with it any more; it goes on for others."""
        self._life.close()
        self._popen.stdin.close()
        self._popen.stdout.close()
        self.broken = True

    def _start(self, memory_bytes: int, life: int) -> subprocess.Popen[bytes]:
        # A group of its own, so that Ctrl-C reaches the parent alone, which says what is to be stopped.
        return subprocess.Popen(
            [sys.executable, "-c", _START, str(memory_bytes), str(life), *map(os.path.abspath, sys.path)],
            pass_fds=(life,),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            bufsize=0,
            env={name: value for name, value in os.environ.items() if name not in _SECRET},
            process_group=0,
        )

    def _ending(self) -> str:
        """How it ended, and the last that it said."""
        code = self._popen.wait()
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        size = self._complaints.seek(0, os.SEEK_END)
        self._complaints.seek(max(0, size - _TAIL_BYTES))
        said = self._complaints.read().decode("utf-8", "replace").strip().splitlines()
        return f"{how}: {said[-1]}" if said else how


def _let_go() -> None:
    """In a copy of this process that was forked: leave the children to the one that started them, whose end ends
    them."""
    for process in list(_RUNNING):
        process.leave()


os.register_at_fork(after_in_child=_let_go)
