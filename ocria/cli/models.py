"""`ocria models`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ocria.cli.common import add_configuration, add_json
from ocria.cli.help import epilog
from ocria.cli.options import add_device
from ocria.cli.output import to_standard_output
from ocria.errors import EXIT_OK
from ocria.progress import Reporter

_DESCRIPTION = """\
List the models that ocria knows, and those on this machine: the one that ships
with it, and what was fetched from the hub. Sizes come from the headers of the
files; nothing is loaded and nothing is fetched. A folder can be given to
`ocria parse --model` as well.
"""


def add_models(commands: Any) -> None:
    parser = commands.add_parser(
        "models",
        help="list models, and which of them are on this machine",
        description=_DESCRIPTION,
        epilog=epilog([("ocria models --dtype bfloat16", "Sizes in memory as they would be in bfloat16.")]),
    )
    add_json(parser)
    add_device(parser.add_argument_group("engine"))
    add_configuration(parser)
    parser.set_defaults(run=_models)


def _models(options: argparse.Namespace, reporter: Reporter) -> int:
    from ocria.doctor.models import as_table, models

    found = models(options.dtype, options.device)
    if options.json:
        to_standard_output(json.dumps({"models": [model.to_dict() for model in found]}, indent=2) + "\n")
    else:
        to_standard_output(as_table(found) + "\n")
    return EXIT_OK
