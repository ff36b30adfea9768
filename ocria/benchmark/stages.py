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
from ocria.spec.vision import has_reading

PAGES_SHARE, DRAFTS_SHARE, COMPILE_SHARE, BATCHES_SHARE, THREADS_SHARE = 0.2, 0.25, 0.15, 0.2, 0.1
"""Of the whole time: what a stage plans with. Whatever is left over serves the next ones."""
BATCHES = (1, 8, 32, 64)
_LIMITS_S = 1.0
_COMPILE_S = {True: 20.0, False: 90.0}
"""Compiling is begun when there is so much time left, with compiled code from an earlier run and without."""
_ROUNDS = 4
"""So many turns are planned for."""

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
        report.left_out.append(LeftOut("what was under way when the time was over", f"{budget.seconds:g} s"))
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
        _compile(bench)
        _batches(bench)
        _threads(bench)


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
    names = ["none", own, "auto", "lookup", *["vision"] * has_reading(folder), *["own"] * (folder / FOLDER).is_dir()]
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
    from ocria.runtime.compiled import cache_folder

    folder = cache_folder(bench.reader.loaded.network)
    presumed = _COMPILE_S[folder.is_dir() and any(folder.iterdir())]
    if not bench.budget.fits(presumed):
        why = f"it may take {presumed:.0f} s, and {bench.budget.left:.0f} s are left; give --seconds more"
        bench.leave_out("compiling", why)
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
    are what the others must give. full: so many requests are what a full batch needs, if there is time."""
    wanted = list(wanted)
    seconds = min(share * bench.budget.seconds, bench.budget.left)
    planned = seconds / (_ROUNDS * len(wanted)) / max(bench.request_s, 1e-6)
    count = int(max(1, min(planned, max(len(bench.requests), full))))
    if bench.budget.left < count * bench.request_s * len(wanted):
        bench.leave_out(_about(group), f"{bench.budget.left:.0f} s are left")
        return
    requests = numbered(bench.requests, count)
    sides, cached, counts = {}, None, (0, 0)
    if group == COMPILE:
        from ocria.runtime.compiled import cache_counts

        counts = cache_counts()
    first: dict[str, Run] = {}
    different: dict[str, int] = {}
    for name, changed in wanted:
        if group == BATCH and int(name) > count and name != base:
            bench.leave_out(f"batch {name}", f"there is time for {count} requests at once")
            continue
        bench.tell(f"{_about(group)}: {name}")
        try:
            side = _side(bench, changed)
            first[name] = side.run(requests)
        except (EngineError, UsageError, RuntimeError) as error:  # of the last kind are faults of the compiler
            told = error.message if isinstance(error, OcriaError) else str(error).strip().splitlines()[0]
            bench.leave_out(f"{_about(group)}: {name}", told)
            continue
        tie = TIE[bench.placed.dtype]
        expected = next(iter(first.values()))
        different[name] = differing(bench.teacher, requests, expected, first[name], tie)
        if not different[name]:
            sides[name] = lambda side=side: side.run(requests)
    if group == COMPILE:
        found = cache_counts()
        cached = found[1] == counts[1] and found[0] > counts[0]
    left = max(0.0, seconds - sum(run.seconds for run in first.values()))
    runs = take_turns(sides, bench.budget, left or min(seconds, bench.budget.left), lambda: bench.tell(_about(group)))
    if base not in runs or not runs[base]:
        bench.leave_out(_about(group), "no time left to measure it")
        return
    for name, one in first.items():
        mine = runs.get(name, [])
        speed = _speed(bench, group, name, name == base, mine, runs[base], different[name], count)
        if group == COMPILE and name == "on" and mine:
            once_s = max(0.0, one.seconds - min(run.seconds for run in mine))
            speed = replace(speed, once_s=once_s, cached=cached)
        bench.report.speeds.append(speed)


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
        return Speed(group, name, base, pages=pages, different=different)
    firsts = [run.first_token_s for run in runs if run.first_token_s is not None]
    engine_s = statistics.median(run.seconds for run in runs) / pages
    return Speed(
        group, name, base,
        seconds=tuple(run.seconds for run in runs),
        ratios=ratios(base_runs, runs),
        tokens=runs[0].tokens,
        pages=pages,
        different=different,
        first_token_s=statistics.median(firsts) if firsts else None,
        accept_length=runs[-1].accept_length,
        pages_per_min=60 / (bench.report.page.outside_s + engine_s),
    )  # fmt: skip


def _about(group: str) -> str:
    return {DRAFT: "drafts", COMPILE: "compiling", BATCH: "batches", THREADS: "threads"}[group]
