"""The measurements, the most useful first, as far as the time goes."""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ocria import __version__
from ocria.benchmark.budget import Budget, OutOfTime, stop_after
from ocria.benchmark.facts import (
    BATCH,
    COMPILE,
    DRAFT,
    THREADS,
    LeftOut,
    ModelFacts,
    PageTimes,
    Report,
    Speed,
)
from ocria.benchmark.machine import describe, measure_limits
from ocria.benchmark.pages import PageRef, open_pages
from ocria.benchmark.recipes import count_recipes
from ocria.benchmark.turns import ratios, take_turns
from ocria.benchmark.work import TIE, PageRead, Run, Side, WatchedReader, differing, numbered
from ocria.document.options import ParseOptions
from ocria.document.reader import Placement, placement, plan_memory
from ocria.errors import CheckpointError, EngineError, InputError, OcriaError, UsageError
from ocria.model.hub import find_model
from ocria.runtime.drafting import FOLDER, choose_drafts
from ocria.runtime.memory import free_memory
from ocria.runtime.request import Request
from ocria.runtime.teacher import Teacher
from ocria.runtime.traffic import traffic_of

PAGES_SHARE, DRAFTS_SHARE, BATCHES_SHARE, THREADS_SHARE, COMPILE_SHARE = 0.15, 0.2, 0.15, 0.1, 0.15
"""Of the whole time: what a stage plans with. Whatever is left over serves the next ones."""
BATCHES = (1, 8, 32, 64)
_LIMITS_S = 1.0
_COMPILE_S = 15.0
"""Compiling is begun when there is so much time left: it comes last, and what is compiled is kept for another run."""
_ROUNDS = {BATCH: 2}
_MOST_ROUNDS = 4
"""So many turns are planned for, fewer where many requests are worth more than many turns."""
_FEWEST_AT_ONCE = 8
"""Batches are compared where there is time for so many requests."""

_ABOUT = {DRAFT: "drafts", COMPILE: "compiling", BATCH: "batches", THREADS: "threads"}

Tell = Callable[[str], None]


@dataclass(slots=True)
class _Bench:
    """What the stages hand on."""

    report: Report
    budget: Budget
    options: ParseOptions
    placed: Placement
    tell: Tell
    reader: WatchedReader | None = None
    teacher: Teacher | None = None
    requests: list[Request] = field(default_factory=list)
    per_page: float = 1.0
    request_s: float = 0.0
    """Seconds of the engine for a request, as it is."""

    @property
    def threads(self) -> int:
        return self.report.machine.threads

    def leave_out(self, what: str, why: str) -> None:
        self.report.left_out.append(LeftOut(what, why))


def run(files: Sequence[str], options: ParseOptions, budget: Budget, report: Report, tell: Tell) -> None:
    """Measure into `report`, which holds what is known at any moment. tell: called with what is being done.

    Raises KeyboardInterrupt, and what loading the model, opening the files and reading them raise; at the end of the
    time it returns.
    """
    try:
        with stop_after(budget.left):
            _stages(files, options, budget, report, tell)
    except OutOfTime:
        report.left_out.append(LeftOut("what was under way, and all after it", f"the {budget.seconds:g} s were over"))
    finally:
        report.seconds = budget.spent
        if report.machine is not None:
            torch.set_num_threads(report.machine.threads)


def new_report(budget: Budget, files: Sequence[str]) -> Report:
    return Report(__version__, budget.seconds, source="files" if files else "made")


def _stages(files: Sequence[str], options: ParseOptions, budget: Budget, report: Report, tell: Tell) -> None:
    tell("looking at the machine")
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    placed = placement(options)
    report.machine = describe(placed.device)
    bench = _Bench(report, budget, options, placed, tell)
    _recipes(bench)
    plan_memory(options, placed)
    with open_pages(files) as pages:
        if not pages:
            raise InputError("these files have no pages", cure="Give files with pages, or none.")
        tell("loading the model")
        bench.reader = WatchedReader(replace(options, page_timeout=None))
        bench.teacher = Teacher(bench.reader.loaded)
        report.model = _model_facts(bench)
        reads = _pages(bench, pages)
        tell("measuring the machine")
        if budget.fits(2 * _LIMITS_S):
            report.limits = measure_limits(placed.device, placed.dtype, min(_LIMITS_S, budget.left / 4))
        else:
            bench.leave_out("bandwidth and arithmetic of this machine", "no time left")
        report.page = _page_times(bench, reads)
        if not bench.requests:
            bench.leave_out("drafts, compiling, batches, threads", "no request was read to its end in time")
            return
        _drafts(bench)
        _batches(bench)
        _threads(bench)
        _compile(bench)


def _recipes(bench: _Bench) -> None:
    """Before anything is loaded: where the model does not fit, this is what helps."""
    options = replace(bench.placed.options, memory_bytes=1 << 62)
    roomy = replace(bench.placed, resolved=replace(bench.placed.resolved, memory_bytes=options.memory_bytes))
    plan = plan_memory(bench.options, roomy)
    limit = bench.options.memory_bytes or free_memory(bench.placed.device)
    try:
        bench.report.recipes = count_recipes(bench.placed.model, bench.placed.device, bench.placed.dtype, plan, limit)
    except CheckpointError as error:
        bench.leave_out("recipes", error.message)


def _model_facts(bench: _Bench) -> ModelFacts:
    loaded, engine = bench.reader.loaded, bench.reader.engine
    network, placed = loaded.network, bench.placed
    encoder = sum(p.numel() for name, p in network.named_parameters() if ".visual." in f".{name}")
    traffic = traffic_of(loaded.config, engine.options, network.dtype, placed.device, network.weights)
    return ModelFacts(
        name=bench.reader.model.name,
        unit=bench.reader.unit,
        device=str(placed.device),
        dtype=str(placed.dtype).removeprefix("torch."),
        parameters=sum(p.numel() for p in network.parameters()),
        encoder_parameters=encoder,
        weight_bytes=engine.budget.plan(1).weights,
        formats=placed.formats,
        step_bytes=traffic.step,
        request_bytes=traffic.request,
    )


def _pages(bench: _Bench, pages: Sequence[PageRef]) -> list[PageRead]:
    """The first page twice, where there is time: the first time, when much is set up, does not count then."""
    reads: list[PageRead] = []
    until = bench.budget.spent + PAGES_SHARE * bench.budget.seconds
    for number, page in enumerate([pages[0], *pages]):
        longest = max((read.seconds for read in reads), default=0.0)
        if number and bench.budget.spent + longest > max(until, bench.budget.spent if number < 2 else 0.0):
            break
        bench.tell("reading pages")
        limited = replace(bench.options, timeout=max(0.5, bench.budget.left * 0.9))
        reads.append(bench.reader.read_page(page, limited))
        if reads[-1].cut:
            break
    counted = reads[1:] if len(reads) > 1 and not reads[1].cut else reads[:1]
    whole = [read for read in counted if not read.cut]
    if len(whole) < len(pages):
        bench.leave_out(f"{len(pages) - len(whole)} of {len(pages)} pages", "the time of this stage was over")
    bench.requests = [request for read in whole for request in read.requests]
    if bench.requests:
        engine_s = sum(sum(read.parts[name] for name in ("encoder", "prefill", "steps", "host")) for read in whole)
        bench.per_page, bench.request_s = len(bench.requests) / len(whole), engine_s / len(bench.requests)
    return counted


def _page_times(bench: _Bench, reads: list[PageRead]) -> PageTimes:
    report = bench.report
    parts = {name: statistics.fmean(read.parts[name] for read in reads) for name in reads[0].parts}
    firsts = [read.first_token_s for read in reads if read.first_token_s is not None]
    limits, model = report.limits, report.model
    steps_s = sum(read.parts["steps"] for read in reads)
    engine_s = sum(sum(read.parts[name] for name in ("encoder", "prefill", "steps", "host")) for read in reads)
    bandwidth = flops = None
    if limits is not None and steps_s and engine_s:
        moved = model.step_bytes * sum(read.steps for read in reads)
        bandwidth = 100 * moved / steps_s / limits.bytes_per_s
        flops = 100 * _operations(bench, reads) / engine_s / limits.flops_per_s
    return PageTimes(
        pages=len(reads),
        seconds=tuple(read.seconds for read in reads),
        parts=parts,
        tokens=sum(read.tokens_out for read in reads),
        requests=sum(len(read.requests) for read in reads),
        first_token_s=statistics.median(firsts) if firsts else statistics.median(read.seconds for read in reads),
        bandwidth_percent=bandwidth,
        flops_percent=flops,
        cut=any(read.cut for read in reads),
    )


def _operations(bench: _Bench, reads: list[PageRead]) -> float:
    """Products with weights alone, attention left out: at least so many operations. Images are what prompts are but
    for some tokens."""
    loaded, model = bench.reader.loaded, bench.report.model
    text = loaded.config.text
    table = 0 if loaded.config.tie_word_embeddings else text.vocab_size * text.hidden_size
    head = text.vocab_size * text.hidden_size
    decoder = model.parameters - model.encoder_parameters - table
    patches = 0 if loaded.image is None else sum(read.tokens_in for read in reads) * loaded.image.merge_size**2
    prefilled = sum(read.tokens_in for read in reads)
    return 2.0 * (model.encoder_parameters * patches + (decoder - head) * prefilled
                  + decoder * sum(read.rows for read in reads))  # fmt: skip


def _drafts(bench: _Bench) -> None:
    """No drafts, and every kind that the model has; two names of the same are measured once."""
    own = bench.options.draft
    folder = find_model(bench.placed.model).folder
    names = ["none", own, "auto", "lookup", *["own"] * (folder / FOLDER).is_dir()]
    if own != "lookup" and bench.reader.unit == "line" and not any(request.guess for request in bench.requests):
        names.remove("lookup")
        bench.leave_out("drafts: lookup", "these pages have no text layer to look up")
    kinds: dict[str, str] = {}
    for name in dict.fromkeys(names):
        kinds.setdefault(str(choose_drafts(name, folder, bench.reader.unit, bench.options.draft_rows)), name)
    sides = [(name, {"draft": name, **({"draft_rows": None} if name == "none" else {})}) for name in kinds.values()]
    _group(bench, DRAFT, sides, own if own in kinds.values() else "auto", DRAFTS_SHARE)


def _compile(bench: _Bench) -> None:
    if bench.options.compile:
        bench.leave_out("compiling", "--compile is on for all of this")
        return
    if importlib.util.find_spec("torch._inductor") is None:
        bench.leave_out("compiling", "this build of torch cannot")
        return
    if not bench.budget.fits(_COMPILE_S):
        bench.leave_out("compiling", f"{bench.budget.left:.0f} s are left; give --seconds more")
        return
    _group(bench, COMPILE, [("off", {}), ("on", {"compile": True})], "off", COMPILE_SHARE)


def _batches(bench: _Bench) -> None:
    own = bench.placed.options.max_batch
    sizes = sorted({*BATCHES, own})
    _group(bench, BATCH, [(str(size), {"max_batch": size}) for size in sizes], str(own), BATCHES_SHARE, full=own)


def _threads(bench: _Bench) -> None:
    cores = bench.report.machine.cores
    counts = sorted({1, max(1, cores // 2), cores, bench.threads})
    if bench.placed.device.type != "cpu" or len(counts) < 2:
        bench.leave_out("threads", "there is one core" if len(counts) < 2 else "the engine runs on a GPU")
        return
    _group(bench, THREADS, [(str(count), {"threads": count}) for count in counts], str(bench.threads), THREADS_SHARE)


def _group(
    bench: _Bench, group: str, wanted: Iterable[tuple[str, dict[str, Any]]], base: str, share: float, full: int = 1
) -> None:
    """Measure variants of one option in turns, on as many requests as the time allows; the answers of the first one
    are what the others must give. full: so many requests are what a full batch needs, if there is time. What is
    measured when something ends this is reported all the same."""
    wanted = list(wanted)
    seconds = min(share * bench.budget.seconds, bench.budget.left)
    planned = seconds / (_ROUNDS.get(group, _MOST_ROUNDS) * len(wanted)) / max(bench.request_s, 1e-6)
    count = int(max(1, min(planned, max(len(bench.requests), full))))
    if bench.budget.left < count * bench.request_s * len(wanted):
        bench.leave_out(_ABOUT[group], f"{bench.budget.left:.0f} s are left")
        return
    if group == BATCH:
        if count < min(_FEWEST_AT_ONCE, full):
            bench.leave_out(_ABOUT[group], f"there is time for {count} requests at once")
            return
        for name in [name for name, _ in wanted if int(name) > count and name != base]:
            bench.leave_out(f"batch {name}", f"there is time for {count} requests at once")
        wanted = [(name, changed) for name, changed in wanted if int(name) <= count or name == base]
    tried = _Tried(numbered(bench.requests, count), bench.budget.spent + seconds)
    try:
        _try_each(bench, group, wanted, tried)
        sides = {name: lambda side=side: side.run(tried.requests) for name, side in tried.sides.items()}
        left = max(0.0, tried.until - bench.budget.spent)
        take_turns(sides, bench.budget, left, tried.runs, lambda: bench.tell(_ABOUT[group]))
    finally:
        _tell_speeds(bench, group, tried, base)


@dataclass(slots=True)
class _Tried:
    """What is known of the variants of a group so far, by their names."""

    requests: list[Request]
    until: float
    first: dict[str, Run] = field(default_factory=dict)
    """Set up and compiled in it."""
    sides: dict[str, Side] = field(default_factory=dict)
    """Those with the right answers."""
    different: dict[str, int] = field(default_factory=dict)
    runs: dict[str, list[Run]] = field(default_factory=dict)
    cached: dict[str, bool] = field(default_factory=dict)


def _try_each(bench: _Bench, group: str, wanted: Iterable[tuple[str, dict[str, Any]]], tried: _Tried) -> None:
    """Every variant once, and whether it answers as the first one does."""
    for name, changed in wanted:
        bench.tell(f"{_ABOUT[group]}: {name}")
        before = _code_counts(group)
        try:
            side = _side(bench, changed)
            run = side.run(tried.requests)
        except (EngineError, UsageError, RuntimeError) as error:  # of the last kind are faults of the compiler
            told = error.message if isinstance(error, OcriaError) else f"{error}".strip().partition("\n")[0]
            bench.leave_out(f"{_ABOUT[group]}: {name}", told)
            continue
        hits, misses = (b - a for a, b in zip(before, _code_counts(group), strict=True))
        if hits + misses:
            tried.cached[name] = not misses
        expected = tried.first.setdefault("", run)
        tried.different[name] = differing(bench.teacher, tried.requests, expected, run, TIE[bench.placed.dtype])
        tried.first[name] = run
        if not tried.different[name]:
            tried.sides[name] = side


def _tell_speeds(bench: _Bench, group: str, tried: _Tried, base: str) -> None:
    """Turns that the base has not had say nothing of the others either."""
    most = len(tried.runs.get(base, ()))
    if not most:
        kept = "; code that was compiled is kept, so that another run has it" if group == COMPILE else ""
        bench.leave_out(_ABOUT[group], f"it ended before there was something to compare{kept}")
        return
    for name, different in tried.different.items():
        runs = tried.runs.get(name, [])[:most]
        speed = _speed(bench, group, name, name == base, runs, tried.runs[base], different, len(tried.requests))
        if name in tried.cached and runs:
            once_s = max(0.0, tried.first[name].seconds - min(run.seconds for run in runs))
            speed = replace(speed, once_s=once_s, cached=tried.cached[name])
        bench.report.speeds.append(speed)


def _code_counts(group: str) -> tuple[int, int]:
    if group != COMPILE:
        return 0, 0
    from ocria.runtime.compiled import cache_counts

    return cache_counts()


def _side(bench: _Bench, changed: dict[str, Any]) -> Side:
    options = {name: value for name, value in changed.items() if name != "threads"}
    return Side(
        bench.reader.loaded, replace(bench.placed.options, **options), changed.get("threads", bench.threads)
    )


def _speed(
    bench: _Bench, group: str, name: str, base: bool, runs: list[Run], base_runs: list[Run], different: int, count: int
) -> Speed:
    pages = count / bench.per_page
    if not runs:
        return Speed(group, name, base, requests=count, pages=pages, different=different)
    firsts = [run.first_token_s for run in runs if run.first_token_s is not None]
    engine_s = statistics.median(run.seconds for run in runs) / pages
    return Speed(
        group, name, base,
        seconds=tuple(run.seconds for run in runs),
        ratios=ratios(base_runs, runs),
        tokens=runs[0].tokens,
        requests=count,
        pages=pages,
        different=different,
        first_token_s=statistics.median(firsts) if firsts else None,
        accept_length=runs[-1].accept_length,
        pages_per_min=60 / (bench.report.page.outside_s + engine_s),
    )  # fmt: skip
