"""`ocria parse --dry-run`: what a run would do, as lines for people or as JSON Lines."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from ocria.batch.inputs import Found
from ocria.batch.options import BatchOptions
from ocria.batch.plan import Planned, plan
from ocria.batch.tally import worst_code
from ocria.cli.output import to_standard_output
from ocria.cli.parse_many import batch_options
from ocria.document.options import ParseOptions
from ocria.errors import EXIT_OK
from ocria.progress import Reporter, printable


def dry_run(found: Found, options: argparse.Namespace, chosen: dict[str, Any], reporter: Reporter) -> int:
    """Print the plan to standard output; returns the exit code that faults of the inputs give."""
    to_folder = found.many or options.output_dir is not None
    as_json = bool({"json", "jsonl"} & set(options.format or ()))
    batch = batch_options(options) if to_folder else BatchOptions()
    codes = []
    with reporter:
        for planned in plan(found.inputs, ParseOptions(**chosen), batch):
            codes.append(EXIT_OK if planned.fault is None else planned.fault.exit_code)
            lines = [json.dumps(_as_dict(planned))] if as_json else [printable(line) for line in _lines(planned)]
            to_standard_output("".join(f"{line}\n" for line in lines))
    return worst_code(codes, options.fail_on)


def _lines(planned: Planned) -> Iterator[str]:
    if planned.fault is not None:
        cure = "" if planned.fault.cure is None else f". {planned.fault.cure}"
        yield f"{planned.path}: {planned.fault.message}{cure}"
        return
    if planned.done is not None:
        yield f"{planned.path}: done before ({planned.done})"
        return
    counts = {"kept": planned.kept, **planned.routes}
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    yield f"{planned.path}: {planned.pages} {'page' if planned.pages == 1 else 'pages'} ({told})"
    for output in planned.outputs:
        yield f"  -> {output}"


def _as_dict(planned: Planned) -> dict[str, Any]:
    fault = planned.fault
    error = None if fault is None else {"message": fault.message, "cure": fault.cure, "exit_code": fault.exit_code}
    return {
        "path": planned.path,
        "pages": planned.pages,
        "kept": planned.kept,
        "routes": planned.routes,
        "outputs": list(planned.outputs),
        "done": planned.done,
        "error": error,
    }
