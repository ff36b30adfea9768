"""`ocria bench`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocria.cli.common import add_common, add_json
from ocria.cli.help import epilog
from ocria.cli.interrupt import interrupt_on_sigterm
from ocria.cli.options import add_engine, add_facts
from ocria.cli.output import to_standard_output
from ocria.cli.parse import take_inputs_anywhere
from ocria.errors import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EngineError,
    InputError,
    OutputError,
    TimeoutExceeded,
    UsageError,
)
from ocria.events import TaskProgress
from ocria.progress import Reporter

if TYPE_CHECKING:
    from ocria.benchmark.budget import Budget
    from ocria.benchmark.facts import Report

LEAST_S = 1.0
_DESCRIPTION = """\
Measure how fast this machine reads pages with a model, and say which options of
`ocria parse` suit it: drafts, batch, compiled steps, threads, and whether a
quantised model would help. It takes the time that --seconds gives it: the most
useful is measured first, and what there was no time for is listed.

Pages are those of the files, each read from its pixels, or drawn ones. Variants
run in turns on the same requests, and one whose answers differ has no speed.
Nothing is fetched, and nothing is written but what --save and --plot name.
"""
_EXAMPLES = [
    ("ocria bench", "The model that ships with ocria, two minutes."),
    ("ocria bench scans/*.pdf --model FOLDER --seconds 600", "Pages and a model of one's own, at length."),
    ("ocria bench --save here.json", "Keep the figures; --compare here.json shows them beside a later run."),
    ("ocria bench --json | jq '.advice'", "For programs."),
]


def add_bench(commands: Any) -> None:
    parser = commands.add_parser(
        "bench",
        help="measure how fast this machine reads, and say which options suit it",
        description=_DESCRIPTION,
        epilog=epilog(_EXAMPLES, exit_codes=True, engine=True, messages=True),
    )
    parser.set_defaults(run=_bench)
    parser.add_argument("inputs", nargs="*", metavar="FILE", help="documents to read (default: drawn pages)")
    take_inputs_anywhere(parser)
    measuring = parser.add_argument_group("measuring")
    measuring.add_argument(
        "--seconds", type=float, default=120.0, metavar="N", help="time that all of it may take (default: 120)"
    )
    measuring.add_argument(
        "--dpi", type=int, help="resolution of rendered PDF pages (default: that of the scan, or 300)"
    )
    output = parser.add_argument_group("output")
    add_json(output)  # type: ignore[arg-type]
    output.add_argument("--save", metavar="FILE", help="write the figures to a new file, as JSON")
    output.add_argument("--compare", metavar="FILE", help="show them beside those that --save wrote earlier")
    output.add_argument("--plot", metavar="FILE", help="draw the variants into a new PNG file; needs matplotlib")
    output.add_argument("--overwrite", action="store_true", help="replace the files of --save and --plot")
    add_engine(parser)
    add_facts(parser)
    add_common(parser)


def _bench(options: argparse.Namespace, reporter: Reporter) -> int:
    from ocria.benchmark.budget import Budget

    if not LEAST_S <= options.seconds < float("inf"):
        raise UsageError(f"--seconds must be at least {LEAST_S:g}, not {options.seconds:g}")
    budget = Budget(options.seconds)  # importing the engine is part of it
    for name in ("save", "plot"):
        _check_output(getattr(options, name), options.overwrite)
    missing = next((name for name in options.inputs if not os.path.isfile(name)), None)
    if missing is not None:
        raise InputError("no such file", path=missing, cure="Give documents, or nothing for drawn pages.")
    if not sys.warnoptions and not options.verbose:
        warnings.simplefilter("ignore")  # those of libraries
    interrupt_on_sigterm()
    with reporter:
        report, code = _measured(options, budget, reporter)
    _print(report, options)
    if options.save is not None:
        _write(options.save, json.dumps(report.to_dict(), indent=2) + "\n")
    if options.plot is not None:
        from ocria.benchmark.plot import plot

        plot(report, Path(options.plot))
    return code


def _measured(options: argparse.Namespace, budget: Budget, reporter: Reporter) -> tuple[Report, int]:
    """The report, also of a run that was interrupted, and the exit code. What ends a run before the machine is known
    is raised; a model that does not fit is told in the report as well."""
    from ocria.benchmark.advice import advise
    from ocria.benchmark.stages import new_report, run
    from ocria.document.options import OPTION_NAMES, ParseOptions

    if options.compare is not None:
        from ocria.benchmark.compare import load_run

        options.earlier = load_run(options.compare)
    if options.plot is not None:
        from ocria.benchmark.plot import need_matplotlib

        need_matplotlib()
    chosen = ParseOptions(**{name: getattr(options, name) for name in OPTION_NAMES if hasattr(options, name)})
    report, code = new_report(budget, options.inputs), EXIT_OK

    def tell(task: str) -> None:
        reporter.show(TaskProgress(task, round(budget.spent), round(budget.seconds), budget.left))

    try:
        run(options.inputs, chosen, budget, report, tell)
    except KeyboardInterrupt:
        report.interrupted, code = True, EXIT_INTERRUPTED
        reporter.error("interrupted", code)
    except EngineError as error:
        if report.machine is None:
            raise
        code = error.exit_code
        reporter.error(str(error), code)
    if report.page is None and code == EXIT_OK:
        code = TimeoutExceeded.exit_code
        reporter.error(f"nothing was measured in {options.seconds:g} s. Give --seconds more.", code)
    report.advice, report.verdict = advise(report)
    return report, code


def _print(report: Report, options: argparse.Namespace) -> None:
    from ocria.benchmark import compare
    from ocria.benchmark.report import as_text

    earlier = getattr(options, "earlier", None)
    if options.json:
        told = report.to_dict() | ({} if earlier is None else {"earlier": earlier})
        to_standard_output(json.dumps(told, indent=2) + "\n")
        return
    parts = [as_text(report)]
    if earlier is not None:
        parts.append(compare.as_text(earlier, report.to_dict()))
    to_standard_output("\n\n".join(parts) + "\n")


def _check_output(path: str | None, overwrite: bool) -> None:
    """Before anything is measured."""
    if path is None:
        return
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path) or "."):
        raise OutputError("is a folder, or in none that exists", path=path, cure="Name a file.")
    if os.path.exists(path) and not overwrite:
        raise OutputError("exists already", path=path, cure="Name another file, or give --overwrite.")


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror}", path=path) from error
