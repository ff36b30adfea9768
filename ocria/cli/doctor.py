"""`ocria doctor` and `ocria models`."""

from __future__ import annotations

import argparse
from typing import Any

from ocria.cli.options import add_engine, add_facts
from ocria.cli.output import to_standard_output
from ocria.errors import EXIT_OK
from ocria.progress import Reporter


def add_doctor(commands: Any) -> None:
    parser = commands.add_parser(
        "doctor",
        help="show versions, devices, and how a model would use the memory",
        description="Show versions, devices, and how a model would use the memory; its weights are not loaded.",
    )
    parser.set_defaults(run=_doctor)
    add_engine(parser)
    add_facts(parser)


def add_models(commands: Any) -> None:
    parser = commands.add_parser("models", help="list the kinds of checkpoint that ocria knows")
    parser.set_defaults(run=_models)


def _models(options: argparse.Namespace, reporter: Reporter) -> int:
    from ocria.doctor import models_report

    to_standard_output(models_report() + "\n")
    return EXIT_OK


def _doctor(options: argparse.Namespace, reporter: Reporter) -> int:
    from ocria.doctor import doctor_report, memory_report
    from ocria.document.options import OPTION_NAMES, ParseOptions

    chosen = ParseOptions(**{name: getattr(options, name) for name in OPTION_NAMES if hasattr(options, name)})
    to_standard_output(doctor_report() + "\n")
    to_standard_output(memory_report(chosen) + "\n")
    return EXIT_OK
