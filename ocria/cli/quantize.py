"""`ocria quantize`."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocria.cli.common import add_common, add_json
from ocria.cli.help import epilog
from ocria.cli.interrupt import interrupt_on_sigterm
from ocria.cli.options import add_facts
from ocria.cli.output import to_standard_output
from ocria.errors import EXIT_OK, UsageError
from ocria.events import Note, TaskProgress
from ocria.progress import Reporter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ocria.quant.calibration.pages import Sample
    from ocria.quant.calibration.report import QuantizeReport
    from ocria.quant.recipe import Recipe

LIMIT = 128
_DESCRIPTION = """\
Write a model with smaller weights: in FP8, in NVFP4 (4 bits and a scale for
each 16 weights), or both, by a recipe. Fewer bytes are read in every step, so
that pages come faster where memory is the limit.

Recipes that scale weights, measure the cache or quantise inputs need pages like
those to be read; --calib names them. Their text need not be known. ocria-nano
has pages made for it where none are given.

OUT appears when it is complete and loads as any other model. A table of what
was done, with the error of each kind of layer, goes to standard output, and as
quantization_report.json into OUT.
"""
_EXAMPLES = [
    ("ocria quantize --list", "The recipes, a line for each."),
    ("ocria quantize nano --recipe fp8 -o nano-fp8", "Half the bytes; needs no pages."),
    ("ocria quantize FOLDER --recipe nvfp4-mlp+fp8 --calib a.pdf b.png -o mix", "The mix, calibrated on pages."),
    ("ocria quantize nano --recipe nvfp4 --dry-run", "What it would do, and to which size."),
    ("ocria parse scan.png --model nano-fp8", "Read with the result."),
    ("ocria quantize FOLDER --search --calib a.pdf --report found", "Find out which layers bear 4 bits."),
]


def add_quantize(commands: Any) -> None:
    parser = commands.add_parser(
        "quantize",
        help="write a model with weights in FP8 or NVFP4",
        description=_DESCRIPTION,
        epilog=epilog(_EXAMPLES, exit_codes=True, engine=True, messages=True),
    )
    parser.set_defaults(run=_quantize)
    parser.add_argument(
        "checkpoint", nargs="?", metavar="MODEL", help="folder of a plain checkpoint, nano, or a name on the hub"
    )
    parser.add_argument("-o", "--output", metavar="FOLDER", help="new folder for the result")
    recipes = parser.add_argument_group("recipe")
    recipes.add_argument(
        "--recipe", metavar="NAME|FILE", help="one of --list, or a TOML file (see docs/quantization.md)"
    )
    recipes.add_argument("--list", action="store_true", help="list the recipes that come with ocria")
    recipes.add_argument("--form", choices=("compressed-tensors", "modelopt"), help="what the files look like")
    recipes.add_argument(
        "--scaling",
        choices=("awq", "none"),
        help="awq: make columns larger that meet large inputs, and what is before them smaller",
    )
    recipes.add_argument(
        "--block-scales",
        choices=("none", "four_over_six", "clip", "sweep"),
        help="how blocks of NVFP4 find their scales: by the largest weight, or of several the one of the least error",
    )
    recipes.add_argument(
        "--gptq",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="the rounding of a column makes up for that of those before it; needs pages, and time",
    )
    recipes.add_argument("--kv", choices=("bf16", "fp8"), help="fp8: measure scales for cached keys and values")
    pages = parser.add_argument_group("pages")
    pages.add_argument(
        "--calib", nargs="+", action="extend", metavar="FILE", help="documents with pages like those to be read"
    )
    pages.add_argument("--limit", type=int, default=LIMIT, metavar="N", help=f"most lines or pages (default: {LIMIT})")
    pages.add_argument("--seed", type=int, default=0, metavar="N", help="of their choice (default: 0)")
    search = parser.add_argument_group("search for a recipe")
    search.add_argument(
        "--search",
        action="store_true",
        help="measure what each group of layers loses, and write the recipe of the fewest bytes within the bound; "
        "scaling and block scales are those of --recipe (default: nvfp4)",
    )
    search.add_argument(
        "--bound",
        default="agreement=99.9%",
        metavar="BOUND",
        help="what may be lost: agreement=99.9%% of the tokens, or kl=0.001 nats a token (default: agreement=99.9%%)",
    )
    search.add_argument(
        "--held-out",
        nargs="+",
        action="extend",
        metavar="FILE",
        help="documents to measure losses on (default: half of what --calib gives)",
    )
    search.add_argument("--report", metavar="FOLDER", help="new folder for the report of a search")
    parser.add_argument(
        "--drafter",
        default="auto",
        metavar="FOLDER|auto|none",
        help="drafters to quantise as well: those of the model (auto, the default), another one for it, or none",
    )
    parser.add_argument("--dry-run", action="store_true", help="show formats and sizes; compute and write nothing")
    add_json(parser)
    add_facts(parser)
    engine = parser.add_argument_group("engine")
    engine.add_argument("--device", help="cpu, cuda or cuda:N (default: cuda if there is one)")
    engine.add_argument(
        "--dtype",
        choices=("float32", "bfloat16"),
        help="in which calibration computes; bfloat16 takes half the memory (default: float32)",
    )
    add_common(parser)


def _quantize(options: argparse.Namespace, reporter: Reporter) -> int:
    from ocria.quant.calibration.run import check_output
    from ocria.quant.recipe import load_recipe, recipe_names

    interrupt_on_sigterm()
    if options.list:
        _print_recipes([load_recipe(name) for name in recipe_names()], options.json)
        return EXIT_OK
    if options.checkpoint is None:
        options.parser.error("the following arguments are required: MODEL")
    if options.limit < 1:
        raise UsageError(f"--limit must be at least 1, not {options.limit}")
    if options.search:
        with reporter:
            return _search(options, reporter)
    if options.recipe is None:
        raise UsageError("--recipe is missing", cure=f"One of {', '.join(recipe_names())}, or a TOML file.")
    recipe = _chosen(load_recipe(options.recipe), options)
    if options.dry_run:
        _print_plan(options, recipe)
        return EXIT_OK
    if options.output is None:
        raise UsageError("--output is missing", cure="Name a new folder.")
    with reporter:
        check_output(Path(options.output))
        report = _write(options, recipe, _samples(options, recipe, reporter), reporter)
    to_standard_output((json.dumps(report.to_dict(), indent=2) if options.json else report.as_text()) + "\n")
    return EXIT_OK


def _chosen(recipe: Recipe, options: argparse.Namespace) -> Recipe:
    """The recipe with what the command line says otherwise."""
    names = ("form", "scaling", "block_scales", "gptq", "kv")
    return replace(recipe, **{name: getattr(options, name) for name in names if getattr(options, name) is not None})


def _write(
    options: argparse.Namespace, recipe: Recipe, samples: list[Sample], reporter: Reporter
) -> QuantizeReport:
    from ocria.quant.calibration.run import quantize

    return quantize(
        options.checkpoint, recipe, samples, Path(options.output), drafters=_drafters(options.drafter),
        **_place(options), facts=_facts(options), on_progress=_teller(reporter),
    )  # fmt: skip


def _search(options: argparse.Namespace, reporter: Reporter) -> int:
    """Look for a recipe, and with --output quantise by it."""
    from ocria.quant.calibration.run import check_output
    from ocria.quant.recipe import load_recipe
    from ocria.quant.search import Bound, run_search

    if options.dry_run:
        raise UsageError("a search cannot be told beforehand", cure="Leave out --search or --dry-run.")
    if options.report is None:
        raise UsageError("--search needs --report", cure="Name the folder for what is found.")
    if options.output is not None:
        check_output(Path(options.output))
    if _facts(options).keys() & {"min_pixels", "max_pixels"}:
        raise UsageError("a search takes the sizes of images from the profile", cure="State them in ocria.json.")
    bound = Bound.parse(options.bound)
    settings = _chosen(load_recipe(options.recipe or "nvfp4"), options)
    samples = _samples(options, None, reporter)
    if options.held_out:
        calibration, held_out = samples, _load(options, options.held_out, reporter)
    else:
        half = len(samples) // 2
        if not half:
            cure = "Give more pages, or others with --held-out."
            raise UsageError("a search needs something to calibrate on and something to measure on", cure=cure)
        calibration, held_out = samples[:half], samples[half:]
    found = run_search(
        options.checkpoint, held_out, Path(options.report), calibration=calibration, settings=settings, bound=bound,
        **_place(options), on_progress=_teller(reporter),
    )  # fmt: skip
    if options.output is not None:
        _write(options, found.recipe, samples, reporter)
    reporter.close()
    to_standard_output(json.dumps(found.to_dict(), indent=2) + "\n" if options.json else found.markdown())
    return EXIT_OK


def _samples(options: argparse.Namespace, recipe: Recipe | None, reporter: Reporter) -> list[Sample]:
    """What the model reads on the pages that are given; on made ones for the embedded model, where pages are needed."""
    from ocria.quant.calibration.made import made_pages, suit

    if options.calib:
        return _load(options, options.calib, reporter)
    if recipe is not None and not recipe.needs_pages:
        return []
    if not suit(options.checkpoint):
        what = "a search" if recipe is None else f"the recipe {recipe.name}"
        cure = "Name documents like those to be read with --calib." + (
            "" if recipe is None else " --scaling none --kv bf16 does without, where inputs are not quantised."
        )
        raise UsageError(f"{what} needs pages", cure=cure)
    reporter.show(Note("info", "no pages are given with --calib: made ones do"))
    with made_pages(options.seed) as pages:
        return _load(options, pages, reporter)


def _load(options: argparse.Namespace, pages: Sequence[str | Path], reporter: Reporter) -> list[Sample]:
    from ocria.quant.calibration.pages import load_samples

    tell = _teller(reporter)
    return load_samples(
        options.checkpoint, pages, limit=options.limit, seed=options.seed, device=options.device, facts=_facts(options),
        on_progress=lambda done, total: tell("reading pages", done, total),
    )  # fmt: skip


def _teller(reporter: Reporter) -> Callable[[str, int, int], None]:
    return lambda task, done, total: reporter.show(TaskProgress(task, done, total))


def _place(options: argparse.Namespace) -> dict[str, Any]:
    import torch

    kind = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    return {"device": kind, "dtype": getattr(torch, options.dtype or "float32")}


def _facts(options: argparse.Namespace) -> dict[str, Any]:
    """What the command line says of the checkpoint."""
    names = ("prompt", "unit", "max_output_tokens", "min_pixels", "max_pixels", "dialect")
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def _drafters(said: str) -> dict[str, Path] | None:
    """What --drafter means, as `quantize` takes it."""
    from ocria.quant.calibration.drafters import FOLDER

    if said == "auto":
        return None
    if said == "none":
        return {}
    if not (Path(said) / "config.json").is_file():
        raise UsageError(f"--drafter {said}: no folder of a drafter", cure="Give a folder, auto or none.")
    return {FOLDER: Path(said)}


def _print_recipes(recipes: list[Recipe], as_json: bool) -> None:
    if as_json:
        told = [{"name": r.name, "description": r.description, "needs_pages": r.needs_pages} for r in recipes]
        to_standard_output(json.dumps({"recipes": told}, indent=2) + "\n")
        return
    width = max(len(recipe.name) for recipe in recipes)
    to_standard_output("".join(f"{recipe.name:<{width}}  {recipe.description}\n" for recipe in recipes))


def _print_plan(options: argparse.Namespace, recipe: Recipe) -> None:
    from ocria.quant.calibration.plan import as_dict, as_text, plan_groups
    from ocria.quant.calibration.source import PlainCheckpoint

    groups = plan_groups(PlainCheckpoint.find(options.checkpoint), recipe)
    text = json.dumps(as_dict(recipe, groups), indent=2) if options.json else as_text(groups)
    to_standard_output(text + "\n")
