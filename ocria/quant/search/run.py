"""The search: which layers can be stored in how few bytes before the model is no longer the same."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from ocria.errors import OutputError, UsageError
from ocria.model.checkpoint import load_model
from ocria.model.profiles import find_profile
from ocria.quant.calibration.pages import Sample
from ocria.quant.calibration.source import PlainCheckpoint
from ocria.quant.recipe import BF16, Format, Recipe, load_recipe, recipe_names
from ocria.quant.search.bound import DEFAULT, Bound
from ocria.quant.search.frontier import stages
from ocria.quant.search.kept import Kept, fingerprint
from ocria.quant.search.plot import has_matplotlib, plot
from ocria.quant.search.report import RECIPE, SearchReport, Sensitivity
from ocria.quant.search.scene import Scene
from ocria.quant.search.timing import step_seconds
from ocria.quant.search.walk import OnProgress, Walk

FORMATS = ("fp8-channel", "nvfp4")
"""What a group may become, unless the caller says otherwise."""
_CPU = (
    "Times of steps were not measured: on the CPU quantised weights are decoded before they are multiplied, and make "
    "no step faster. Bytes say what a device gains whose steps wait for memory."
)


def run_search(
    model: str | Path,
    held_out: Sequence[Sample],
    out: Path,
    *,
    calibration: Sequence[Sample] = (),
    settings: Recipe | None = None,
    formats: Sequence[str] = FORMATS,
    bound: Bound | str = DEFAULT,
    compare: Sequence[str | Path] | None = None,
    timed: bool | None = None,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    on_progress: OnProgress | None = None,
) -> SearchReport:
    """Find the formats of all layers, and write into the folder `out`: `recipe.toml`, which `ocria quantize --recipe`
    takes, `search.md`, `search.json`, and `search.png` where matplotlib is installed.

    held_out: what losses are measured on, samples of `load_samples`. calibration: others, for what a recipe needs
    pages for; without them the settings have no scaling. settings: a recipe whose scaling, block scales and form all
    have that the search makes; its rules do not count. None: those of the recipe `nvfp4`. compare: recipes that are
    measured as well, and may be chosen; None: those that come with ocria. timed: measure steps on the device and choose
    by them instead of by bytes; None: on CUDA. What was measured is kept in `out`, and a search that is begun again
    there, with the same model, samples and settings, goes on.

    Every group in every format alone tells the order; recipes along it are then measured as wholes, and the one with
    the fewest bytes whose loss is within the bound is chosen, at worst the plain model.
    Raises UsageError for a bound or formats that are none, and for recipes that need calibration without it,
    OutputError for a folder that holds something else, and what loading a model raises.
    """
    bound = Bound.parse(bound) if isinstance(bound, str) else bound
    settings = _settings(settings, bool(calibration))
    chosen = [Format(name) for name in formats]
    if not chosen or BF16 in chosen or not held_out:
        raise UsageError("a search needs formats other than bf16, and held-out samples")
    if not calibration and any(format.scaled_input for format in chosen):
        raise UsageError("formats with a number for the input need calibration", cure="Give pages to calibrate on.")
    recipes = _recipes(compare, calibration)
    plain = PlainCheckpoint.find(model)
    loaded = load_model(plain.folder, dtype=dtype, device=device)
    tell = on_progress or (lambda stage, done, total: None)
    with torch.no_grad():
        kept = Kept(Path(out), fingerprint(plain.folder, held_out, calibration, dtype))
        scene = Scene(loaded, held_out, calibration, plain.dtype)
        search = Walk(scene, settings, bound, kept, tell)
        sensitivities = search.sensitivities(chosen)
        points = search.along(stages(*search.options(sensitivities)))
        points += search.others(recipes)
    del scene, search.scene, loaded
    if timed is None:
        timed = torch.device(device).type == "cuda"
    if timed:
        within = [point for point in points if bound.holds(point.loss)]
        tell("timing", 0, 1)
        times = step_seconds(plain.folder, [p.recipe for p in within], held_out, calibration,
                             device=device, dtype=dtype)  # fmt: skip
        timings = {id(point): seconds for point, seconds in zip(within, times, strict=True)}
        points = [replace(point, seconds=timings.get(id(point))) for point in points]
    best = min((point for point in points if bound.holds(point.loss)),
               key=lambda point: (point.seconds or 0.0, point.nbytes, point.loss.kl))  # fmt: skip
    report = SearchReport(
        find_profile(plain.folder, plain.source.name).name,
        _method(held_out, calibration, settings, chosen, timed, torch.device(device), sensitivities)
        + _too_few(bound, sensitivities[0].loss.tokens),
        bound, sensitivities, points, best, search.layers(best.recipe),
    )  # fmt: skip
    _write(Path(out), report)
    return report


def _settings(recipe: Recipe | None, calibrated: bool) -> Recipe:
    """What all recipes of the search have in common. Without calibration there is neither scaling nor GPTQ."""
    if recipe is None:
        recipe = replace(load_recipe("nvfp4"), kv="bf16")
        if not calibrated:
            recipe = replace(recipe, scaling="none", gptq=False)
    recipe = replace(recipe, name="settings", rules=())
    if recipe.needs_pages and not calibrated:
        raise UsageError("scaling, GPTQ and the scales of the cache need calibration", cure="Give pages for it.")
    return recipe


def _recipes(compare: Sequence[str | Path] | None, calibration: Sequence[Sample]) -> list[Recipe]:
    recipes = [load_recipe(name) for name in (recipe_names() if compare is None else compare)]
    if calibration:
        return recipes
    if compare is None:
        return [replace(recipe, scaling="none", gptq=False, kv="bf16") for recipe in recipes]
    needy = [recipe.name for recipe in recipes if recipe.needs_pages]
    if needy:
        raise UsageError(f"the recipe {needy[0]} needs calibration", cure="Give pages for it.")
    return recipes


def _method(
    held_out: Sequence[Sample],
    calibration: Sequence[Sample],
    settings: Recipe,
    formats: Sequence[Format],
    timed: bool,
    device: torch.device,
    sensitivities: list[Sensitivity],
) -> list[str]:
    tokens = sensitivities[0].loss.tokens
    used = {name: value for name, value in asdict(settings).items() if name in ("scaling", "block_scales", "form")}
    lines = [
        f"Losses are measured on {len(held_out)} held-out samples, {tokens} tokens: the model's own greedy answers fed "
        "to it again, the distribution of every token compared with that of the plain model. Inputs of layers are "
        "rounded where the format says so.",
        f"Calibrated on {len(calibration)} other samples." if calibration else "Not calibrated.",
        f"Formats tried: {', '.join(map(str, formats))}; {', '.join(f'{k} {v}' for k, v in used.items())}. Groups "
        "alone are measured without scaling. GPTQ and an FP8 cache are not part of what is measured.",
        "Bytes are those of the weights that one decode step reads, all others in BF16.",
    ]
    if timed:
        lines.append(f"Steps on {device}: batch 8, medians of 5 runs in turn after one more; those within the bound.")
    elif device.type == "cpu":
        lines.append(_CPU)
    else:
        lines.append("Times of steps were not measured.")
    return lines


def _too_few(bound: Bound, tokens: int) -> list[str]:
    """A line for people where a single token decides."""
    if bound.measure != "agreement" or tokens * (1 - bound.limit) >= 1:
        return []
    return [f"One token of {tokens} is more than the bound allows to change: more held-out pages would tell more."]


def _write(out: Path, report: SearchReport) -> None:
    try:
        if has_matplotlib():
            plot(report, out / "search.png")
        else:
            report.method.append("No picture was drawn, as matplotlib is not installed (pip install 'ocria[bench]').")
        (out / RECIPE).write_text(report.recipe.to_toml(), encoding="utf-8")
        (out / "search.json").write_text(json.dumps(report.to_dict(), indent=2) + "\n", encoding="utf-8")
        (out / "search.md").write_text(report.markdown(), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror or error}", path=out) from error
