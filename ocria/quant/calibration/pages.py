"""What to calibrate on: the prompts that reading pages really makes, and what the model answers to them."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ocria.document.api import parse
from ocria.document.options import ParseOptions
from ocria.document.reader import Reader
from ocria.document.source import open_source
from ocria.errors import EncryptedError, InputError
from ocria.runtime.engine import Engine
from ocria.runtime.request import Emission, Request, Result

_MARGIN = 4
"""Lines are read until there are so many times as many as are wanted, so that those come from several pages."""


class Sample(NamedTuple):
    """What a model was asked, and its own greedy answer."""

    request: Request
    result: Result


def load_samples(
    model: str | Path,
    pages: Sequence[str | Path],
    *,
    limit: int | None = None,
    seed: int = 0,
    device: str | None = None,
    dtype: str | None = None,
    facts: Mapping[str, Any] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Sample]:
    """Read pages as `ocria parse --mode model` does, and keep requests with their results.

    pages: files of any kind that can be parsed, every page of each. limit: most samples, drawn at random, from pages in
    a random order; None keeps all. Answers that were cut short or failed are left out. device, dtype: as in
    `ParseOptions`; facts: of its names those of a checkpoint whose profile does not state them. on_progress: called
    with the pages that are read and how many there are.
    Raises what loading a model and opening a file raise, and InputError when nothing could be read.
    """
    placed = {"device": device, "dtype": dtype, **(facts or {})}
    options = ParseOptions(model=str(model), mode="model", draft="none", jobs=0, **placed)
    reader = _RecordingReader(options)
    order = [(path, number) for path in pages for number in range(1, _page_count(path) + 1)]
    generator = random.Random(seed)
    generator.shuffle(order)
    enough = float("inf") if limit is None else limit * (_MARGIN if reader.unit == "line" else 1)
    for done, (path, number) in enumerate(order):
        if len(reader.samples) >= enough:
            break
        if on_progress is not None:
            on_progress(done, len(order))
        parse(path, reader=reader, pages=[number], mode="model", jobs=0)
    if on_progress is not None:
        on_progress(len(order), len(order))
    samples = reader.samples
    if limit is not None and len(samples) > limit:
        samples = [samples[index] for index in sorted(generator.sample(range(len(samples)), limit))]
    if not samples:
        raise InputError(f"{len(order)} pages, and nothing was read on any", cure="Give pages with text.")
    return samples


class _RecordingReader(Reader):
    """The production reader, which keeps what its engine was asked and what it answered."""

    def __init__(self, options: ParseOptions):
        super().__init__(options)
        self.samples: list[Sample] = []
        self._engine = _RecordingEngine(self._engine, self.samples)


class _RecordingEngine:
    """An engine that hands everything on."""

    def __init__(self, engine: Engine, samples: list[Sample]):
        self._engine, self._samples = engine, samples

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def stream(self, requests: Sequence[Request]) -> Iterator[Emission]:
        results = {}
        for emission in self._engine.stream(requests):
            if emission.result is not None and emission.result.status == "ok":
                results[emission.id] = emission.result
            yield emission
        for request in requests:
            if request.id in results:
                number = len(self._samples)  # theirs begin anew with every page
                self._samples.append(Sample(replace(request, id=number), replace(results[request.id], id=number)))


def _page_count(path: str | Path) -> int:
    try:
        source = open_source(path)
    except EncryptedError as error:  # no password is taken here
        raise type(error)(error.message, path=error.path, cure="Save it without encryption first.") from error
    try:
        return source.page_count
    finally:
        source.close()
