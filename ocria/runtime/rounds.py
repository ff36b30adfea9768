"""The rounds of the engine: what happens to all live requests between two calls.

A round admits requests, computes a chunk of their prompts, launches a step, and collects one. `Engine` gives it
requests and takes what it emits; nothing here knows of callers or threads.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Protocol

import torch

from ocria.errors import EngineError, UsageError
from ocria.events import PrefillDone, RequestSubmitted
from ocria.model.config import ModelConfig
from ocria.model.hub import Source
from ocria.model.image import ImageConfig
from ocria.model.network import Qwen35
from ocria.model.profiles import Profile
from ocria.model.quantized import WeightBytes
from ocria.model.tokens import Tokenizer
from ocria.ops.accept import FAILED
from ocria.runtime.acceptance import Acceptance
from ocria.runtime.block_length import LADDER, BlockLength, FixedLength, step_kinds
from ocria.runtime.budget import PageBudget
from ocria.runtime.drafting import choose_drafts, open_drafts
from ocria.runtime.guard import verdict
from ocria.runtime.intake import Intake
from ocria.runtime.memory import MemoryPlan, is_out_of_memory, resident_bytes, shrink
from ocria.runtime.metrics import Metrics
from ocria.runtime.options import EngineOptions, ResolvedOptions, quantises, resolve
from ocria.runtime.readback import HostOutput
from ocria.runtime.request import Emission, Request
from ocria.runtime.scheduler import Scheduler, StepPlan
from ocria.runtime.sequence import DECODE, PREFILL, WAITING, Sequence
from ocria.runtime.slots import Slots
from ocria.runtime.step_costs import FLAT_ROWS, StepKind
from ocria.runtime.traffic import traffic_of
from ocria.runtime.worker import Launched, Worker
from ocria.spec.chain import NONE, Chain


class Loaded(Protocol):
    """What the engine needs of a loaded checkpoint."""

    network: Qwen35
    tokenizer: Tokenizer
    config: ModelConfig
    profile: Profile
    image: ImageConfig | None
    source: Source
    """Where it is from; asked for drafts of the checkpoint's own alone."""


class Rounds:
    """All live requests of one loaded checkpoint. State is allocated once and serves many pages."""

    def __init__(
        self,
        loaded: Loaded,
        options: EngineOptions | None = None,
        clock: Callable[[], float] = time.monotonic,
        drafter: Chain | None = None,
    ):
        self.network, self.config, self.image = loaded.network, loaded.config, loaded.image
        device = self.network.device
        # Streams, graphs and kernels are those of the device that is current, not of their tensors.
        self._on_device = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
        options = options or EngineOptions()
        drafter = drafter or _drafter_of(loaded, options)
        rows, self._names = (1, ()) if drafter is None else (drafter.rows, drafter.names)
        networks = [self.network, *(drafter.networks if drafter else ())]
        inputs = any(network.quantises_inputs for network in networks)
        self.options = resolve(options, device, rows, "+".join(self._names) or "none", inputs)
        self.network.prepare(inputs=quantises(options, device))
        stored = self.network.weights
        self.metrics = Metrics(traffic_of(self.config, self.options, self.network.dtype, device, stored), clock)
        self.budget = PageBudget(
            self.config, self.image, loaded.profile, self.options, self.network.dtype, self.network.device,
            resident_bytes(sum((n.weights for n in networks), WeightBytes()), device, self.options.compile),
            draft_bytes=drafter.bytes_per_slot if drafter else lambda max_len: 0,
        )  # fmt: skip
        self._lengths = _lengths_of(drafter, self.options, device)
        self.worker = Worker(self.network, self.image, self.options, drafter)
        self._intake = Intake(loaded.tokenizer, self.config, self.image, self.budget, loaded.profile.stop)
        self._scheduler = Scheduler(self.options.prefill_rows, self.options.group)
        self._slots = Slots(0)
        self._live: dict[str | int, Sequence] = {}
        self._out: list[Emission] = []
        self._plan = MemoryPlan.none()  # what was allocated last, or was to be
        self._launched: Launched | None = None  # a step whose output is not read yet
        self._retired: list[int] = []  # slots that were taken away and that the device does not know of yet
        self._shrunk = False
        self._collected = 0.0
        self._clock = clock

    def _round(self) -> bool:
        """Admit, advance, collect. False when memory ran out where half of the slots may do."""
        try:
            self._end_overdue()
            self._fit_state()
            self._advance(self._scheduler.plan(self._slots, self.worker.plan.max_len))
        except BaseException as error:
            if not is_out_of_memory(error) or self._shrunk or self._plan.slots < 2:
                raise
            return False
        return True

    def _queue(self, sequence: Sequence) -> None:
        self._live[sequence.id] = sequence
        self._scheduler.add(sequence)
        self._out.append(Emission(sequence.id, "", events=(RequestSubmitted(sequence.id, sequence.prompt_len),)))

    def _record(self, request: Request) -> Sequence:
        if request.id in self._live:
            raise UsageError(f"a request with the id {request.id!r} is already there")
        return self._intake.sequence(request, self._clock())

    def _finish(self, sequence: Sequence, reason: str) -> None:
        """The one place where a request ends: slot, records, result."""
        sequence.decode_text()
        sequence.text.finish()
        text = sequence.text.take()
        slot, phase = sequence.slot, sequence.phase
        self._scheduler.remove(sequence)
        if phase != WAITING:
            self._slots.release(slot, sequence.id)
            self._retired.append(slot)
        del self._live[sequence.id]
        sequence.hidden = sequence.positions = None
        self.metrics.finished += 1
        self._out.append(Emission(sequence.id, text, sequence.result(reason, self._clock()), sequence.news()))

    def _drop_all(self) -> None:
        """After a failure in the middle of a step: no request is in a known state, so none is kept."""
        self._scheduler = Scheduler(self.options.prefill_rows, self.options.group)
        self._launched = None
        self._slots, self._retired = Slots(self.worker.plan.slots), list(range(1, self.worker.plan.slots + 1))
        self._live.clear()
        self._out.clear()

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

    def _end_overdue(self) -> None:
        now = self._clock()
        for sequence in list(self._live.values()):
            if sequence.bounds.deadline is not None and now >= sequence.bounds.deadline:
                self._finish(sequence, "timeout")

    def _advance(self, plan: StepPlan) -> None:
        """One round: prompts into the state, one step launched, one collected."""
        if self._retired:
            self.worker.retire(self._retired)
            self._retired = []
        entered = self._prefill(plan)
        # Who ends with the steps that are on their way needs no other.
        decode = [s for s in (*plan.decode, *entered) if s.phase == DECODE and s.pending < s.left]
        before, self._launched = self._launched, None
        launched = None
        if decode:
            kind = self._lengths.choose(len(decode), max(s.left for s in decode))
            launched = self.worker.launch(decode, self._clock(), kind)
        if before is not None:
            self._collect(before)
        if self.options.overlap:
            self._launched = launched
        elif launched is not None:
            self._collect(launched)

    def _prefill(self, plan: StepPlan) -> list[Sequence]:
        """Admit requests and compute one chunk of each prompt in the plan. Returns those that are ready for steps."""
        began = self._clock()
        if plan.admitted:
            for sequence in plan.admitted:
                sequence.started = sequence.started or began
            self.worker.admit(plan.admitted)
            for sequence in plan.admitted:
                if sequence.error is not None:
                    self._finish(sequence, "failed")
        encoded = self._clock()
        chunks = [chunk for chunk in plan.prefill if chunk.sequence.phase == PREFILL]
        if chunks:
            self.worker.prefill(chunks)
        for chunk in chunks:
            chunk.sequence.filled += chunk.count
        running = self._scheduler.running.values()
        entered = [s for s in running if s.phase == PREFILL and s.filled == s.prefill_len]
        if entered:
            self.worker.enter(entered)
            now = self._clock()
            for sequence in entered:
                sequence.phase, sequence.hidden, sequence.positions = DECODE, None, None
                done = PrefillDone(sequence.id, sequence.prompt_len, now - sequence.started)
                self._out.append(Emission(sequence.id, "", events=(done,)))
        if plan.admitted or chunks:
            rows = sum(chunk.count for chunk in chunks)
            self.metrics.prefill(rows=rows, seconds=self._clock() - began, encoder_seconds=encoded - began)
        return entered

    def _collect(self, launched: Launched) -> None:
        """Take the tokens of a step to the host, end what must end, send text."""
        output = launched.output.read()
        now = self._clock()
        step, emitted = Acceptance(), 0
        live = [(row, sequence) for row, sequence in launched.rows if sequence.phase == DECODE]
        for row, sequence in live:  # the others ended while the step was on its way
            sequence.pending -= 1
            source = output.source[row]
            verified = (self._names[source] if source != NONE else None, output.drafted[row], output.accepted[row])
            for counted in (step, sequence.acceptance):
                counted.add(*verified)
            emitted += output.emitted[row]
            sequence.emitted += output.emitted[row]
            self._take(sequence, output, row, now)
            sequence.alarm.watch(*verified[1:], sequence.tokens, sequence.bounds.loop_tokens)
        seconds = now - max(launched.at, self._collected)
        self._collected = now
        accepted = [output.accepted[row] for row, _ in live]
        self._lengths.observe(launched.kind, len(launched.rows), seconds, accepted)
        self.metrics.step(emitted=emitted, acceptance=step, seconds=seconds, kv_rows=launched.kv_rows)

    def _take(self, sequence: Sequence, output: HostOutput, row: int, now: float) -> None:
        """The tokens of one row, one by one: whatever ends the answer ends it at the same token with any drafts."""
        count = output.emitted[row]
        for token, probability in zip(output.tokens[row][:count], output.probability[row][:count], strict=True):
            sequence.probabilities.append(probability)
            if token in sequence.bounds.stop_ids:
                return self._finish(sequence, "stop")
            sequence.tokens.append(token)
            if sequence.text.has_stops:
                sequence.decode_text()
                if sequence.text.stopped:
                    return self._finish(sequence, "stop")
            reason = verdict(sequence.tokens, sequence.bounds, now)
            if reason is not None:
                return self._finish(sequence, reason)
        if output.reason[row] == FAILED:
            return self._finish(sequence, "failed")
        if now - sequence.sent_at >= self.options.stream_interval_s:
            sequence.sent_at = now
            sequence.decode_text()
            text = sequence.text.take()
            if text:
                self._out.append(Emission(sequence.id, text, events=sequence.news()))
        return None

    def _fit_state(self) -> None:
        """Before anything runs: state for the largest request that waits, in as many slots as fit."""
        if self._scheduler.running or not self._scheduler.waiting:
            return
        plan = self.budget.plan(max(sequence.rows for sequence in self._scheduler.waiting))
        have = self.worker.plan
        if plan.max_len > have.max_len or (plan.slots > have.slots and not self._shrunk):
            self._allocate(shrink(plan) if self._shrunk and plan.slots > 1 else plan)

    def _shrink(self) -> None:
        """Half the slots; what ran waits again, with the tokens it has."""
        self._shrunk = True
        self._launched = None
        for sequence in reversed(list(self._scheduler.running.values())):
            self._scheduler.put_back(sequence)
        self._allocate(shrink(self._plan))

    def _allocate(self, plan: MemoryPlan) -> None:
        self._plan, self._slots, self._retired = plan, Slots(plan.slots), []
        self.worker.allocate(plan)


def _drafter_of(loaded: Loaded, options: EngineOptions) -> Chain | None:
    if options.draft == "none":
        return None
    folder, unit = loaded.source.folder, loaded.profile.require("unit")
    choice = choose_drafts(options.draft, folder, unit, options.draft_rows)
    return open_drafts(choice, loaded.network, quantises(options, loaded.network.device))


def _lengths_of(drafter: Chain | None, options: ResolvedOptions, device: torch.device) -> BlockLength | FixedLength:
    """Compiling a kind of step takes long, so that there are but two of them then."""
    if drafter is None:
        return FixedLength(StepKind(1))
    if options.draft_rows is not None:
        return FixedLength(StepKind(options.rows, drafter.has_network))
    ladder = () if options.compile else LADDER
    kinds = step_kinds(options.rows, text=drafter.has_text, network=drafter.has_network, ladder=ladder)
    flat_rows = FLAT_ROWS[device.type]
    return BlockLength(kinds, prior=drafter.prior, network_prior=drafter.prior, flat_rows=flat_rows)
