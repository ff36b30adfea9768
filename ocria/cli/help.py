"""What stands under the options in the help of a command, and `ocria help`."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from typing import Any

from ocria.cli.output import to_standard_output
from ocria.cli.parser import Parser, nearest
from ocria.errors import EXIT_OK, UsageError
from ocria.progress import Reporter

EXIT_CODES = """\
exit codes:
  0    all good
  1    a document failed
  2    usage: an option, a variable or a key of a file that cannot be met
  3    some pages failed
  4    an input is missing, unreadable, corrupt or of an unsupported kind
  5    encrypted, or the password is wrong
  6    an output or the log cannot be written, or the output exists
  7    the engine, its model or its device is not available
  8    timed out
  130  interrupted; finished pages are kept
"""
_ENVIRONMENT = """\
environment:
  OCRIA_NAME       any option by its long name: OCRIA_PAGE_TIMEOUT=60 is
                   --page-timeout 60, OCRIA_GRAPH=0 is --no-graph. What is said
                   on the command line goes first, then the environment, then
                   the configuration file.
"""
_ENGINE_VARIABLES = """\
  HF_HUB_CACHE, HF_HOME, HF_HUB_OFFLINE
                   where models from the hub are kept; 1 forbids the network
  TORCHINDUCTOR_CACHE_DIR
                   where compiled code is kept
"""
_MESSAGE_VARIABLES = """\
  NO_COLOR, TERM=dumb, CI
                   no colours; plain lines where there would be bars
"""
_FILES = """\
files:
  ~/.config/ocria/config.toml
                   options as `name = value` (below XDG_CONFIG_HOME if that is
                   set); `ocria config show` tells what holds, and why
"""
_ENGINE_FILES = """\
  ~/.cache/ocria   compiled code (below XDG_CACHE_HOME if that is set)
"""


def epilog(
    examples: Sequence[tuple[str, str]] = (), *, exit_codes: bool = False, engine: bool = False, messages: bool = False
) -> str:
    """What stands under the options: examples, a command line and what it does each; exit codes; environment and
    files, with those of the engine and of messages."""
    parts = []
    if examples:
        told = "\n".join(f"  {line}\n{textwrap.indent(textwrap.fill(what, 70), '      ')}" for line, what in examples)
        parts.append(f"examples:\n{told}\n")
    if exit_codes:
        parts.append(EXIT_CODES)
    parts.append(_ENVIRONMENT + _ENGINE_VARIABLES * engine + _MESSAGE_VARIABLES * messages)
    parts.append(_FILES + _ENGINE_FILES * engine)
    return "\n".join(parts)


def add_help(commands: Any) -> None:
    parser = commands.add_parser(
        "help",
        help="explain a command",
        description="Explain a command, or ocria as a whole.",
        epilog="examples:\n  ocria help parse\n  ocria help config show\n",
    )
    topic = parser.add_argument("topic", nargs="*", metavar="COMMAND", help="the command and what follows it")
    topic.completions = commands.choices
    parser.set_defaults(run=_help)


def _help(options: argparse.Namespace, reporter: Reporter) -> int:
    parser: Parser = options.top
    for word in options.topic:
        below = parser.commands()
        if word not in below:
            cure = f"There are: {', '.join(below)}." if below else None
            raise UsageError(f"{parser.prog} has no command {word!r}{nearest(word, list(below))}", cure=cure)
        parser = below[word]
    to_standard_output(parser.format_help())
    return EXIT_OK
