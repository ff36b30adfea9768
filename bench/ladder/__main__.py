"""What does each thing that makes ocria fast bring, on top of the ones before?

    python -m bench.ladder                                    ocria-nano on the CPU, batch 1, 8 and 32
    python -m bench.ladder --limit 12 --batch 1 --repeats 1   a quick look
    python -m bench.ladder --write                            and docs/ladder.md with its picture
    python -m bench.ladder --device cuda --model 4b-random    4B shapes with random weights

From transformers' generate up to everything at once, in one process, in turns, on the same pages. A rung whose answers
are not those of plain decoding has no speed. Progress goes to standard error; the last line of standard output is one
JSON document. Ctrl-C prints what is finished.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch
from samples import SamplesNotFound

from ocria.document.reader import NANO
from ocria.errors import OcriaError

from . import table
from .run import Progress, climb
from .rungs import BY_KEY, LADDER
from .subject import Subject, line_model

RANDOM = ("4b-random", "tiny-random")

LINES = 32
"""That are read where nobody says how many."""


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.ladder", description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--model", default="nano", metavar="M", help=f"nano (default), {', '.join(RANDOM)}, or a "
                        "line model's folder")  # fmt: skip
    parser.add_argument("--samples", metavar="DIR", help="read the real samples in place of examples/")
    parser.add_argument("--rung", nargs="+", choices=list(BY_KEY), metavar="R", help=f"of {', '.join(BY_KEY)}")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--limit", type=int, metavar="N", help=f"at most N requests (default: {LINES} lines)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    random = parser.add_argument_group("of models with random weights")
    random.add_argument("--accept", default="9,12", metavar="A,B", help="lengths that DFlash and DFlash2 are forced to")
    random.add_argument("--answer", type=int, metavar="N", help="at most N tokens an answer")
    random.add_argument("--compile", action="store_true", help="compile where rungs say so: minutes at 4B")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the ladder")
    parser.add_argument("--write", action="store_true", help="write docs/ladder.md and docs/ladder.png")
    arguments = parser.parse_args(argv)
    for name in ("limit", "repeats", "threads"):
        if getattr(arguments, name) is not None and getattr(arguments, name) < 1:
            parser.error(f"--{name} must be at least 1")
    try:
        arguments.accept = [float(length) for length in arguments.accept.split(",")]
    except ValueError:
        parser.error("--accept takes two numbers, such as 9,12")
    if len(arguments.accept) != 2:
        parser.error("--accept takes two numbers, such as 9,12")
    if min(arguments.batch) < 1:
        parser.error("--batch must be at least 1")
    arguments.batch = sorted(set(arguments.batch))
    return arguments


def subject_of(arguments: argparse.Namespace) -> Subject:
    """The model that was asked for, and what it reads."""
    if arguments.model in RANDOM:
        from .random_subject import random_subject

        return random_subject(
            arguments.model, arguments.device, arguments.limit, arguments.answer, arguments.accept, arguments.compile
        )
    folder = NANO if arguments.model == "nano" else Path(arguments.model)
    return line_model(folder, arguments.device, arguments.samples, arguments.limit or LINES)


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("ladder: torch sees no CUDA device", file=sys.stderr)
        return 2
    torch.set_num_threads(arguments.threads)
    try:
        return report(subject_of(arguments), arguments)
    except SamplesNotFound as error:
        print(f"ladder: {error}", file=sys.stderr)
        return 3
    except OcriaError as error:
        print(f"ladder: {error}", file=sys.stderr)
        return error.exit_code


def report(subject: Subject, arguments: argparse.Namespace) -> int:
    """Climb and print. Returns the exit code: 1 with a red gate, 130 after an interrupt."""
    rungs = [rung for rung in LADDER if not arguments.rung or rung.key in arguments.rung]
    found = climb(subject, rungs, arguments.batch, arguments.repeats, Progress())
    dtype = str(subject.loaded.network.dtype).removeprefix("torch.")
    how = table.method(found, arguments.threads, arguments.device, dtype, subject.made)
    print("\n".join(how) + "\n")
    print("\n".join(table.lines(found)))
    if arguments.write and not found.incomplete and not found.red:
        from .plot import plot

        plot(found, table.DOCS / "ladder.png")
        print(f"{table.write(found, how)} is written", file=sys.stderr)
    elif arguments.write:
        print("ladder: docs/ladder.md stays as it is: the run is incomplete, or a gate is red", file=sys.stderr)
    if arguments.plot:
        from .plot import plot

        plot(found, arguments.plot)
    print(json.dumps(table.document(found, how)))
    return 130 if found.incomplete else 1 if found.red else 0


if __name__ == "__main__":
    sys.exit(main())
