"""The engine: continuous batching of requests over slots, one step at a time.

    engine = Engine(load_model("ocria-nano"))
    results = engine.run(requests)

The loop is submit -> step (admit, prefill, decode, guard) -> result. `run` and `stream` drive it to the end;
`submit`, `step` and `cancel` are there for callers with a loop of their own. Calls from several threads are
serialised.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import torch

from ocria.errors import EngineError, OcriaError, UsageError
from ocria.events import EngineTick
from ocria.model.config import ModelConfig
from ocria.model.image import ImageConfig
from ocria.model.network import Qwen35
from ocria.model.profiles import Profile
from ocria.model.state import DecoderState
from ocria.model.tokens import Tokenizer
from ocria.runtime.budget import MemoryPlan, PageBudget
from ocria.runtime.buffers import SlotBuffers
from ocria.runtime.guard import verdict
from ocria.runtime.intake import Intake
from ocria.runtime.metrics import Metrics
from ocria.runtime.options import EngineOptions
from ocria.runtime.prefill import embed_prompts, prefill_pass
from ocria.runtime.request import Emission, Request, Result
from ocria.runtime.rows import StepRows
from ocria.runtime.scheduler import Scheduler, StepPlan
from ocria.runtime.sequence import DECODE, PREFILL, WAITING, Sequence
from ocria.runtime.slots import Slots
from ocria.runtime.step import StepInput, StepOutput, decode_step

OnEvent = Callable[[Emission | EngineTick], None]


class Loaded(Protocol):
    """What the engine needs of a loaded checkpoint."""

    network: Qwen35
    tokenizer: Tokenizer
    config: ModelConfig
    profile: Profile
    image: ImageConfig | None


class Engine:
    """Runs requests on one loaded checkpoint. Its state is allocated once and serves many pages."""

    def __init__(
        self, loaded: Loaded, options: EngineOptions | None = None, clock: Callable[[], float] = time.monotonic
    ):
        self.options = options or EngineOptions()
        self.network, self.config, self.image = loaded.network, loaded.config, loaded.image
        self.dtype, self.device = self.network.dtype, self.network.device
        self.network.prepare()
        self.metrics = Metrics()
        self.budget = PageBudget(self.config, self.image, loaded.profile, self.options, self.dtype, self.device)
        self._intake = Intake(loaded.tokenizer, self.config, self.image, self.budget, loaded.profile.stop)
        self._scheduler = Scheduler(self.options.prefill_rows, self.options.group)
        self._live: dict[str | int, Sequence] = {}
        self._out: list[Emission] = []
        self._clock = clock
        self._lock = threading.RLock()
        self._streams = threading.Lock()
        self._streamer: int | None = None  # thread that holds `_streams`
        self._allocate(None)

    # Requests in, results out

    def submit(self, request: Request) -> None:
        """Queue a request.

        Raises InputError when it is too large or when its prompt and images do not fit together, UsageError when
        its id is in use. Nothing is kept of a refused request.
        """
        with self._lock:
            self._scheduler.add(self._record(request))

    def cancel(self, request_id: str | int) -> bool:
        """End a request in whatever phase it is; the next step emits its result. False when it is not there."""
        with self._lock:
            sequence = self._live.get(request_id)
            if sequence is not None:
                self._finish(sequence, "cancelled")
            return sequence is not None

    @torch.inference_mode()
    def step(self) -> list[Emission]:
        """Admit, prefill and decode once. Returns what is new since the last step.

        An exception, an interrupt included, ends all live requests without results; the engine stays usable.
        """
        with self._lock:
            try:
                self._end_overdue()
                self._fit_state()
                plan = self._scheduler.plan(self._slots, self._plan.max_len)
                self._prefill(plan)
                self._decode(plan)
            except BaseException:
                self._drop_all()
                raise
            out, self._out = self._out, []
            return out

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
                self._abort(ids)

    def tick(self) -> EngineTick:
        """Speeds since the engine was made, and how many requests run and wait."""
        m = self.metrics
        running, waiting = len(self._scheduler.running), len(self._scheduler.waiting)
        return EngineTick(m.decode_tokens_per_s, m.prefill_tokens_per_s, running, waiting)

    @property
    def idle(self) -> bool:
        """No request is live and no emission is left to fetch."""
        return not self._live and not self._out

    def check_integrity(self) -> None:
        """Raise EngineError unless slots and records agree, and all slots are free when nothing is live."""
        self._slots.check_integrity(idle=not self._live)
        running = self._scheduler.running
        if len(running) + len(self._scheduler.waiting) != len(self._live) or len(running) != self._slots.live:
            raise EngineError(
                f"{len(self._live)} live requests, {len(running)} running, {len(self._scheduler.waiting)} waiting, "
                f"{self._slots.live} slots taken"
            )

    # Inside a step

    def _stream(self, requests: list[Request]) -> Iterator[Emission]:
        sequences, others = [], []
        for request in requests:
            try:
                sequences.append(self._record(request))
            except OcriaError as error:
                yield Emission(request.id, "", _refused(request, error))
        with self._lock:
            # Long ones first: neighbours in a batch are alike, and it stays full until near the end.
            for sequence in sorted(sequences, key=lambda s: -s.rows):
                self._scheduler.add(sequence)
        mine = {sequence.id for sequence in sequences}
        try:
            while mine:
                for emission in self.step():
                    if emission.id not in mine:  # submitted by hand beside this run
                        others.append(emission)
                        continue
                    if emission.result is not None:
                        mine.discard(emission.id)
                    yield emission
        finally:
            self._out = others + self._out

    def _end_overdue(self) -> None:
        now = self._clock()
        for sequence in list(self._live.values()):
            if sequence.bounds.deadline is not None and now >= sequence.bounds.deadline:
                self._finish(sequence, "timeout")

    def _record(self, request: Request) -> Sequence:
        with self._lock:
            if request.id in self._live:
                raise UsageError(f"a request with the id {request.id!r} is already there")
            sequence = self._intake.sequence(request, self._clock())
            self._live[request.id] = sequence
            return sequence

    def _prefill(self, plan: StepPlan) -> None:
        began = self._clock()
        if plan.admitted:
            for sequence in plan.admitted:
                sequence.started = began
                self._state.reset(sequence.slot)
            embed_prompts(self.network, self.image, plan.admitted, self.options.encoder_patches)
            for sequence in plan.admitted:
                if sequence.error is not None:
                    self._finish(sequence, "refused")
            self.metrics.encoder_seconds += self._clock() - began
        chunks = [chunk for chunk in plan.prefill if chunk.sequence.phase == PREFILL]
        if not chunks:
            return
        output = prefill_pass(self.network, self._state, self._buffers, chunks)
        ended = []
        for row, chunk in enumerate(chunks):
            sequence = chunk.sequence
            sequence.filled += chunk.count
            if sequence.filled == sequence.prompt_len:
                sequence.phase, sequence.hidden, sequence.positions = DECODE, None, None
                ended.append((row, sequence))
        self._commit(output, ended)
        self.metrics.prefill_tokens += sum(chunk.count for chunk in chunks)
        self.metrics.prefill_seconds += self._clock() - began

    def _decode(self, plan: StepPlan) -> None:
        if not plan.decode:
            return
        began = self._clock()
        owned = tuple(sorted(sequence.slot for sequence in plan.decode))
        if (owned, self._slots.changes) != (self._rows.owned, self._rows.changes):  # the same in most steps
            self._rows = StepRows.choose(owned, self._slots, self.device)
        rows = self._rows
        step = StepInput(rows.slots, rows.count, max(sequence.kv_len for sequence in plan.decode), rows.run)
        output = decode_step(self.network, self._state, self._buffers, step)
        self._commit(output, [(rows.row_of[sequence.slot], sequence) for sequence in plan.decode])
        self.metrics.decode_steps += 1
        self.metrics.decode_tokens += len(plan.decode)
        self.metrics.decode_seconds += self._clock() - began

    def _commit(self, output: StepOutput, rows: Iterable[tuple[int, Sequence]]) -> None:
        """Take the chosen tokens to the host, end what must end, send text."""
        tokens, probabilities = output.token.tolist(), output.probability.tolist()
        now = self._clock()
        for row, sequence in rows:
            if math.isnan(probabilities[row]):
                self._finish(sequence, "non-finite")
                continue
            sequence.probabilities.append(probabilities[row])
            if tokens[row] in sequence.bounds.stop_ids:
                self._finish(sequence, "stop")
                continue
            sequence.tokens.append(tokens[row])
            due = now - sequence.sent_at >= self.options.stream_interval_s
            if due or sequence.text.has_stops:
                sequence.decode_text()
            if sequence.text.stopped:
                self._finish(sequence, "stop")
                continue
            reason = verdict(sequence.tokens, sequence.bounds, now)
            if reason is not None:
                self._finish(sequence, reason)
            elif due:
                sequence.sent_at = now
                text = sequence.text.take()
                if text:
                    self._out.append(Emission(sequence.id, text))

    def _finish(self, sequence: Sequence, reason: str) -> None:
        """The one place where a request ends: slot, records, result."""
        sequence.decode_text()
        sequence.text.finish()
        text = sequence.text.take()
        slot, phase = sequence.slot, sequence.phase
        self._scheduler.remove(sequence)
        if phase != WAITING:
            self._slots.release(slot, sequence.id)
        del self._live[sequence.id]
        sequence.hidden = sequence.positions = None
        self.metrics.finished += 1
        self._out.append(Emission(sequence.id, text, sequence.result(reason, self._clock())))

    # State

    def _fit_state(self) -> None:
        """Before anything runs: state for the largest request that waits, in as many slots as fit."""
        if self._scheduler.running or not self._scheduler.waiting:
            return
        plan = self.budget.plan(max(sequence.rows for sequence in self._scheduler.waiting))
        if plan.max_len > self._plan.max_len or plan.slots > self._plan.slots:
            self._allocate(plan)

    def _allocate(self, plan: MemoryPlan | None) -> None:
        self._state = self._buffers = None  # the old one goes first
        self._plan = plan or MemoryPlan(0, 0, 0)
        self._slots = Slots(self._plan.slots)
        self._rows = StepRows.choose((), self._slots, self.device)
        if plan is not None:
            rows = plan.slots + 1
            text = self.config.text
            self._state = DecoderState.allocate(text, rows, plan.max_len, self.dtype, self.device)
            self._buffers = SlotBuffers.allocate(text, rows, plan.max_len, self.device)

    def _abort(self, ids: Iterable[str | int]) -> None:
        """Drop requests without a word: their caller is gone."""
        with self._lock:
            for request_id in ids:
                self.cancel(request_id)
            self._out = [emission for emission in self._out if emission.id not in ids]

    def _drop_all(self) -> None:
        """After a failure in the middle of a step: no request is in a known state, so none is kept."""
        self._scheduler = Scheduler(self.options.prefill_rows, self.options.group)
        self._slots = Slots(self._plan.slots)
        self._rows = StepRows.choose((), self._slots, self.device)
        self._live.clear()
        self._out.clear()


def _refused(request: Request, error: OcriaError) -> Result:
    return Result(request.id, "", (), "failed", "refused", None, None, 0, 0, 0.0, error=error)
