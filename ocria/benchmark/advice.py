"""What follows from the measurements. Nothing here measures or knows anything else."""

from __future__ import annotations

import math
from statistics import median

from ocria.benchmark.facts import BATCH, COMPILE, DRAFT, THREADS, Advice, Report, Speed

CLEAR = 1.05
"""Times as fast, in the median of the turns, from which a variant is worth an option; it must win every turn too."""
CLEAR_AT_ONCE = 1.5
"""The same where there was one turn."""


def advise(report: Report) -> tuple[list[Advice], str]:
    """What to do, one piece about each option that was looked at, and a verdict in words."""
    found = [_draft(report), _compile(report), _batch(report), _threads(report), _recipe(report)]
    advice = [piece for piece in found if piece is not None]
    return advice, _verdict(report, advice)


def clearly_faster(speed: Speed) -> bool:
    """Than the base, in median and in every turn."""
    least = CLEAR if len(speed.ratios) > 1 else CLEAR_AT_ONCE
    return bool(speed.ratios) and median(speed.ratios) >= least and min(speed.ratios) > 1


def break_even_pages(off: Speed, on: Speed) -> int | None:
    """How many pages make up for what compiling takes once; None where it saves nothing."""
    saved = (off.page_s or 0.0) - (on.page_s or math.inf)
    return None if saved <= 0 else max(1, math.ceil(on.once_s / saved))


def _draft(report: Report) -> Advice | None:
    speeds = report.group(DRAFT)
    base = _base(speeds)
    if base is None:
        return None
    unequal = [speed.name for speed in speeds if speed.different]
    said = f" ({', '.join(unequal)}: answers differ, so no speed)" if unequal else ""
    best = _best(speeds)
    if best is not base and best is not None and clearly_faster(best):
        what = "without drafts" if best.name == "none" else f"with --draft {best.name}"
        return Advice(DRAFT, f"{what} it is {_times(best)} as fast as with {base.name}{said}", f"--draft {best.name}")
    none = next((speed for speed in speeds if speed.name == "none" and speed.ratios), None)
    gain = "" if none is None or none is base else f", {1 / median(none.ratios):.2f} times as fast as without drafts"
    return Advice(DRAFT, f"{base.name} is right{gain}{said}")


def _compile(report: Report) -> Advice | None:
    speeds = report.group(COMPILE)
    off, on = _base(speeds), next((speed for speed in speeds if speed.name == "on"), None)
    if off is None or on is None:
        return None
    if on.different:
        return Advice(COMPILE, f"compiled steps gave {on.different} other answers: leave it off")
    if not clearly_faster(on):
        return Advice(COMPILE, f"leave it off: {_times(on)} as fast is no clear gain")
    pages = break_even_pages(off, on)
    if pages is None:
        return Advice(COMPILE, "leave it off: it saves nothing")
    how = "taken from the cache" if on.cached else "made anew, and kept for the next run"
    says = f"{_times(on)} as fast; it pays from {_pages(pages)} on (code {how}: {on.once_s:.1f} s once a run)"
    return Advice(COMPILE, says, f"--compile for more than {_pages(pages)}")


def _batch(report: Report) -> Advice | None:
    return _least_that_will_do(report, BATCH, "--batch")


def _threads(report: Report) -> Advice | None:
    return _least_that_will_do(report, THREADS, "--threads")


def _least_that_will_do(report: Report, group: str, option: str) -> Advice | None:
    """The smallest number that is as fast as the best, where that is clearly faster than the base."""
    speeds = [speed for speed in report.group(group) if speed.seconds and not speed.different]
    base, best = _base(speeds), _best(speeds)
    if base is None or best is None or len(speeds) < 2:
        return None
    if best is base or not clearly_faster(best):
        return Advice(group, f"{option} {base.name}, as it is, is right")
    enough = [speed for speed in speeds if clearly_faster(speed) and _total(speed) <= CLEAR * _total(best)]
    chosen = min(enough, key=lambda speed: int(speed.name))
    says = f"{option} {chosen.name} is {_times(chosen)} as fast as {base.name}"
    return Advice(group, says, f"{option} {chosen.name}")


def _recipe(report: Report) -> Advice | None:
    """Counted, not measured: on a GPU fewer bytes a step bound what it can gain."""
    if not report.recipes:
        return None
    recipes = sorted(report.recipes, key=lambda recipe: -recipe.file_bytes)
    if report.model is None:
        fitting = next((recipe for recipe in recipes if recipe.fits), None)
        if fitting is None:
            return Advice("recipe", "no recipe makes the model small enough for this memory")
        says = f"{fitting.name} is the least change that fits; read with the result"
        return Advice("recipe", says, _quantize(fitting.name))
    smallest = recipes[-1]
    if report.model.device == "cpu":
        return Advice(
            "recipe",
            f"a quantised model is a smaller file here ({_mb(smallest.file_bytes)} by {smallest.name}) and neither "
            "faster nor smaller in memory, because the CPU decodes it when it is loaded",
        )
    ratio = report.model.step_bytes / recipes[0].step_bytes
    says = (
        f"{recipes[0].name} would read {_mb(recipes[0].step_bytes)} a step in place of "
        f"{_mb(report.model.step_bytes)}: at most {ratio:.1f} times as fast in steps, not measured here"
    )
    return Advice("recipe", says, _quantize(recipes[0].name))


def _verdict(report: Report, advice: list[Advice]) -> str:
    if report.page is None:
        fits = all(recipe.fits for recipe in report.recipes)
        return "Nothing was measured." if fits else "The model does not fit into the memory of this machine."
    name = report.model.name
    if report.page.cut:
        return f"A page takes this machine more than {report.page.seconds[0]:.0f} s with {name}: give --seconds more."
    pace = report.page.pages_per_min
    paced = f"about {pace:.0f} pages a minute" if pace >= 3 else f"a page in about {60 / pace:.0f} seconds"
    said = f"This machine reads {paced} with {name}."
    options = [piece.option for piece in advice if piece.option is not None and piece.about != "recipe"]
    # What holds for long runs alone stands last, with the pages that make it long.
    options.sort(key=lambda option: option.startswith("--compile"))
    if options:
        return f"{said} Use: ocria parse {' '.join(options)}."
    compared = any(piece.about != "recipe" for piece in advice)
    return f"{said} {'No option that was compared is better.' if compared else 'Options were not compared.'}"


def _base(speeds: list[Speed]) -> Speed | None:
    return next((speed for speed in speeds if speed.base and speed.seconds), None)


def _best(speeds: list[Speed]) -> Speed | None:
    return min((speed for speed in speeds if speed.seconds and not speed.different), key=_total, default=None)


def _total(speed: Speed) -> float:
    return median(speed.seconds)


def _times(speed: Speed) -> str:
    return f"{median(speed.ratios):.2f} times"


def _quantize(recipe: str) -> str:
    return f"ocria quantize MODEL --recipe {recipe} -o FOLDER"


def _pages(count: int) -> str:
    return "1 page" if count == 1 else f"{count} pages"


def _mb(amount: int) -> str:
    return f"{amount / 1e9:.2f} GB" if amount >= 1e9 else f"{amount / 1e6:.1f} MB"
