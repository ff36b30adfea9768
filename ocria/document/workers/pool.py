"""A few child processes that many documents share."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from ocria import errors
from ocria.document.workers.process import Crashed, Process
from ocria.document.workers.wire import Fault, Opened, Opening, Request
from ocria.errors import OUT_OF_TIME, CrashError, EngineError, OcriaError, TimeoutExceeded

MEMORY_BYTES = 6 << 30
RECYCLE_AFTER = 3000
RECYCLE_BYTES = 1 << 30
# So that nothing hangs for ever: far more than any page or file that people have takes.
_PAGE_S = 180.0
_OPEN_S = 900.0
_CLOSE_S = 10.0
# A document may need much memory by itself: a fresh process is then no better.
_LEAST_CALLS = 20


@dataclass(slots=True)
class Handle:
    """A document that was opened in a pool."""

    number: int
    opening: Opening
    """How to open it again in another process."""
    opened: Opened | None = None
    closed: bool = False


class Workers:
    """Child processes that open and draw files. Threads may share them: each call takes a free one.

    Args:
        count: most processes; they are started when they are needed, the first one at once.
        memory_bytes: the most memory that one may ask for; what needs more is refused.
        recycle_after: calls, of which a page takes two to four, after which a process is replaced by a fresh one.
        recycle_bytes: memory in use after which it is, though not after every few calls.
        open_s: the most seconds that opening a document may take.
    """

    def __init__(
        self,
        count: int = 1,
        *,
        memory_bytes: int = MEMORY_BYTES,
        recycle_after: int = RECYCLE_AFTER,
        recycle_bytes: int = RECYCLE_BYTES,
        open_s: float = _OPEN_S,
    ):
        self.count = count
        self._memory_bytes = memory_bytes
        self._recycle_after, self._recycle_bytes = recycle_after, recycle_bytes
        self._open_s = open_s
        self._numbers = itertools.count(1)
        self._forgotten: set[int] = set()
        self._changed = threading.Condition()
        self._line: deque[object] = deque()
        """Who waits for a process, in the order of coming."""
        self._closed = False
        self._busy: list[Process] = []
        self._waiting_room = count - 1
        """Processes that may still be started."""
        self._idle = [Process(memory_bytes)]

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        """Of the processes that run now."""
        with self._changed:
            return [process.pid for process in (*self._idle, *self._busy)]

    def open(self, opening: Opening, limit_s: float | None = None, until: float | None = None) -> Handle:
        """Open a document.

        Args:
            limit_s: seconds that it may take.
            until: a time of `time.monotonic` at which it must be done.

        Raises:
            OcriaError: what opening raises, CrashError, or TimeoutExceeded.
        """
        handle = Handle(next(self._numbers), opening)
        handle.opened = self._ask(handle, None, limit_s or self._open_s, until)
        known = {"kind": handle.opened.kind, "converted_from": handle.opened.converted_from}
        if handle.opened.converted is not None:
            known["content"] = handle.opened.converted
        handle.opening = replace(opening, **known)
        return handle

    def call(
        self,
        handle: Handle,
        call: str,
        *arguments: Any,
        limit_s: float | None = None,
        until: float | None = None,
    ) -> Any:
        """Call a method of a page: `arguments` are the page's number and those of the method.

        Raises:
            OcriaError: as `open`.
        """
        return self._ask(handle, Request(call, arguments, handle.number), limit_s or _PAGE_S, until)

    def run(
        self, call: str, path: str, *arguments: Any, limit_s: float | None = None, until: float | None = None
    ) -> Any:
        """Call what needs no open document: one of `ocria.document.workers.child.CALLS`.

        Args:
            path: for messages.
            limit_s, until: as of `open`; only `until` bounds the wait for a process that is free.

        Raises:
            OcriaError: as `open`.
        """
        handle = Handle(next(self._numbers), Opening(path, ""))
        return self._ask(handle, Request(call, arguments), limit_s or _PAGE_S, until)

    def forget(self, handle: Handle) -> None:
        """Close a document; processes that have it open and are busy do so when they are next asked something."""
        with self._changed:
            handle.closed = True
            self._forgotten.add(handle.number)
            for process in self._idle:
                if handle.number in process.documents:
                    process.forget({handle.number})
            self._forgotten &= self._open_numbers()

    def close(self) -> None:
        """End all processes; calls that are under way in other threads fail."""
        with self._changed:
            self._closed = True
            for process in self._busy:
                process.kill()
            self._changed.notify_all()
            # A thread that was interrupted may never give its process back.
            self._changed.wait_for(lambda: not self._busy, _CLOSE_S)
            left, self._idle, self._busy = [*self._idle, *self._busy], [], []
        for process in left:
            process.stop()

    def _ask(self, handle: Handle, request: Request | None, limit_s: float, until: float | None) -> Any:
        """Open the document where it is not open yet, then make the request. A crash may be due to what went before:
        once more in a process that has done nothing else, and it is the document's or the page's own."""
        path = handle.opening.path
        for fresh in (False, True):
            process = self._take(handle, until, fresh)
            try:
                return self._ask_process(process, handle, request, limit_s, until)
            except Crashed as crash:
                if fresh and not self._closed:
                    what = "opening the file" if request is None else "reading the page"
                    raise CrashError(f"{what} crashes ({crash})", path=path) from None
            except TimeoutError:
                raise _late(path, request, limit_s, until) from None
            finally:
                self._give_back(process, handle)
        raise OcriaError("stopped while the file was read", path=path)

    def _ask_process(
        self, process: Process, handle: Handle, request: Request | None, limit_s: float, until: float | None
    ) -> Any:
        process.wait_until_ready(until)
        answer = None
        opens = request is None or request.document is not None
        if opens and handle.number not in process.documents:
            seconds = limit_s if request is None else self._open_s
            forget = self._forgotten & process.documents
            answer = process.open(handle.number, handle.opening, forget, _end(seconds, until))
        if request is not None and not isinstance(answer, Fault):
            process.prepare(request.call, until)
            answer = process.ask(request, _end(limit_s, until))
        if isinstance(answer, Fault):
            raise getattr(errors, answer.kind)(answer.message, path=answer.path, cure=answer.cure)
        return answer

    def _take(self, handle: Handle, until: float | None, fresh: bool) -> Process:
        """A process that nobody uses, one that has the document open if there is a choice. Who came first has it first:
        a long document gives a process back and asks for the next page at once, before others wake.

        Raises:
            TimeoutExceeded: there was none in time.
        """
        place = object()
        with self._changed:
            self._line.append(place)
            try:
                while not self._closed and not ((self._idle or self._waiting_room) and self._line[0] is place):
                    left = None if until is None else until - time.monotonic()
                    if left is not None and left <= 0:
                        raise _late(handle.opening.path, None, 0, until)
                    self._changed.wait(left)
                if self._closed or handle.closed:
                    raise OcriaError("stopped while the file was read", path=handle.opening.path)
                process = self._chosen(handle.number, fresh)
                self._busy.append(process)
            finally:
                self._line.remove(place)
                self._changed.notify_all()  # another one is the first
        return process

    def _chosen(self, number: int, fresh: bool) -> Process:
        if not fresh:
            for process in self._idle:
                if number in process.documents:
                    self._idle.remove(process)
                    return process
        for process in self._idle:
            if not fresh or not process.calls:
                self._idle.remove(process)
                return process
        if not self._waiting_room:
            self._idle.pop().stop()
            self._waiting_room += 1
        process = Process(self._memory_bytes)
        self._waiting_room -= 1
        return process

    def _give_back(self, process: Process, handle: Handle) -> None:
        """Make a process free for others, or put a new one in its place, which loads its libraries meanwhile."""
        grown = process.calls >= _LEAST_CALLS and process.memory >= self._recycle_bytes
        spent = process.broken or process.calls >= self._recycle_after or grown
        if spent:
            process.stop()
        with self._changed:
            if process not in self._busy:
                return  # closed meanwhile
            self._busy.remove(process)
            if spent:
                self._waiting_room += 1
                self._refill()
            else:
                self._idle.append(process)
            if handle.closed:
                self._forgotten.add(handle.number)
            self._forgotten &= self._open_numbers()
            self._changed.notify_all()

    def _refill(self) -> None:
        if self._closed:
            return
        try:
            self._idle.append(Process(self._memory_bytes))
        except EngineError:
            return  # there is room for it still: the next call tries again, and tells
        self._waiting_room -= 1

    def _open_numbers(self) -> set[int]:
        return set().union(*(process.documents for process in (*self._idle, *self._busy)))


def _end(seconds: float, until: float | None) -> float:
    end = time.monotonic() + seconds
    return end if until is None else min(end, until)


def _late(path: str, request: Request | None, limit_s: float, until: float | None) -> TimeoutExceeded:
    if until is not None and time.monotonic() >= until:
        return TimeoutExceeded(OUT_OF_TIME, path=path)
    what = "opening the file" if request is None else "drawing the page"
    return TimeoutExceeded(f"{what} took more than {limit_s:g} s", path=path)
