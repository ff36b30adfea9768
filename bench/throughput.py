"""How fast does the engine read lines, beside transformers' `generate` with the same weights?

    python bench/throughput.py                        the shipped samples, batch 1, 8 and 32
    python bench/throughput.py --compile              and the engine's compiled step beside its eager one
    python bench/throughput.py --compile --draft auto and both of them with drafts
    python bench/throughput.py --model runs/nano/export page.png scan.pdf

All read the same line images in one process, in turns. No speed is printed unless all give the same
text for every line. The last line of standard output is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np

from ocria.document.reader import NANO
from ocria.errors import OcriaError

ROOT = Path(__file__).resolve().parents[1]
OURS, PEER = "ocria", "transformers"
PAGES = [ROOT / "examples" / "scan.png", ROOT / "examples" / "report.pdf"]


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES, help="images and PDFs to take lines from")
    parser.add_argument("--model", type=Path, default=NANO, metavar="FOLDER")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--compile", action="store_true", help="measure the compiled step too")
    parser.add_argument("--draft", metavar="D", help="measure with drafts too, as ocria's --draft")
    parser.add_argument("--profile", action="store_true", help="say where the engine's time goes, by pass")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N lines")
    return parser.parse_args(argv)


def page_lines(path: Path) -> list[list[np.ndarray]]:
    """The line images (uint8 `[40, W]`) of every page of a file; PDF pages are rendered at 300 dpi."""
    import pymupdf
    from readers import grey_image

    from ocria.document.lines import find_lines
    from ocria.model.line import line_image

    if path.suffix.lower() == ".pdf":
        with pymupdf.open(path) as document:
            pixels = [page.get_pixmap(dpi=300, colorspace=pymupdf.csGRAY) for page in document]
        pages = [np.frombuffer(p.samples, np.uint8).reshape(p.height, p.width) for p in pixels]
    else:
        pages = [grey_image(path)]
    return [[line_image(line.crop) for line in find_lines(page).lines] for page in pages]


class Ours:
    """The engine of ocria; one Engine a batch size, made before anything is timed."""

    def __init__(self, loaded, batches: list[int], compiled: bool = False, draft: str = "none"):
        from ocria.runtime.engine import Engine
        from ocria.runtime.options import EngineOptions

        self.loaded = loaded
        profile = self.loaded.profile
        self.prompt = self.loaded.tokenizer.encode(
            self.loaded.tokenizer.render(profile.messages(), **profile.template_kwargs)
        )
        self.engines = {
            batch: Engine(self.loaded, EngineOptions(max_batch=batch, compile=compiled, draft=draft))
            for batch in batches
        }

    def generate(self, images: list[np.ndarray], batch: int) -> list[list[int]]:
        """Output token ids of each line image, without the end token."""
        return [list(result.tokens) for result in self.results(images, batch)]

    def results(self, images: list[np.ndarray], batch: int) -> list:
        from ocria.runtime.request import Request

        requests = [Request(number, self.prompt, [image]) for number, image in enumerate(images)]
        return self.engines[batch].run(requests)


@dataclass(frozen=True, slots=True)
class Difference:
    """A line that one of ours does not read like the peer."""

    line: int
    batch: int
    name: str
    ours: str
    theirs: str


def differences(sides: dict, images: list[np.ndarray], batches: list[int]) -> list[Difference]:
    """Lines whose output differs from the peer's, over all batch sizes; this run is the warm-up too."""
    decode = sides[OURS].loaded.tokenizer.decode
    found = []
    for batch in batches:
        peer = sides[PEER].generate(images, batch)
        for name, side in sides.items():
            if name == PEER:
                continue
            for number, (a, b) in enumerate(zip(side.generate(images, batch), peer, strict=True)):
                if decode(a) != decode(b):
                    found.append(Difference(number, batch, name, decode(a), decode(b)))
        print(f"batch {batch}: {len(found)} lines differ", file=sys.stderr)
    return found


def measure(sides: dict, images: list[np.ndarray], batches: list[int], repeats: int) -> dict:
    """Wall seconds by batch size and side; within a repeat all run back to back, in alternating order."""
    seconds: dict[int, dict[str, list[float]]] = {b: {name: [] for name in sides} for b in batches}
    order = list(sides.items())
    for repeat in range(repeats):
        for batch in batches:
            for name, side in order if repeat % 2 == 0 else order[::-1]:
                start = time.perf_counter()
                side.generate(images, batch)
                seconds[batch][name].append(time.perf_counter() - start)
            print(f"repeat {repeat + 1}/{repeats}, batch {batch} done", file=sys.stderr)
    return seconds


def rows(seconds: dict, tokens: int, lines: int, pages: float) -> list[dict]:
    """Medians of one batch size each, and how many times as fast as the peer each of ours is within a repeat: median,
    least and greatest.

    `pages` is how many pages the lines amount to at the mean number of lines a page.
    """
    found = []
    for batch, sides in seconds.items():
        row: dict = {"batch": batch, "ratios": {}}
        for name, times in sides.items():
            if name != PEER:
                ratios = [b / a for a, b in zip(times, sides[PEER], strict=True)]
                row["ratios"][name] = {"median": median(ratios), "least": min(ratios), "greatest": max(ratios)}
        for name, times in sides.items():
            middle = median(times)
            row[name] = {
                "seconds": times,
                "tokens_per_s": tokens / middle,
                "lines_per_s": lines / middle,
                "pages_per_min": 60 * pages / middle,
            }
        found.append(row)
    return found


def print_table(table: list[dict]) -> None:
    print(f"{'batch':>5} {'':<20} {'tokens/s':>9} {'lines/s':>8} {'pages/min':>10} {'spread':>14}")
    for row in table:
        for name in [*row["ratios"], PEER]:
            side, ratio = row[name], row["ratios"].get(name)
            spread = f"{min(side['seconds']):.2f}–{max(side['seconds']):.2f} s"
            speeds = f"{side['tokens_per_s']:>9.0f} {side['lines_per_s']:>8.1f} {side['pages_per_min']:>10.1f}"
            times = "" if ratio is None else f"{ratio['median']:.2f}x ({ratio['least']:.2f}–{ratio['greatest']:.2f})"
            print(f"{row['batch']:>5} {name:<20} {speeds} {spread:>14}  {times}")


def where(ours: Ours, images: list[np.ndarray], batch: int) -> dict[str, float]:
    """Seconds of one more run by pass: the vision encoder, prefill without it, steps, and the host around them."""
    metrics = ours.engines[batch].metrics
    before = (metrics.encoder_seconds, metrics.prefill_seconds, metrics.decode_seconds)
    start = time.perf_counter()
    ours.generate(images, batch)
    wall = time.perf_counter() - start
    after = (metrics.encoder_seconds, metrics.prefill_seconds, metrics.decode_seconds)
    encoder, prefill, decode = (b - a for a, b in zip(before, after, strict=True))
    return {"encoder": encoder, "prefill": prefill - encoder, "steps": decode, "host": wall - prefill - decode}


def print_profile(profile: dict[int, dict[str, dict[str, float]]]) -> None:
    for batch, sides in profile.items():
        for name, parts in sides.items():
            whole = sum(parts.values())
            shares = ", ".join(f"{part} {100 * seconds / whole:.0f} %" for part, seconds in parts.items())
            print(f"{batch:>5} {name:<20} {shares}")


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    try:
        return compare(arguments)
    except OcriaError as error:
        print(f"throughput: {error}", file=sys.stderr)
        return error.exit_code


def compare(arguments: argparse.Namespace) -> int:
    """Check that both read alike, then measure and print. Returns the exit code."""
    import torch
    import transformers
    from generate import Transformers

    from ocria.model.checkpoint import load_model

    torch.set_num_threads(arguments.threads)
    dtype = getattr(torch, arguments.dtype)
    pages = [lines for path in arguments.pages for lines in page_lines(path)]
    found = [image for lines in pages for image in lines]
    images = found[: arguments.limit]
    if not images:
        print("throughput: no text lines found on these pages", file=sys.stderr)
        return 2
    loaded = load_model(arguments.model, dtype=dtype, device=arguments.device)
    ours = Ours(loaded, arguments.batch)
    read = ours.results(images, max(arguments.batch))
    # What our guards end early (a loop, the length limit) `generate` would run on with: no comparison there.
    kept = [image for image, result in zip(images, read, strict=True) if result.status == "ok"]
    tokens = sum(len(result.tokens) for result in read if result.status == "ok")
    if not kept:
        print("throughput: the model reads no line to its end", file=sys.stderr)
        return 1
    longest = max(len(result.tokens) for result in read if result.status == "ok")
    pad = ours.loaded.tokenizer.eos_ids[0]
    limit = 2 * longest + 16  # far beyond any line: whoever reaches it has gone wrong and shows as a difference
    sides: dict = {OURS: ours}
    drafts = ["none", *[arguments.draft] * (arguments.draft is not None)]
    for compiled, draft in product([False, True] if arguments.compile else [False], drafts):
        name = " ".join([OURS, *["compiled"] * compiled, *[draft] * (draft != "none")])
        if name not in sides:
            sides[name] = Ours(loaded, arguments.batch, compiled, draft)
    sides[PEER] = Transformers(arguments.model, ours.prompt, pad, limit, dtype, arguments.device)
    different = differences(sides, kept, arguments.batch)
    how = [
        f"{len(kept)} lines of the {len(found)} of {len(pages)} pages, {tokens} output tokens "
        f"({tokens / len(kept):.0f} a line; "
        f"{len(images) - len(kept)} lines left out that our guards ended). Greedy, {arguments.dtype}, "
        f"{arguments.device}, {arguments.threads} threads, torch {torch.__version__}.",
        "Timed: from line images to token ids, image preprocessing included, loading and line finding not. "
        f"transformers {transformers.__version__} generate, eager, widest lines first, left padding. "
        f"{arguments.repeats} repeats in turns after one warm-up; medians.",
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}.",
    ]
    print("\n".join(how) + "\n")
    document = {"bench": "throughput", "method": how, "lines": len(kept), "tokens": tokens}
    if different:
        for one in different[:10]:
            print(f"line {one.line}, batch {one.batch}, {one.name}\n  {one.ours!r}\n  {PEER}: {one.theirs!r}")
        print(f"{len(different)} outputs differ: no speed is reported.")
        print(json.dumps({**document, "same_output": False, "different": len(different)}))
        return 1
    seconds = measure(sides, kept, arguments.batch, arguments.repeats)
    table = rows(seconds, tokens, len(kept), len(pages) * len(kept) / len(found))
    print_table(table)
    document |= {"same_output": True, "batches": table}
    if arguments.profile:
        profile = {
            batch: {name: where(side, kept, batch) for name, side in sides.items() if name != PEER}
            for batch in arguments.batch
        }
        print()
        print_profile(profile)
        document["profile"] = profile
    print(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
