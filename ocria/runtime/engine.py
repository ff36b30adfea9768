"""The engine: continuous batching of requests over slots, one step at a time.

    engine = Engine(load_model("ocria-nano"))
    results = engine.run(requests)

The loop is submit -> step (admit, prefill, launch, collect, guard) -> result. `run` and `stream` drive it to the end;
`submit`, `step` and `cancel` are there for callers with a loop of their own. Calls from several threads are
serialised.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator

import torch

from ocria.errors import EngineError, OcriaError, UsageError
from ocria.events import EngineTick
from ocria.runtime.memory import used_memory
from ocria.runtime.options import EngineOptions
from ocria.runtime.request import Emission, Request, Result
from ocria.runtime.rounds import Loaded, Rounds
from ocria.spec.chain import Chain

OnEvent = Callable[[Emission | EngineTick], None]


class Engine(Rounds):
    """Runs requests on one loaded checkpoint, for callers in any thread."""

    def __init__(
        self,
        loaded: Loaded,
        options: EngineOptions | None = None,
        clock: Callable[[], float] = time.monotonic,
        drafter: Chain | None = None,
    ):
        super().__init__(loaded, options, clock, drafter)
        self._lock = threading.RLock()
        self._streams = threading.Lock()
        self._streamer: int | None = None  # thread that holds `_streams`
        self._streamed: set[str | int] = set()  # requests whose emissions are left to it

    def submit(self, request: Request) -> None:
        """Queue a request.

        Raises InputError when it is too large or when its prompt and images do not fit together, UsageError when
        its id is in use. Nothing is kept of a refused request.
        """
        with self._lock:
            self._queue(self._record(request))

    def cancel(self, request_id: str | int) -> bool:
        """End a request in whatever phase it is; the next step emits its result. False when it is not there."""
        with self._lock:
            sequence = self._live.get(request_id)
            if sequence is not None:
                self._finish(sequence, "cancelled")
            return sequence is not None

    def step(self) -> list[Emission]:
        """Admit, prefill, launch a step, and collect one: this one, or with overlap the one before. Returns what is
        new since the last call, but for requests of a `run` or `stream`, which gets that itself.

        Out of memory, the engine halves its slots, once, and the requests go on where they were. Any other exception,
        an interrupt included, ends all live requests without results; the engine stays usable.
        """
        return self._step(lambda request_id: request_id not in self._streamed)

    def run(self, requests: Iterable[Request], on_event: OnEvent | None = None) -> list[Result]:
        """All results, in the order of the requests. A request that is refused has the status `failed`.

        `on_event` gets every Emission, and an EngineTick now and then. Whatever it raises, or an interrupt, ends
        the requests of this call and leaves the engine ready for others.
        """
        requests = list(requests)
        results: dict[str | int, Result] = {}
        ticked = self._clock()
        for emission in self.stream(requests):
            if emission.result is not None:
                results[emission.id] = emission.result
            if on_event is None:
                continue
            on_event(emission)
            if self._clock() - ticked >= self.options.tick_interval_s:
                ticked = self._clock()
                on_event(self.tick())
        return [results[request.id] for request in requests]

    def stream(self, requests: Iterable[Request]) -> Iterator[Emission]:
        """Emissions of these requests as they come, until all have a result. One stream runs at a time; a second
        thread waits for its turn. Raises UsageError for doubled ids, or inside another stream of this thread.
        """
        requests = list(requests)
        ids = {request.id for request in requests}
        if len(ids) < len(requests):
            raise UsageError("two requests of one run have the same id")
        if self._streamer == threading.get_ident():
            raise UsageError("this thread is inside another run of the engine", cure="Use submit instead.")
        with self._streams:
            self._streamer = threading.get_ident()
            try:
                yield from self._stream(requests)
            finally:
                self._streamer = None
                self._abort()

    def tick(self) -> EngineTick:
        """Speeds, memory, and how many requests run and wait."""
        running, waiting = len(self._scheduler.running), len(self._scheduler.waiting)
        return self.metrics.tick(running, waiting, self.worker.plan, used_memory(self.network.device))

    def ran(self) -> str:
        """How the steps so far ran, for people, as opposed to how they were meant to: a graph may find no memory, and
        code may have to be compiled anew. The code is counted for the whole process."""
        steps, replayed = self.worker.steps, self.worker.replayed
        how = f"{steps} steps, {replayed} by graph and {steps - replayed} without"
        if not self.options.compile:
            return f"{how}, not compiled"
        from ocria.runtime.compiled import cache_counts

        hits, misses = cache_counts()
        return f"{how}, compiled: {hits} pieces of code from the cache, {misses} new"

    def _stream(self, requests: list[Request]) -> Iterator[Emission]:
        sequences, refused, mine = [], [], self._streamed
        with self._lock:
            for request in requests:
                try:
                    sequences.append(self._record(request))
                except OcriaError as error:
                    refused.append(Emission(request.id, "", _refused(request, error)))
            mine.update(sequence.id for sequence in sequences)
            # Long ones first: neighbours in a batch are alike, and it stays full until near the end.
            for sequence in sorted(sequences, key=lambda s: -s.rows):
                self._queue(sequence)
        yield from refused
        while mine:
            with self._lock:
                if mine.isdisjoint(self._live) and mine.isdisjoint(emission.id for emission in self._out):
                    raise EngineError("the requests of this run were dropped when a step of another thread failed")
            for emission in self._step(mine.__contains__):
                if emission.result is not None:
                    mine.discard(emission.id)
                yield emission

    @torch.inference_mode()
    def _step(self, wanted: Callable[[str | int], bool]) -> list[Emission]:
        """One step; returns the emissions of the requests that are wanted, and keeps the others."""
        with self._lock, self._on_device:
            try:
                if not self._round():
                    # Only here, where nothing holds the frames of the failed pass, is the old state really given up.
                    self._shrink()
            except BaseException:
                self._drop_all()
                raise
            out = [emission for emission in self._out if wanted(emission.id)]
            self._out = [emission for emission in self._out if not wanted(emission.id)]
            return out

    def _abort(self) -> None:
        """Drop what is left of the requests of a stream without a word: their caller is gone."""
        with self._lock:
            ids, self._streamed = self._streamed, set()
            for request_id in ids:
                self.cancel(request_id)
            self._out = [emission for emission in self._out if emission.id not in ids]


def _refused(request: Request, error: OcriaError) -> Result:
    return Result(request.id, "", (), "failed", "failed", None, None, 0, 0, 0.0, error=error)
