"""What do drafts bring, and which ones?

    python bench/spec.py                              every drafter that the embedded model has, batch 1, 8 and 32
    python bench/spec.py --draft none vision DRAFTER  plain decoding beside these
    python bench/spec.py --samples ../shared/samples  on real scans and born-digital pages

Lines come from scans, and from born-digital pages with what their text layer says of each line as a guess. All drafters
read the same lines in one process, in turns. No speed is printed unless every answer is that of plain decoding; where
two tokens are equally likely but for rounding, either is, and such lines are counted. The last line of standard output
is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

from gate import TIE, gate
from page_lines import BORN, SCANS, Line, even, file_lines, sample_lines
from samples import SamplesNotFound
from throughput import PAGES

from ocria.document.reader import NANO
from ocria.errors import OcriaError

PLAIN = "none"
SHOWN = 15  # positions of a block in the table


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES, help="images and PDFs to take lines from")
    parser.add_argument("--samples", metavar="FOLDER", help="take them from the real samples instead")
    parser.add_argument("--model", type=Path, default=NANO, metavar="FOLDER")
    parser.add_argument("--draft", nargs="+", metavar="D", help="as ocria's --draft; default: all that the model has")
    parser.add_argument("--draft-rows", type=int, metavar="N", help="rows of every step, instead of a choice for each")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", action="store_true", help="compiled steps")
    parser.add_argument("--limit", type=int, default=120, metavar="N", help="at most N lines of each kind")
    parser.add_argument("--check", action="store_true", help="compare answers and count drafts; time nothing")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw what holds at each position, and the speeds")
    return parser.parse_args(argv)


class Side:
    """One way to draft: an engine for each batch size, made before anything is timed."""

    def __init__(self, loaded, draft: str, arguments: argparse.Namespace):
        from ocria.runtime.engine import Engine
        from ocria.runtime.options import EngineOptions

        self.loaded, self.draft = loaded, draft
        profile = loaded.profile
        self._prompt = loaded.tokenizer.encode(loaded.tokenizer.render(profile.messages(), **profile.template_kwargs))
        options = {"compile": arguments.compile, "draft": draft}
        if draft != PLAIN:
            options["draft_rows"] = arguments.draft_rows
        self._engines = {batch: Engine(loaded, EngineOptions(max_batch=batch, **options)) for batch in arguments.batch}

    def requests(self, lines: list[Line]) -> list:
        from ocria.runtime.request import Request

        return [Request(number, self._prompt, [line.image], guess=line.guess) for number, line in enumerate(lines)]

    def read(self, lines: list[Line], batch: int) -> list:
        """The results of all lines."""
        return self._engines[batch].run(self.requests(lines))

    def decoded(self, batch: int) -> tuple[float, int]:
        """Seconds of all steps so far, and the tokens they chose."""
        metrics = self._engines[batch].metrics
        return metrics.decode_seconds, metrics.emitted

    def how(self) -> str:
        """What it came to."""
        return next(iter(self._engines.values())).options.levers()


def measure(sides: dict[str, Side], lines: list[Line], batches: list[int], repeats: int) -> dict:
    """By batch and side, for each repeat: wall seconds, seconds of the steps, tokens of the steps."""
    times: dict = {batch: defaultdict(list) for batch in batches}
    order = list(sides.items())
    for repeat in range(repeats):
        for batch in batches:
            for name, side in order if repeat % 2 == 0 else order[::-1]:
                before, began = side.decoded(batch), time.perf_counter()
                side.read(lines, batch)
                wall = time.perf_counter() - began
                seconds, tokens = (b - a for a, b in zip(before, side.decoded(batch), strict=True))
                times[batch][name].append((wall, seconds, tokens))
            print(f"repeat {repeat + 1}/{repeats}, batch {batch} done", file=sys.stderr)
    return times


def speed_rows(times: dict) -> list[dict]:
    """Medians, and how many times as fast as plain decoding, within a repeat: median, least, greatest."""
    found = []
    for batch, sides in times.items():
        for name, runs in sides.items():
            row = {"batch": batch, "draft": name, "tokens_per_s": median(t / w for w, _, t in runs)}
            row["decode_tokens_per_s"] = median(t / s for _, s, t in runs)
            for key, part in (("ratio", 0), ("decode_ratio", 1)):
                ratios = [plain[part] / own[part] for own, plain in zip(runs, sides[PLAIN], strict=True)]
                row[key] = {"median": median(ratios), "least": min(ratios), "greatest": max(ratios)}
            found.append(row)
    return found


def print_acceptance(found: dict) -> None:
    """One line a drafter and kind of page; by position the share of blocks in which that many drafts held."""
    print(f"{'drafter':<22} {'lines':<13} {'accepted':>8} {'drafted':>8}  held up to draft 1, 2, … in %")
    for (name, kind), acceptance in found.items():
        steps = acceptance.steps
        curve = " ".join(f"{100 * held / steps:3.0f}" for held in acceptance.accepted_at()[:SHOWN])
        drafted = acceptance.drafted / steps
        length = acceptance.accept_length or 1.0
        print(f"{name:<22} {kind:<13} {length:>8.2f} {drafted:>8.1f}  {curve}")


def print_speeds(rows: list[dict]) -> None:
    print(f"{'batch':>5} {'drafter':<22} {'tokens/s':>9} {'times plain':>19} {'in steps':>9} {'times plain':>19}")
    for row in rows:
        ratios = row["ratio"], row["decode_ratio"]
        shown = [f"{ratio['median']:.2f}x ({ratio['least']:.2f}–{ratio['greatest']:.2f})" for ratio in ratios]
        print(
            f"{row['batch']:>5} {row['draft']:<22} {row['tokens_per_s']:>9.0f} {shown[0]:>19} "
            f"{row['decode_tokens_per_s']:>9.0f} {shown[1]:>19}"
        )


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    try:
        return compare(arguments)
    except SamplesNotFound as error:
        print(f"spec: {error}", file=sys.stderr)
        return 3
    except OcriaError as error:
        print(f"spec: {error}", file=sys.stderr)
        return error.exit_code


def names_of(model: Path) -> list[str]:
    """Everything that can draft for the model, alone and together."""
    from ocria.spec.vision import has_reading

    own = [str(folder) for folder in sorted(model.glob("drafter*")) if (folder / "config.json").is_file()]
    chained = ["lookup,vision,own"] if has_reading(model) and (model / "drafter").is_dir() else []
    return [PLAIN, "lookup", *["vision"] * has_reading(model), *own, "auto", *chained]


def compare(arguments: argparse.Namespace) -> int:
    """Check that all read alike, then measure and print. Returns the exit code."""
    import torch

    from ocria.model.checkpoint import load_model
    from ocria.runtime.acceptance import Acceptance
    from ocria.runtime.teacher import Teacher

    torch.set_num_threads(arguments.threads)
    if arguments.samples:
        lines = even(sample_lines(arguments.samples), arguments.limit)
    else:
        lines = even([line for path in arguments.pages for line in file_lines(path)], arguments.limit)
    if not lines:
        print("spec: no text lines found on these pages", file=sys.stderr)
        return 2
    loaded = load_model(arguments.model, dtype=torch.float32)
    chosen = list(dict.fromkeys([PLAIN, *(arguments.draft or names_of(arguments.model))]))
    sides = {Path(name).name if Path(name).is_dir() else name: Side(loaded, name, arguments) for name in chosen}
    teacher, gates, acceptance = Teacher(loaded), {}, {}
    requests = sides[PLAIN].requests(lines)
    for batch in arguments.batch:
        plain = sides[PLAIN].read(lines, batch)
        for name, side in sides.items():
            results = side.read(lines, batch)
            gates[name, batch] = gate(plain, results, requests, teacher)
            if batch == max(arguments.batch) and name != PLAIN:
                for kind in (SCANS, BORN):
                    parts = [r.acceptance for r, line in zip(results, lines, strict=True) if line.kind == kind]
                    if parts:
                        acceptance[name, kind] = sum(parts, Acceptance())
        print(f"batch {batch} checked", file=sys.stderr)
    tokens = sum(len(result.tokens) for result in plain)
    kinds = ", ".join(f"{sum(line.kind == kind for line in lines)} of {kind}" for kind in (SCANS, BORN))
    how = [
        f"{len(lines)} lines ({kinds} pages), {tokens} output tokens. Greedy, float32, cpu, {arguments.threads} "
        f"threads, {'compiled' if arguments.compile else 'eager'} steps, torch {torch.__version__}.",
        "Accepted: rows committed in a step for each request, the token that the target adds included; counted at "
        f"batch {max(arguments.batch)}. Tokens/s: from line images to token ids; in steps: drafting, verifying, "
        f"accepting alone. {arguments.repeats} repeats in turns after one warm-up; medians, ratios within a repeat.",
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}.",
        *(f"{name}: {side.how()}" for name, side in sides.items()),
    ]
    print("\n".join(how) + "\n")
    document: dict = {"bench": "spec", "method": how, "lines": len(lines), "tokens": tokens}
    print_acceptance(acceptance)
    document["acceptance"] = [
        {"draft": name, "lines": kind, **counted.as_dict()} for (name, kind), counted in acceptance.items()
    ]
    ties = sum(g.ties for g in gates.values())
    wrong = sum(g.different - g.ties for g in gates.values())
    print(f"\n{wrong} answers differ from plain decoding, and {ties} more at a tie within {TIE:g}.\n")
    document |= {"different": wrong, "ties": ties}
    if wrong:
        print("No speed is reported.")
        print(json.dumps(document))
        return 1
    if arguments.check:
        print(json.dumps(document))
        return 0
    document["speeds"] = speed_rows(measure(sides, lines, arguments.batch, arguments.repeats))
    print_speeds(document["speeds"])
    if arguments.plot:
        from spec_plot import plot

        plot(document, arguments.plot)
    print(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
