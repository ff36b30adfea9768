"""What does quantising cost, and what does it bring? Every recipe on real documents.

    python bench/quant.py                                  all recipes, all samples
    python bench/quant.py --recipe fp8 nvfp4 --limit 2     a quick look
    python bench/quant.py --plot quant.png

The model is quantised by each recipe, calibrated on made pages, and the checkpoints that are written read the lines of
the samples: CER and WER against the truth. Beside that stand how far its distributions move over the plain model's own
answers, tokens accepted a step with its drafter, the bytes of weights that a step reads, and speed, which is printed
only where every answer is what the checkpoint itself finds likeliest. The last line of standard output is one JSON
document.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch
from readers import grey_image
from report import Reading, summary
from samples import GROUPS, SamplesNotFound, find_samples, image_file, load_items
from tesseract import cache_folder

from ocria.document.reader import NANO
from ocria.errors import OcriaError, UsageError
from ocria.quant.recipe import Recipe, load_recipe, recipe_names

SCORED = [group for group in GROUPS if group != "turned"]  # pages are cut into lines as they lie
PLAIN = "bf16"
TIE = 1e-4
"""Logits that are nearer to each other than this may come out in either order."""


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", metavar="DIR", help="the real samples (default: OCRIA_SAMPLES)")
    parser.add_argument("--model", type=Path, default=NANO, metavar="FOLDER", help="a line model (default: ocria-nano)")
    parser.add_argument("--recipe", nargs="+", metavar="R", help="recipes, names or files (default: all of ocria's)")
    parser.add_argument("--whole", action="store_true", help="leave out recipes with other ways to round")
    parser.add_argument("--group", action="append", choices=SCORED, help="repeatable; default all")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N pages of each group, and 10 N line images")
    parser.add_argument("--held-out", type=int, default=150, metavar="N", help="answers to compare distributions on")
    parser.add_argument("--calib", type=int, default=128, metavar="N", help="made lines to calibrate on")
    parser.add_argument("--drafted", type=int, default=100, metavar="N", help="lines to draft for")
    parser.add_argument("--timed", type=int, default=48, metavar="N", help="lines to time; 0 for none")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the document there after every recipe too")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw errors and bytes")
    return parser.parse_args(argv)


def variants(names: list[str] | None, whole: bool = False) -> dict[str, Recipe]:
    """Recipes by what they are called in the table: each as it is, and where it is scaled also with plain rounding,
    with scaling alone, and without GPTQ, but not for `whole`. The cache stays in BF16."""
    found = {PLAIN: load_recipe(PLAIN)}
    for name in names or recipe_names():
        recipe = replace(load_recipe(name), kv="bf16")
        if recipe.scaling == "awq" and not whole:
            scaled = replace(recipe, block_scales="none", gptq=False)
            found[f"{recipe.name}, plain rounding"] = replace(scaled, scaling="none")
            found[f"{recipe.name}, scaling alone"] = scaled
            found[f"{recipe.name}, without GPTQ"] = replace(recipe, gptq=False)
        if recipe not in found.values():
            found[recipe.name] = recipe
    return found


@dataclass(frozen=True, slots=True)
class Work:
    """An item of the samples, and the requests of its lines in order."""

    item: object
    requests: list


def requests_of(items: list, loaded) -> list[Work]:
    """The lines of all items as the reader would ask for them; the lines of pages are found once."""
    from ocria.document.lines import find_lines
    from ocria.model.line import crop_to_ink
    from ocria.runtime.request import Request
    from ocria.train.drafter.sources import pieces

    profile, tokenizer = loaded.profile, loaded.tokenizer
    if profile.unit != "line":
        raise UsageError(f"{profile.name} reads {profile.unit}s, and this bench cuts pages into lines")
    prompt = tokenizer.encode(tokenizer.render(profile.messages(), **profile.template_kwargs))
    works, number = [], 0
    for item in items:
        gray = grey_image(image_file(item, cache_folder()))
        crops = [crop_to_ink(gray)] if GROUPS[item.group].unit == "line" else [c.crop for c in find_lines(gray).lines]
        requests = []
        for image in (piece for crop in crops for piece in pieces(crop)):
            requests.append(Request(number, prompt, [image]))
            number += 1
        works.append(Work(item, requests))
    return works


@dataclass(frozen=True, slots=True)
class Held:
    """What all checkpoints are measured on. reference: what the plain model says of the answers held_out."""

    works: list[Work]
    held_out: list
    reference: object
    drafted: list


class Side:
    """A checkpoint and engines on it."""

    def __init__(self, folder: Path, batch: int):
        self.folder, self._batch = folder, batch

    def engine(self, draft: str = "auto", activations: str = "full", **options):
        from ocria.model.checkpoint import load_model
        from ocria.runtime.engine import Engine
        from ocria.runtime.options import EngineOptions

        loaded = load_model(self.folder, dtype=torch.float32)
        chosen = EngineOptions(max_batch=self._batch, draft=draft, activations=activations, **options)
        return Engine(loaded, chosen)

    def read(self, works: list[Work], activations: str) -> list[Reading]:
        """What it makes of every item."""
        results = iter(self.engine(activations=activations).run([r for work in works for r in work.requests]))
        readings = []
        for work in works:
            own = [next(results) for _ in work.requests]
            text = "\n".join(r.text if r.loop_start is None else r.text[: r.loop_start] for r in own)
            worst = next((r.status for r in own if r.status != "ok"), "ok")
            seconds = sum(r.seconds for r in own)
            readings.append(Reading(work.item.group, work.item.name, work.item.truth, text, seconds, worst))
        return readings

    def loss(self, held_out: list, reference, activations: str):
        """How far its distributions are from those of the plain model."""
        from ocria.model.checkpoint import load_model
        from ocria.model.weights import list_tensors
        from ocria.quant.calibration.passes import Passes
        from ocria.quant.formats import read_quantized
        from ocria.quant.simulate import simulated

        loaded = load_model(self.folder, dtype=torch.float32, quantized="decode")
        weights = read_quantized(self.folder, list_tensors(self.folder))
        with simulated(loaded.network, weights, activations == "quantised"):
            return reference.compare(passes=Passes(loaded, held_out))

    def accept_length(self, requests: list) -> float | None:
        """Tokens of a step and request with the checkpoint's own drafter; None where it has none."""
        from ocria.runtime.acceptance import Acceptance

        if not (self.folder / "drafter").is_dir():
            return None
        results = self.engine("own", draft_rows=16).run(requests)
        return sum((result.acceptance for result in results), Acceptance()).accept_length


def scores(readings: list[Reading]) -> dict:
    """By group, and over all whose truth has an order (`all`)."""
    found = {group: summary([one for one in readings if one.group == group])
             for group in dict.fromkeys(one.group for one in readings)}  # fmt: skip
    ordered = [one.score for one in readings if GROUPS[one.group].measure == "cer"]
    unordered = [one.score.f1 for one in readings if GROUPS[one.group].measure == "f1"]
    chars, words = sum(s.chars for s in ordered), sum(s.words for s in ordered)
    found["all"] = {
        "cer": sum(s.char_edits for s in ordered) / chars if chars else None,
        "wer": sum(s.word_edits for s in ordered) / words if words else None,
        "f1": sum(unordered) / len(unordered) if unordered else None,
    }
    return found


def evaluate(name: str, side: Side, work: Held, inputs: list[str]) -> dict:
    """Everything about one checkpoint but its speed, with inputs as they are, and rounded where that is asked for."""
    from ocria.quant.step_bytes import parts_of_checkpoint, step_bytes

    row: dict = {"recipe": name, "bytes": step_bytes(parts_of_checkpoint(side.folder))}
    for activations in inputs:
        loss = side.loss(work.held_out, work.reference, activations)
        readings = side.read(work.works, activations)
        row[activations] = {
            "kl": loss.kl,
            "agreement": loss.agreement,
            "tokens": loss.tokens,
            "scores": scores(readings),
            "texts": [reading.output for reading in readings],
        }
    row["accept_length"] = side.accept_length(work.drafted)
    return row


def gate(folder: Path, requests: list, results: list) -> int:
    """How many answers hold a token that the checkpoint does not find likeliest, but for ties."""
    from ocria.model.checkpoint import load_model
    from ocria.runtime.teacher import Teacher

    teacher = Teacher(load_model(folder, dtype=torch.float32))
    return sum(
        float(teacher.regrets(request, result).max()) >= TIE
        for request, result in zip(requests, results, strict=True)
        if result.status == "ok"
    )


def measure(sides: dict[str, Side], requests: list, repeats: int) -> tuple[dict, dict]:
    """Wrong answers by side, and (wall seconds, step seconds, tokens) of every repeat, all sides in turn."""
    engines = {name: side.engine(draft="none") for name, side in sides.items()}
    wrong = {name: gate(sides[name].folder, requests, engine.run(requests)) for name, engine in engines.items()}
    times: dict = {name: [] for name in engines}
    order = list(engines.items())
    for repeat in range(repeats):
        for name, engine in order if repeat % 2 == 0 else order[::-1]:
            before, began = engine.metrics.decode_seconds, time.perf_counter()
            tokens = sum(result.tokens_out for result in engine.run(requests))
            times[name].append((time.perf_counter() - began, engine.metrics.decode_seconds - before, tokens))
        print(f"repeat {repeat + 1}/{repeats} timed", file=sys.stderr)
    return wrong, times


def speeds(times: dict) -> dict[str, dict]:
    """Medians, and how many times as fast as the plain checkpoint within a repeat: median, least and greatest."""
    found = {}
    for name, runs in times.items():
        # Answers differ in length: a time is that of a token.
        ratios = [(p[0] / p[2]) / (own[0] / own[2]) for own, p in zip(runs, times[PLAIN], strict=True)]
        found[name] = {
            "tokens_per_s": median(tokens / wall for wall, _, tokens in runs),
            "decode_tokens_per_s": median(tokens / seconds for _, seconds, tokens in runs),
            "ratio": {"median": median(ratios), "least": min(ratios), "greatest": max(ratios)},
        }
    return found


def percent(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{100 * value:.{digits}f}"


def table(rows: list[dict]) -> list[str]:
    """Markdown: a line a recipe and way to treat inputs. Differences are those to the plain checkpoint, in points."""
    plain = rows[0]["full"]["scores"]["all"]
    lines = [
        "| recipe | inputs | kB a step | CER % | points | WER % | F1 | tokens changed % | KL | accepted | tokens/s |",
        "|" + "---|" * 11,
    ]
    for row in rows:
        for inputs in ("full", "quantised"):
            if inputs not in row:
                continue
            found = row[inputs]
            whole = found["scores"]["all"]
            away = "" if whole["cer"] is None else f"{100 * (whole['cer'] - plain['cer']):+.3f}"
            f1 = "" if whole["f1"] is None else f"{whole['f1']:.4f}"
            first = inputs == "full"
            accepted = f"{row['accept_length']:.2f}" if first and row["accept_length"] else ""
            speed = row.get("speed")
            fast = f"{speed['tokens_per_s']:.0f} ({speed['ratio']['median']:.2f}x)" if first and speed else ""
            name, size = (row["recipe"], f"{row['bytes'] / 1e3:.0f}") if first else ("", "")
            lines.append(
                f"| {name} | {inputs} | {size} | {percent(whole['cer'], 3)} | {away} | {percent(whole['wer'])} | {f1} "
                f"| {percent(1 - found['agreement'], 3)} | {found['kl']:.1e} | {accepted} | {fast} |"
            )
    return lines


def group_lines(rows: list[dict]) -> list[str]:
    """Markdown: CER % by group, or F1 where the truth has no order; inputs as they are."""
    groups = [group for group in rows[0]["full"]["scores"] if group != "all"]
    lines = [f"| recipe | {' | '.join(GROUPS[group].title for group in groups)} |", "|---" * (len(groups) + 1) + "|"]
    for row in rows:
        found = row["full"]["scores"]
        cells = [
            percent(found[group]["cer"], 3) if GROUPS[group].measure == "cer" else f"{found[group]['f1']:.4f}"
            for group in groups
        ]
        lines.append(f"| {row['recipe']} | {' | '.join(cells)} |")
    return lines


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    try:
        with tempfile.TemporaryDirectory(prefix="ocria-quant-") as folder:
            return compare(arguments, Path(folder))
    except SamplesNotFound as error:
        print(f"quant: {error}", file=sys.stderr)
        return 3
    except OcriaError as error:
        print(f"quant: {error}", file=sys.stderr)
        return error.exit_code


def load_works(arguments: argparse.Namespace, loaded) -> list[Work]:
    groups = [group for group in SCORED if not arguments.group or group in arguments.group]
    found = find_samples(arguments.samples)
    items = []
    for group in groups:
        many = 10 if GROUPS[group].unit == "line" else 1
        items += load_items(found, [group], limit=arguments.limit and many * arguments.limit)
    return requests_of(items, loaded)


def evenly(things: list, count: int) -> list:
    """At most so many, from everywhere."""
    step = max(1.0, len(things) / max(1, count))
    return [things[int(i * step)] for i in range(min(count, len(things)))]


def compare(arguments: argparse.Namespace, folder: Path) -> int:
    from ocria.model.checkpoint import load_model
    from ocria.quant.calibration.made import made_pages
    from ocria.quant.calibration.pages import Sample, load_samples
    from ocria.quant.calibration.passes import Passes
    from ocria.quant.calibration.run import quantize
    from ocria.quant.search.divergence import Reference

    torch.set_num_threads(arguments.threads)
    loaded = load_model(arguments.model, dtype=torch.float32)
    works = load_works(arguments, loaded)
    asked = [request for work in works for request in work.requests]
    recipes = variants(arguments.recipe, arguments.whole)
    calibration: list[Sample] = []
    if any(recipe.needs_pages for recipe in recipes.values()):
        with made_pages() as pages:
            calibration = load_samples(arguments.model, pages, limit=arguments.calib)
    chosen = evenly(asked, arguments.held_out)
    results = Side(arguments.model, arguments.batch).engine().run(chosen)
    held_out = [Sample(q, r) for q, r in zip(chosen, results, strict=True) if r.status == "ok"]
    reference = Reference(Passes(loaded, held_out), len(held_out))
    held = Held(works, held_out, reference, evenly(asked, arguments.drafted))
    timed = evenly(asked, arguments.timed)
    how = [
        f"{len(works)} items with {len(asked)} lines; pages are cut into lines once, and every checkpoint reads the "
        "same ones, in fp32 with drafts that change no answer. CER and WER over groups whose truth has an order, F1 "
        "over the others; texts compared as in bench/accuracy.py.",
        f"Calibrated on {len(calibration)} lines of made pages, compared on {len(held_out)} answers of the plain model "
        f"to lines of the samples: tokens whose likeliest choice changed, and KL divergence in nats a token.",
        f"Accepted: rows a step and request with the model's own drafter, quantised alike, in steps of 16 rows, over "
        f"{len(held.drafted)} lines. Inputs quantised: rounded where the format says so.",
        f"Tokens/s: {len(timed)} lines, batch {arguments.batch}, no drafts, weights decoded once on the CPU; "
        f"{arguments.repeats} repeats in turns after one warm-up, medians, ratios within a repeat.",
        f"torch {torch.__version__}, {arguments.threads} threads, {platform.machine()}, {os.cpu_count()} cores.",
    ]
    document: dict = {"bench": "quant", "method": how, "items": len(works), "lines": len(asked), "rows": []}
    sides: dict[str, Side] = {}
    for number, (name, recipe) in enumerate(recipes.items()):
        out, began = folder / str(number), time.perf_counter()
        report = quantize(arguments.model, recipe, calibration if recipe.needs_pages else (), out)
        sides[name] = Side(out, arguments.batch)
        # The ways to round weights are compared with inputs as they are.
        rounds = any(f.activations != "none" for _, f in recipe.rules) and name == recipe.name
        row = evaluate(name, sides[name], held, ["full", *["quantised"] * rounds])
        row["errors"] = {one.name: (one.error, one.output_error) for one in report.modules}
        document["rows"].append(row)
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
        print(table(document["rows"])[-1 - rounds], file=sys.stderr)
        if arguments.json:
            arguments.json.write_text(json.dumps(document), encoding="utf-8")
    wrong: dict[str, int] = {}
    if timed:
        wrong, times = measure(sides, timed, arguments.repeats)
        document["wrong"] = wrong
        if not any(wrong.values()):
            for row, speed in zip(document["rows"], speeds(times).values(), strict=True):
                row["speed"] = speed
    print("\n".join([*how, "", *table(document["rows"]), "", *group_lines(document["rows"]), ""]))
    if any(wrong.values()):
        print(f"Answers that are not the likeliest of their checkpoint: {wrong}. No speed is reported.")
    if arguments.plot:
        from quant_plot import plot

        plot(document, arguments.plot)
    for row in document["rows"]:
        for inputs in ("full", "quantised"):
            row.get(inputs, {}).pop("texts", None)
    print(json.dumps(document))
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
