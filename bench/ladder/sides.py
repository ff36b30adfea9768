"""What runs on a rung: an engine of ocria, or transformers. All take the same requests and are clocked alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Protocol

import torch
from host_parts import HostClock, summary

from ocria.runtime.acceptance import Acceptance
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions
from ocria.runtime.request import Request
from ocria.runtime.slots import Slots
from ocria.spec.chain import Chain

HOST_REQUESTS = 8
"""The least whose steps the host is clocked around."""


@dataclass(frozen=True, slots=True)
class Answer:
    """tokens: without the one that ended it. seconds: from the first work on the request to its end."""

    tokens: tuple[int, ...]
    text: str
    finish_reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Seen:
    """A step: requests, rows of each, whether a network drafted, KV rows read at most."""

    batch: int
    rows: int
    network: bool
    kv_rows: int


@dataclass(slots=True)
class Counted:
    """Of one run: its steps, wall seconds of all of them, and what became of drafts."""

    steps: list[Seen] = field(default_factory=list)
    seconds: float = 0.0
    acceptance: Acceptance = field(default_factory=Acceptance)


class Side(Protocol):
    """One way to read. `batch`: most requests that are computed together."""

    def run(self, requests: list[Request], batch: int) -> list[Answer]:
        """Answers in the order of the requests; what a run did is in `counted` afterwards."""

    counted: Counted

    def first(self, requests: list[Request], batch: int) -> float:
        """Median seconds to the first token of the first `batch` requests, all submitted at once to an idle side."""

    def host_seconds(self, requests: list[Request], batch: int) -> float | None:
        """Median seconds of the host around a step; None where it cannot be told. Whoever is clocked by this is slower
        from then on, so that it comes last."""


class Ocria:
    """An engine for every batch up to `most`. With compiled steps one graph serves all of them.

    state: a context that runs are inside of, such as another way to keep the state. drafter: a chain of its own, in
    place of what `options` say.
    """

    def __init__(
        self,
        loaded: Any,
        options: EngineOptions,
        drafter: Chain | None = None,
        state: Callable[[], AbstractContextManager] = nullcontext,
    ):
        self.engine = Engine(loaded, options, drafter=drafter)
        self.most, self._state, self._device = options.max_batch, state, self.engine.network.device.type
        self.counted = Counted()
        self._clock: HostClock | None = None
        launch = self.engine.worker.launch

        def counting(sequences, now, kind):
            launched = launch(sequences, now, kind)
            self.counted.steps.append(Seen(len(sequences), kind.rows, kind.network, launched.kv_rows))
            return launched

        self.engine.worker.launch = counting

    def run(self, requests: list[Request], batch: int) -> list[Answer]:
        """See `Side.run`."""
        self._limit(batch, requests)
        metrics = self.engine.metrics
        self.counted, seconds, accepted = Counted(), metrics.decode_seconds, metrics.acceptance.copy()
        with self._state():
            results = self.engine.run(requests)
        synchronise(self._device)
        self.counted.seconds = metrics.decode_seconds - seconds
        self.counted.acceptance = metrics.acceptance.since(accepted)
        return [Answer(r.tokens, r.text, r.finish_reason, r.seconds) for r in results]

    def first(self, requests: list[Request], batch: int) -> float:
        """See `Side.first`."""
        chosen, first = requests[:batch], {}
        self._limit(batch, requests)
        options = self.engine.options
        self.engine.options = _at_once(options)
        began = time.perf_counter()
        stream = self.engine.stream(chosen)
        try:
            with self._state():
                for emission in stream:
                    if emission.text or emission.result is not None:
                        first.setdefault(emission.id, time.perf_counter() - began)
                    if len(first) == len(chosen):
                        break
        finally:
            stream.close()
            self.engine.options = options
        return median(first.values())

    def host_seconds(self, requests: list[Request], batch: int) -> float | None:
        """See `Side.host_seconds`: of steps in which no prompt was computed."""
        self._limit(batch, requests)
        engine = self.engine
        self._clock = self._clock or HostClock(engine)
        for request in requests[: max(HOST_REQUESTS, 2 * batch)]:
            engine.submit(request)
        steps = []
        with self._state():
            while not engine.idle:
                launched, prefilled = engine.worker.steps, engine.metrics.prefill_seconds
                self._clock.step()
                if engine.worker.steps > launched and engine.metrics.prefill_seconds == prefilled:
                    steps.append(self._clock.steps[-1])
        return summary(steps, self._device)["host"] if steps else None

    def _limit(self, batch: int, requests: list[Request]) -> None:
        """Let at most `batch` requests in. State for the largest of them all is allocated first: a compiled step is
        one of the state that it was compiled for."""
        engine = self.engine
        assert engine.idle
        assert batch <= self.most
        if not engine.worker.plan.slots:
            self._reserve(requests)
        # As an engine of this size would be.
        engine._slots = Slots(batch)
        engine._scheduler.group = max(1, batch // 4)

    def _reserve(self, requests: list[Request]) -> None:
        """Allocate what the largest of these needs, once and for all."""
        engine = self.engine
        for request in requests:
            engine.submit(request)
        with self._state():
            engine.step()
            for request in requests:
                engine.cancel(request.id)
            while not engine.idle:
                engine.step()


class Peer:
    """transformers' `generate`, widest lines first."""

    def __init__(self, model: Any, decode: Callable[[tuple[int, ...]], str], device: str):
        """model: `generate.Transformers`."""
        self._model, self._decode, self._device = model, decode, device
        self.counted = Counted()

    def run(self, requests: list[Request], batch: int) -> list[Answer]:
        """See `Side.run`."""
        self.counted, found = Counted(), {}
        order = sorted(requests, key=lambda request: -request.images[0].shape[1])
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            began = time.perf_counter()
            outputs = self._model.generate([request.images[0] for request in chosen], batch)
            seconds = time.perf_counter() - began
            for request, ids in zip(chosen, outputs, strict=True):
                reason = "stop" if len(ids) < self._model.max_tokens else "length"
                found[request.id] = Answer(tuple(ids), self._decode(ids), reason, seconds)
            for step in self._model.decoding:
                self.counted.steps.append(Seen(step.batch, 1, False, step.batch * step.length))
                self.counted.seconds += step.seconds
        return [found[request.id] for request in requests]

    def first(self, requests: list[Request], batch: int) -> float:
        """See `Side.first`: a generation of one token."""
        began = time.perf_counter()
        self._model.generate([request.images[0] for request in requests[:batch]], batch, max_tokens=1)
        synchronise(self._device)
        return time.perf_counter() - began

    def host_seconds(self, requests: list[Request], batch: int) -> float | None:
        """See `Side.host_seconds`: what is between two passes of the model. On CUDA passes are only launched, so that
        this is not what the host takes."""
        if self._device == "cuda":
            return None
        self._model.generate([request.images[0] for request in requests[:batch]], batch)
        return median(step.seconds - step.inside for step in self._model.decoding)


def synchronise(device: str) -> None:
    """Wait for what is enqueued."""
    if device == "cuda":
        torch.cuda.synchronize()


def _at_once(options: Any) -> Any:
    """Options of an engine that sends text after every step."""
    return replace(options, stream_interval_s=0.0)
