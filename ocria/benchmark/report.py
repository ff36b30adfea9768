"""A report for people."""

from __future__ import annotations

from statistics import median

from ocria.benchmark.facts import BATCH, COMPILE, DRAFT, THREADS, Machine, ModelFacts, PageTimes, Report, Speed

_TITLES = {DRAFT: "--draft", COMPILE: "--compile", BATCH: "--batch", THREADS: "--threads"}
_PARTS = {
    "open": "open", "lines": "draw and find lines", "encoder": "encoder", "prefill": "prompts", "steps": "steps",
    "host": "engine around them", "rest": "layout and the rest",
}  # fmt: skip
_HEAD = ("variant", "pages/min", "tokens/s", "spread", "times", "first token", "accepted", "")


def as_text(report: Report) -> str:
    """Machine, model, pages, variants, advice; what was not measured has its reason."""
    parts = []
    if report.machine is not None:
        parts.append(_facts(report))
    if report.page is not None:
        parts.append(_page(report.page, report))
    if report.speeds:
        parts.append(_speeds(report.speeds))
    if report.recipes:
        parts.append(_recipes(report))
    if report.left_out:
        parts.append("Left out\n" + "\n".join(f"  {one.what}: {one.why}" for one in report.left_out))
    if report.advice:
        parts.append("Advice\n" + "\n".join(_advice(piece.about, piece.says, piece.option) for piece in report.advice))
    ended = "interrupted after" if report.interrupted else "took"
    parts.append(f"{report.verdict}\n({ended} {report.seconds:.0f} s of {report.budget_s:g} s)")
    return "\n\n".join(parts)


def table(rows: list[tuple[str, ...]], left: int = 1) -> list[str]:
    """Aligned rows, the first `left` columns to the left; empty columns are left out."""
    kept = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    widths = {i: max(len(row[i]) for row in rows) for i in kept}
    last = kept[-1]
    return [
        ("  " + "  ".join(row[i].ljust(widths[i]) if i < left or i == last else row[i].rjust(widths[i]) for i in kept))
        .rstrip()
        for row in rows
    ]  # fmt: skip


def _facts(report: Report) -> str:
    lines = [f"Machine  {machine_line(report.machine)}"]
    if report.model is not None:
        lines.append(f"Model    {_model_line(report.model)}")
    if report.limits is not None:
        limits = report.limits
        flops = limits.flops_per_s
        told = f"{flops / 1e12:.1f} TFLOP/s" if flops >= 1e12 else f"{flops / 1e9:.0f} GFLOP/s"
        lines.append(f"Limits   {limits.bytes_per_s / 1e9:.1f} GB/s read from memory, {told} in products (measured)")
    return "\n".join(lines)


def machine_line(machine: Machine) -> str:
    """The CPU, what it can, memory, and the GPU if there is one."""
    parts = [machine.cpu, _plural(machine.cores, "core"), _plural(machine.threads, "thread")]
    parts.append(", ".join(machine.instructions) or "no vector instructions that matter")
    if machine.memory_bytes is not None:
        parts.append(f"{_gib(machine.memory_bytes)} of memory")
    if machine.gpu is not None:
        parts.append(f"{machine.gpu}, {_gib(machine.gpu_bytes or 0)}")
    parts.append(f"{_gib(machine.free_bytes)} free")
    return "; ".join(parts)


def _model_line(model: ModelFacts) -> str:
    formats = f" ({model.formats})" if model.formats else ""
    return (
        f"{model.name}: {_count(model.parameters)} parameters, reads {model.unit}s; {model.device}, {model.dtype}"
        f"{formats}; a step reads {_mb(model.step_bytes)} of weights and {_mb(model.request_bytes)} for each request"
    )


def _page(page: PageTimes, report: Report) -> str:
    whose = "drawn" if report.source == "made" else "given"
    spread = f" ({min(page.seconds):.2f}–{max(page.seconds):.2f})" if len(page.seconds) > 1 else ""
    lines = [
        f"Pages, one after the other ({_plural(page.pages, 'page')}, {whose}; {page.requests} requests, "
        f"{page.tokens} tokens)",
        f"  {median(page.seconds):.2f} s a page{spread}, {page.pages_per_min:.1f} pages/min, "
        f"first token after {page.first_token_s:.2f} s",
    ]
    whole = sum(page.parts.values()) or 1.0
    told = (f"{_PARTS[name]} {seconds:.2f} s ({100 * seconds / whole:.0f} %)" for name, seconds in page.parts.items())
    lines.append("  " + ", ".join(told))
    if page.bandwidth_percent is not None and page.flops_percent is not None:
        lines.append(
            f"  of what the machine can do: {page.bandwidth_percent:.0f} % of the bandwidth for weights in steps, "
            f"{page.flops_percent:.0f} % of the arithmetic in the engine"
        )
        if page.bandwidth_percent > 100:
            lines.append("  (above 100 %: weights are so small that they stay in the caches)")
    if page.cut:
        lines.append("  the time was over before the page was")
    return "\n".join(lines)


def _speeds(speeds: list[Speed]) -> str:
    blocks = []
    for group, title in _TITLES.items():
        mine = [speed for speed in speeds if speed.group == group]
        if mine:
            count = _plural(max(speed.requests for speed in mine), "request")
            rows = [(f"{title}, {count}", *_HEAD[1:]), *(_speed(speed) for speed in mine)]
            blocks.append("\n".join(table(rows)))
    return "Variants, in turns on the same requests\n" + "\n".join(blocks)


def _speed(speed: Speed) -> tuple[str, ...]:
    name = f"{speed.name}{' *' if speed.base else ''}"
    if speed.different:
        return (name, *[""] * 6, f"no speed: {speed.different} answers differ")
    if not speed.seconds:
        return (name, *[""] * 6, "not measured: no time left")
    note = "* as it is" if speed.base else ""
    if speed.cached is not None:
        note = f"{speed.once_s:.1f} s once, {'from the cache' if speed.cached else 'compiled anew'}"
    return (
        name,
        f"{speed.pages_per_min:.1f}",
        f"{speed.tokens_per_s:.0f}",
        f"{min(speed.seconds):.2f}–{max(speed.seconds):.2f} s",
        f"{median(speed.ratios):.2f}x",
        f"{speed.first_token_s:.2f} s" if speed.first_token_s is not None else "",
        f"{speed.accept_length:.1f}" if speed.accept_length is not None else "",
        note,
    )


def _recipes(report: Report) -> str:
    rows = [("recipe", "file", "in memory", "a step", "")]
    for recipe in report.recipes:
        fits = "" if recipe.fits else "does not fit"
        rows.append(
            (recipe.name, _mb(recipe.file_bytes), _mb(recipe.device_bytes), _mb(recipe.step_bytes), fits)
        )
    return "Recipes of ocria quantize, counted\n" + "\n".join(table(rows))


def _advice(about: str, says: str, option: str | None) -> str:
    return f"  {about:<8} {says}" + (f"\n           -> {option}" if option else "")


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _gib(amount: int) -> str:
    return f"{amount / 2**30:.1f} GiB"


def _mb(amount: int) -> str:
    return f"{amount / 1e9:.2f} GB" if amount >= 1e9 else f"{amount / 1e6:.1f} MB"


def _count(number: int) -> str:
    return f"{number / 1e9:.2f} B" if number >= 1e9 else f"{number / 1e6:.1f} M"
