"""`ocria doctor`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ocria.cli.common import add_configuration, add_json
from ocria.cli.help import EXIT_CODES, epilog
from ocria.cli.options import add_engine, add_facts
from ocria.cli.output import to_standard_output
from ocria.cli.parser import Parser
from ocria.cli.serve import KEY_VARIABLE
from ocria.cli.settings import Settings, named, parsers, variable
from ocria.errors import EXIT_FAILED, EXIT_OK, EngineError
from ocria.progress import Reporter

_DESCRIPTION = """\
Look at everything that ocria needs, and say what is missing and what helps:
packages, settings, temporary files, the processes that draw pages, the device,
kernels and compilers, the model and how it would use the memory. The weights of
the model are not loaded. All options of the engine can be given.

The exit code is 0 if documents can be parsed, warnings or not, 7 if the engine
cannot run, and 1 if something else fails.
"""
_EXAMPLES = [
    ("ocria doctor", "Everything, with the model that ships with ocria."),
    ("ocria doctor --model owner/model --batch 32", "Whether a larger model fits, and with how many pages at a time."),
    ("ocria doctor --json | jq '.checks[] | select(.status != \"ok\")'", "What is amiss, for programs."),
]


def add_doctor(commands: Any) -> None:
    parser = commands.add_parser(
        "doctor",
        help="look at this machine, and say what is missing and what helps",
        description=_DESCRIPTION,
        epilog=f"{epilog(_EXAMPLES, engine=True)}\n{EXIT_CODES}",
    )
    add_json(parser)
    add_engine(parser)
    add_facts(parser)
    add_configuration(parser)
    parser.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace, reporter: Reporter) -> int:
    from ocria.doctor.check import FAIL, as_text
    from ocria.doctor.engine import engine_checks
    from ocria.doctor.machine import machine_checks
    from ocria.document.options import OPTION_NAMES, ParseOptions

    chosen = ParseOptions(**{name: getattr(options, name) for name in OPTION_NAMES if hasattr(options, name)})
    settings: Settings = options.settings
    checks = machine_checks([str(file.path) for file in settings.files], _variables(options.top))
    if not any(check.status == FAIL and check.engine for check in checks):
        checks += engine_checks(chosen)
    failed = [check for check in checks if check.status == FAIL]
    code = EXIT_OK if not failed else EXIT_FAILED
    if any(check.engine for check in failed):
        code = EngineError.exit_code
    if options.json:
        told = {"exit_code": code, "checks": [check.to_dict() for check in checks]}
        to_standard_output(json.dumps(told, indent=2, default=str) + "\n")
    else:
        to_standard_output(as_text(checks) + "\n")
    for check in failed:
        reporter.error(f"{check.name}: {check.found}", code)
    return code


def _variables(top: Parser) -> set[str]:
    """The environment variables of all commands."""
    settings = named(action for parser in parsers(top) for action in parser.options())
    return {KEY_VARIABLE, *map(variable, settings)}
