"""Climbing: every rung is built and checked, then all of them take turns."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from gate import gate

from ocria.runtime.acceptance import Acceptance
from ocria.runtime.request import Request

from .limits import Machine, StepCosts, measure_machine
from .rungs import BY_KEY, REFERENCE, Rung, same_as_below, unavailable
from .sides import Answer, Counted, Side
from .subject import Subject
from .work import Work, with_given_drafts

LEFT_OUT = ("degenerate", "length")
"""Ends that our guards bring about, and after which `generate` would run on."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Of the repeats."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(median(values), min(values), max(values))


@dataclass(slots=True)
class Measured:
    """One rung at one batch size. What is None was not measured, or does not apply.

    same: requests whose tokens are those of the reference; ties: others where the tokens that differ first are equally
    likely but for rounding; different: the rest, the gate is red unless it is 0. as_unquantised: of a quantised rung,
    requests with the tokens of the plain weights: its own gate is plain decoding of its own weights.
    times: as fast as transformers at this batch, within a repeat. percent: of the least time that its steps could take
    on this machine, in the time they took; bound: by what that is.
    """

    rung: str
    batch: int
    requests: int
    same: int
    ties: int
    different: int
    tokens: int
    as_unquantised: int | None = None
    cer: float | None = None
    seconds: list[float] = field(default_factory=list)
    tokens_per_s: Spread | None = None
    request_tokens_per_s: float | None = None
    pages_per_min: float | None = None
    times: Spread | None = None
    first_s: Spread | None = None
    accept_length: float | None = None
    steps: int | None = None
    bytes_per_step: float | None = None
    percent: float | None = None
    bound: str | None = None
    host_s: float | None = None

    @property
    def red(self) -> bool:
        """Whether the gate is."""
        return self.different > 0


@dataclass
class _Entry:
    """A side at one batch size, and what its runs were like."""

    rung: Rung
    batch: int
    side: Side
    requests: list[Request]
    measured: Measured
    costs: StepCosts | None
    warm: float
    firsts: list[float] = field(default_factory=list)
    answers: list[list[Answer]] = field(default_factory=list)
    counted: list[Counted] = field(default_factory=list)


@dataclass
class Climb:
    """What a run found. skipped: rungs that are not there, and why. incomplete: it was interrupted."""

    subject: str
    batches: list[int]
    work: Work | None = None
    left_out: int = 0
    tokens: int = 0
    machine: Machine | None = None
    rows: list[Measured] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    repeats: int = 0
    incomplete: bool = False

    @property
    def red(self) -> list[Measured]:
        """Rows whose gate is red."""
        return [row for row in self.rows if row.red]

    def row(self, key: str, batch: int) -> Measured | None:
        return next((row for row in self.rows if (row.rung, row.batch) == (key, batch)), None)


class Progress:
    """One line a thing that is done, with how long the rest may take."""

    def __init__(self, say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)):
        self._say, self._began = say, time.perf_counter()

    def __call__(self, text: str, left: float | None = None) -> None:
        rest = "" if left is None else f", about {left:.0f} s left"
        self._say(f"[{time.perf_counter() - self._began:4.0f} s] {text}{rest}")


def climb(subject: Subject, rungs: list[Rung], batches: list[int], repeats: int, progress: Progress) -> Climb:
    """Check and measure. An interrupt ends it with what is finished."""
    found = Climb(subject.name, batches)
    entries: list[_Entry] = []
    try:
        _check(subject, rungs, batches, found, entries, progress)
        _measure(entries, repeats, found, progress)
    except KeyboardInterrupt:
        found.incomplete = True
        progress("interrupted: what follows is what was finished")
    for entry in entries:
        _sum_up(entry, found)
    _compare(entries, found)
    return found


def _check(
    subject: Subject, rungs: list[Rung], batches: list[int], found: Climb, entries: list[_Entry], progress: Progress
) -> None:
    """Build every side and hold its answers to the reference. This run is the warm-up too."""
    plain = subject.engine(BY_KEY[REFERENCE], max(batches))
    answers = plain.run(subject.work.requests, 1)
    ended = [a for a in answers if not (subject.stops and a.finish_reason in LEFT_OUT)]
    kept = {r.id for r, a in zip(subject.work.requests, answers, strict=True) if a in ended}
    found.left_out = len(answers) - len(kept)
    found.work = work = subject.work.kept(kept)
    reference = {r.id: a for r, a in zip(subject.work.requests, answers, strict=True) if r.id in kept}
    found.tokens = sum(len(a.tokens) for a in reference.values())
    given = with_given_drafts(work.requests, {key: a.text for key, a in reference.items()})
    costs = StepCosts(plain)
    least = [costs.of(step)[0] for step in plain.counted.steps]
    network = subject.loaded.network
    found.machine = measure_machine(subject.device, network.dtype, sum(least) / len(least))
    progress(f"{len(kept)} requests, {found.tokens} tokens; reference ready")
    longest = max(len(a.tokens) for a in reference.values())
    peer: Side | None = None
    own_options = BY_KEY[REFERENCE].options
    engines = {repr((sorted(own_options.items()), None, False, False)): plain}
    mixed: dict[int, Answer] | None = None
    reasons = {rung.key: unavailable(rung, subject.device) or subject.lacks(rung) for rung in rungs}
    found.skipped = {key: why for key, why in reasons.items() if why is not None}
    there = [rung for rung in rungs if rung.key not in found.skipped]
    climbing = time.perf_counter()
    for number, rung in enumerate(there, 1):
        began = time.perf_counter()
        if rung.peer:
            # Far beyond any answer: whoever reaches it has gone wrong, which shows as a difference.
            side = peer = peer or subject.peer(2 * longest + 16 if subject.stops else longest)
        else:
            # Rungs that differ in the batch alone are one engine: compiling it takes most of the time of a check.
            key = repr((sorted(rung.options.items()), rung.drafts, rung.snapshots, rung.quantised))
            side = engines[key] = engines.get(key) or subject.engine(rung, max(batches))
        requests = given if rung.drafts == "given" else work.requests
        expected = reference
        if rung.quantised:
            if mixed is None:
                decoded = subject.engine(_of_mix(), max(batches)).run(work.requests, max(batches))
                mixed = {r.id: a for r, a in zip(work.requests, decoded, strict=True)}
            expected = mixed
        for batch in [rung.batch] if rung.batch else batches:
            if same_as_below(rung, batch):
                continue
            if not rung.peer and (rung.drafts or rung.options.get("compile")):
                side.run(requests, batch)  # what is compiled, captured or found out by trying is so afterwards
            started = time.perf_counter()
            own = side.run(requests, batch)
            warm = time.perf_counter() - started
            row = _held(rung, batch, requests, own, expected, subject, work)
            if rung.quantised:
                pairs = zip(requests, own, strict=True)
                row.as_unquantised = sum(a.tokens == reference[r.id].tokens for r, a in pairs)
            found.rows.append(row)
            if not row.red:
                counting = costs if rung.peer else StepCosts(side, rung.snapshots)
                entries.append(_Entry(rung, batch, side, requests, row, counting, warm))
        now = time.perf_counter()
        left = (now - climbing) / number * (len(there) - number)
        progress(f"{rung.title}: checked in {now - began:.0f} s", left if number < len(there) else None)


def _of_mix() -> Rung:
    """Plain decoding of the quantised weights."""
    plain = BY_KEY[REFERENCE]
    return Rung("plain-mix", "", "", plain.options, quantised=True)


def _held(
    rung: Rung, batch: int, requests: list[Request], own: list[Answer], expected: dict[int, Answer], subject: Subject,
    work: Work,
) -> Measured:  # fmt: skip
    """What the gate says of a run."""
    theirs = [expected[request.id] for request in requests]
    verdict = gate(theirs, own, requests, subject.teacher(rung.quantised), subject.tie)
    texts = {request.id: answer.text for request, answer in zip(requests, own, strict=True)}
    return Measured(
        rung.key, batch, len(requests), len(requests) - verdict.different, verdict.ties,
        verdict.different - verdict.ties, sum(len(answer.tokens) for answer in own), cer=work.cer(texts),
    )  # fmt: skip


def _measure(entries: list[_Entry], repeats: int, found: Climb, progress: Progress) -> None:
    """All sides in turns, in alternating order; then the host, whose clocks make a side slower."""
    progress("all checked", repeats * sum(entry.warm for entry in entries) * 1.2)  # the first tokens too
    for repeat in range(repeats):
        began = time.perf_counter()
        for entry in entries if repeat % 2 == 0 else entries[::-1]:
            start = time.perf_counter()
            answers = entry.side.run(entry.requests, entry.batch)
            seconds, counted = time.perf_counter() - start, entry.side.counted
            entry.firsts.append(entry.side.first(entry.requests, entry.batch))
            entry.measured.seconds.append(seconds)
            entry.answers.append(answers)
            entry.counted.append(counted)
        found.repeats = repeat + 1
        left = (time.perf_counter() - began) * (repeats - repeat - 1)
        progress(f"repeat {repeat + 1} of {repeats}", left)
    for entry in entries:
        entry.measured.host_s = entry.side.host_seconds(entry.requests, entry.batch)
    progress("host clocked")


def _sum_up(entry: _Entry, found: Climb) -> None:
    """Medians of what was measured."""
    row = entry.measured
    if not row.seconds or not entry.counted:
        return
    row.tokens_per_s = Spread.of([row.tokens / seconds for seconds in row.seconds])
    row.pages_per_min = 60 * found.work.pages / median(row.seconds)
    row.request_tokens_per_s = median(
        len(answer.tokens) / answer.seconds for answers in entry.answers for answer in answers
    )
    if entry.firsts:
        row.first_s = Spread.of(entry.firsts)
    accepted = sum((counted.acceptance for counted in entry.counted), Acceptance())
    row.accept_length = accepted.accept_length
    steps = [step for counted in entry.counted for step in counted.steps]
    row.steps = len(steps) // len(entry.counted)
    least = entry.costs.least(steps, found.machine)
    row.bytes_per_step, row.bound = least.bytes_per_step, least.bound
    row.percent = 100 * least.seconds / sum(counted.seconds for counted in entry.counted)


def _compare(entries: list[_Entry], found: Climb) -> None:
    """How many times as fast as transformers at the same batch each is; batches are one where a rung says so."""
    for entry in entries:
        row = entry.measured
        base = found.row("transformers", row.batch) or found.row("transformers-1", row.batch)
        if base is not None and row.seconds and base.seconds:
            pairs = zip(row.seconds, base.seconds, strict=False)
            row.times = Spread.of([theirs * row.tokens / (own * base.tokens) for own, theirs in pairs])

