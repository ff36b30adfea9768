"""`ocria cache`: what is kept on disk, and how to be rid of it."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ocria.cli.common import add_json
from ocria.cli.output import to_standard_output
from ocria.errors import EXIT_OK
from ocria.progress import Reporter

_DESCRIPTION = """\
Show or empty what ocria keeps on disk beside its outputs: compiled code of
`--compile` and of GPU kernels. Models fetched from the hub are shown and never
removed; `hf cache` does that.
"""


def add_cache(commands: Any) -> None:
    parser = commands.add_parser("cache", help="show or clear compiled code", description=_DESCRIPTION)
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    show = below.add_parser("show", help="where caches are, and how large", description=_DESCRIPTION)
    add_json(show)
    show.set_defaults(run=_show)
    clear = below.add_parser(
        "clear",
        help="remove compiled code",
        description="Remove compiled code; it is made again when it is needed. Not while ocria runs.",
    )
    clear.set_defaults(run=_clear)


def _show(options: argparse.Namespace, reporter: Reporter) -> int:
    from ocria.doctor.caches import caches
    from ocria.doctor.sizes import told

    found = caches()
    if options.json:
        rows = [{"name": c.name, "folder": str(c.folder), "bytes": c.bytes, "cleared": c.ours} for c in found]
        to_standard_output(json.dumps({"caches": rows}, indent=2) + "\n")
    else:
        width = max(len(cache.name) for cache in found)
        to_standard_output("".join(f"{c.name:<{width}}  {told(c.bytes):>10}  {c.folder}\n" for c in found))
    return EXIT_OK


def _clear(options: argparse.Namespace, reporter: Reporter) -> int:
    from ocria.doctor.caches import clear_caches
    from ocria.doctor.sizes import told

    reporter.say(f"{told(clear_caches())} freed")
    return EXIT_OK
