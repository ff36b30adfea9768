"""An engine for many threads at once: what all of them stream is in one batch.

`Engine.stream` serves one caller at a time. Here one thread of its own takes all steps, and streams only wait for what
concerns them: requests of several documents fill the batch together, and a short one need not wait for a long one.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import Any

from ocria.errors import EngineError, OcriaError, UsageError
from ocria.runtime.engine import Engine, _refused
from ocria.runtime.request import Emission, Request

_CLOSED = "the engine was closed"
_HEARTBEAT_S = 0.2
"""A stream for which nothing comes says so this often, so that who gave up is heard."""


class SharedEngine(Engine):
    """As `Engine`, but `stream` and `run` of several threads run at the same time. Ids are unique over all of them.

    `submit` and `step` are not for callers here. `close` ends the thread.
    """

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self._changed = threading.Condition()
        self._tasks: list[Callable[[], None]] = []  # done between two steps, so that nobody waits for the engine's lock
        self._boxes: dict[str | int, SimpleQueue[Emission | Exception]] = {}
        self._driver: threading.Thread | None = None
        self._closed = False

    def stream(self, requests: Iterable[Request]) -> Iterator[Emission]:
        """As `Engine.stream`; while nothing comes for them, now and then an emission without text.

        Raises:
            UsageError: an id is in use.
            EngineError: a step failed, over whichever request; the engine stays usable.
        """
        requests = list(requests)
        left = {request.id for request in requests}
        if len(left) < len(requests):
            raise UsageError("two requests of one run have the same id")
        if not requests:
            return
        if self._closed:
            raise EngineError(_CLOSED)
        box: SimpleQueue[Emission | Exception] = SimpleQueue()
        self._post(lambda: self._admit(requests, box))
        try:
            while left:
                try:
                    emission = box.get(timeout=_HEARTBEAT_S)
                except Empty:
                    if self._closed:  # before it knew of this stream
                        raise EngineError(_CLOSED) from None
                    yield Emission(next(iter(left)), "")
                    continue
                if isinstance(emission, Exception):
                    left.clear()
                    raise emission
                if emission.result is not None:
                    left.discard(emission.id)
                yield emission
        finally:
            if left:
                self._post(lambda: self._leave(box))

    def cancel(self, request_id: str | int) -> None:
        """End a request in whatever phase it is; its stream is given the result."""
        self._post(lambda: Engine.cancel(self, request_id))

    def close(self) -> None:
        """End all streams, with an EngineError, and the thread that takes the steps."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            driver = self._driver
        if driver is not None:
            driver.join()

    def _post(self, task: Callable[[], None]) -> None:
        with self._changed:
            if self._closed:
                return
            self._tasks.append(task)
            if self._driver is None:
                self._driver = threading.Thread(target=self._drive, name="ocria-engine", daemon=True)
                self._driver.start()
            self._changed.notify_all()

    def _drive(self) -> None:
        while True:
            with self._changed:
                while not (self._tasks or self._closed or self._live or self._out):
                    self._changed.wait()
                if self._closed:
                    break
                tasks, self._tasks = self._tasks, []
            try:
                for task in tasks:
                    task()
                out = self.step()
            except Exception as error:  # of any library below; `step` has dropped all requests
                self._fail(error if isinstance(error, OcriaError) else EngineError(_told(error)))
                continue
            for emission in out:
                self._deliver(emission)
        self._fail(EngineError(_CLOSED))

    def _deliver(self, emission: Emission) -> None:
        box = self._boxes.get(emission.id)
        if box is not None:  # else its stream was left
            box.put(emission)
            if emission.result is not None:
                del self._boxes[emission.id]

    def _fail(self, error: OcriaError) -> None:
        """Let every stream end with an error of its own: tracebacks are added to them as they are raised."""
        boxes, self._boxes = self._boxes, {}
        for box in {id(box): box for box in boxes.values()}.values():
            box.put(EngineError(error.message, path=error.path, cure=error.cure))

    def _admit(self, requests: list[Request], box: "SimpleQueue[Emission | Exception]") -> None:
        taken = next((request.id for request in requests if request.id in self._boxes), None)
        if taken is not None:
            box.put(UsageError(f"a request with the id {taken!r} is already there"))
            return
        sequences = []
        for request in requests:
            self._boxes[request.id] = box
            try:
                sequences.append(self._record(request))
            except OcriaError as error:
                self._deliver(Emission(request.id, "", _refused(request, error)))
        # As in `Engine.stream`.
        for sequence in sorted(sequences, key=lambda s: -s.rows):
            self._queue(sequence)

    def _leave(self, box: "SimpleQueue[Emission | Exception]") -> None:
        """Drop what is left of a stream without a word: its caller is gone."""
        for request_id in [request_id for request_id, other in self._boxes.items() if other is box]:
            del self._boxes[request_id]
            Engine.cancel(self, request_id)


def _told(error: Exception) -> str:
    return f"the engine failed: {type(error).__name__}: {error}"
