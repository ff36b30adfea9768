"""`ocria config`: what holds, and where it comes from."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ocria.cli.common import add_configuration, add_json
from ocria.cli.help import epilog
from ocria.cli.output import to_standard_output
from ocria.cli.parser import Parser
from ocria.cli.settings import Settings, variable
from ocria.config import default_path
from ocria.errors import EXIT_OK
from ocria.progress import Reporter, printable

_EXAMPLES = [
    ("ocria config show", "Every setting of parse with its value and its origin."),
    ("OCRIA_BATCH=8 ocria config show --device cpu --json", "The same with what is said here."),
    ("$EDITOR $(ocria config path)", "Change the file. A line such as `batch = 8` is an option."),
]
_SHOW = """\
Print every setting of `ocria parse` with its value and where that comes from.
All options of parse can be given. Of a password it is only said that it is set.
"""


def add_config(commands: Any, parse: Parser) -> None:
    """`parse`: the parser of the command whose settings are shown."""
    parser = commands.add_parser(
        "config",
        help="show settings and where they come from",
        description="Show settings and where they come from.",
        epilog=epilog(_EXAMPLES),
    )
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    show = below.add_parser(
        "show",
        help="every setting with its value and its origin",
        description=_SHOW,
        epilog=epilog(_EXAMPLES[:2]),
    )
    add_json(show)
    add_configuration(show)
    show.adopt(parse)
    show.set_defaults(run=_show)
    path = below.add_parser(
        "path",
        help="where the configuration file is looked for",
        description="Print the path of the configuration file, whether it is there or not.",
        epilog=epilog(_EXAMPLES[2:]),
    )
    path.set_defaults(run=_path)


def _show(options: argparse.Namespace, reporter: Reporter) -> int:
    settings: Settings = options.settings
    to_standard_output(_json(settings) if options.json else _table(settings))
    return EXIT_OK


def _path(options: argparse.Namespace, reporter: Reporter) -> int:
    to_standard_output(f"{default_path()}\n")
    return EXIT_OK


def _json(settings: Settings) -> str:
    items = {
        item.name: {"value": item.shown, "origin": item.origin, "source": item.source, "variable": variable(item.name)}
        for item in settings.items
        if item.name != "json"
    }
    files = [str(file.path) for file in settings.files]
    return json.dumps({"files": files, "settings": items}, indent=2, default=str) + "\n"


def _table(settings: Settings) -> str:
    rows = [
        (item.name, _shown(item.shown), item.origin if item.source is None else f"{item.origin}: {item.source}")
        for item in settings.items
        if item.name != "json"
    ]
    names, values = (max(len(row[column]) for row in rows) for column in (0, 1))
    values = min(values, 30)
    lines = [f"{name:<{names}}  {value:<{values}}  {origin}".rstrip() for name, value, origin in rows]
    files = ", ".join(str(file.path) for file in settings.files) or f"none ({default_path()} is not there)"
    return "".join(f"{printable(line)}\n" for line in [*lines, "", f"configuration file: {files}"])


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "-"
    return str(value)
