"""Reading whole pages as `ocria parse` does, while watching the engine, and reading the same requests in other ways."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ocria.benchmark.pages import PageRef
from ocria.document.api import stream
from ocria.document.options import ParseOptions
from ocria.document.reader import Reader
from ocria.events import LinesFound, PageStarted, RequestSubmitted, TokensAccepted
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions
from ocria.runtime.request import Emission, Request, Result
from ocria.runtime.rounds import Loaded
from ocria.runtime.teacher import Teacher

TIE = {torch.float32: 1e-4, torch.bfloat16: 0.25}
"""Logits nearer than this may come out in either order: what rounding does to logits of some tens, of which bfloat16
has 8 bits."""


@dataclass(frozen=True, slots=True)
class PageRead:
    """One page from file to text. `parts`: see `PageTimes`; `cut`: it was not read to its end."""

    seconds: float
    first_token_s: float | None
    parts: dict[str, float]
    tokens_in: int
    tokens_out: int
    requests: tuple[Request, ...]
    steps: int
    rows: int
    """That steps verified."""
    cut: bool


class WatchedReader(Reader):
    """The reader of `ocria parse`, which keeps what its engine is asked and how long that takes."""

    def __init__(self, options: ParseOptions):
        super().__init__(options)
        self.engine = self._engine
        self.asked: list[Request] = []
        """Of the last batch."""
        self.engine_s = 0.0
        self._engine = _Watched(self)  # type: ignore[assignment]

    def read_page(self, page: PageRef, options: ParseOptions) -> PageRead:
        """A page, in this process. Raises what `ocria.parse` raises."""
        before, began = self._counts(), time.perf_counter()
        opened = found = first = None
        spent = 0.0
        document: Any = None
        chosen = {"dpi": options.dpi, "timeout": options.timeout}
        for event in stream(page.path, reader=self, pages=[page.number], mode="model", jobs=0, **chosen):
            now = time.perf_counter() - began
            if isinstance(event, PageStarted) and opened is None:
                opened = now
            elif isinstance(event, (LinesFound, RequestSubmitted)) and found is None:
                found, spent = now, self.engine_s - before["engine"]
            elif isinstance(event, TokensAccepted) and first is None:
                first = now
            document = getattr(event, "document", document)
        whole = time.perf_counter() - began
        passed = {name: value - before[name] for name, value in self._counts().items()}
        read = document.pages[0]
        opened = opened or 0.0
        lines = max(0.0, (whole if found is None else found) - opened - spent)
        host = max(0.0, passed["engine"] - passed["prefill"] - passed["steps_s"])
        parts = {
            "open": opened, "lines": lines, "encoder": passed["encoder"],
            "prefill": passed["prefill"] - passed["encoder"], "steps": passed["steps_s"], "host": host,
        }  # fmt: skip
        parts["rest"] = max(0.0, whole - sum(parts.values()))
        return PageRead(
            whole, first, parts, read.tokens_in, read.tokens_out, tuple(self.asked), int(passed["steps"]),
            int(passed["rows"]), read.status == "timeout",
        )  # fmt: skip

    def _counts(self) -> dict[str, float]:
        metrics = self.engine.metrics
        return {
            "engine": self.engine_s, "encoder": metrics.encoder_seconds, "prefill": metrics.prefill_seconds,
            "steps_s": metrics.decode_seconds, "steps": metrics.decode_steps,
            "rows": metrics.acceptance.steps + metrics.acceptance.drafted,
        }  # fmt: skip


class _Watched:
    """An engine that hands everything on."""

    def __init__(self, reader: WatchedReader):
        self._reader, self._inner = reader, reader.engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def stream(self, requests: Sequence[Request]) -> Iterator[Emission]:
        self._reader.asked = list(requests)
        emissions = self._inner.stream(requests)
        while True:
            began = time.perf_counter()
            try:
                emission = next(emissions)
            except StopIteration:
                return
            finally:
                self._reader.engine_s += time.perf_counter() - began
            yield emission


@dataclass(frozen=True, slots=True)
class Run:
    """All requests once, by one engine."""

    seconds: float
    first_token_s: float | None
    results: tuple[Result, ...]
    accept_length: float | None

    @property
    def tokens(self) -> int:
        return sum(result.tokens_out for result in self.results)


class Side:
    """One way to run the engine. Raises what making an Engine raises."""

    def __init__(self, loaded: Loaded, options: EngineOptions, threads: int):
        self._engine, self._threads = Engine(loaded, options), threads

    def run(self, requests: Sequence[Request]) -> Run:
        torch.set_num_threads(self._threads)
        before, first = self._engine.metrics.acceptance.copy(), None
        results: dict[str | int, Result] = {}
        began = time.perf_counter()
        for emission in self._engine.stream(requests):
            if first is None and any(isinstance(event, TokensAccepted) for event in emission.events):
                first = time.perf_counter() - began
            if emission.result is not None:
                results[emission.id] = emission.result
        seconds = time.perf_counter() - began
        passed = self._engine.metrics.acceptance.since(before)
        return Run(seconds, first, tuple(results[request.id] for request in requests), passed.accept_length)


def numbered(requests: Sequence[Request], count: int) -> list[Request]:
    """So many requests, from the start again where there are fewer."""
    return [replace(requests[number % len(requests)], id=number) for number in range(count)]


def differing(teacher: Teacher, requests: Sequence[Request], expected: Run, found: Run, tie: float) -> int:
    """Answers that differ, but for those whose first other token was as likely."""
    different = 0
    for request, a, b in zip(requests, expected.results, found.results, strict=True):
        if a.tokens == b.tokens and a.finish_reason == b.finish_reason:
            continue
        pairs = enumerate(zip(a.tokens, b.tokens, strict=False))
        first = next((i for i, (x, y) in pairs if x != y), min(len(a.tokens), len(b.tokens)))
        regrets = teacher.regrets(request, b)
        different += not (first < len(regrets) and float(regrets[first]) < tie)
    return different
