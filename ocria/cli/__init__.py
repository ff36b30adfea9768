"""The `ocria` command.

Standard output carries data only; progress, notes and errors go to standard error. Nothing heavy is imported
before it is needed, so that help and errors of usage come at once.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import traceback
from collections.abc import Sequence

from ocria import __version__
from ocria.cli.bench import add_bench
from ocria.cli.cache import add_cache
from ocria.cli.cluster_batch import add_batch
from ocria.cli.completion import add_completion
from ocria.cli.config import add_config
from ocria.cli.doctor import add_doctor
from ocria.cli.help import EXIT_CODES, add_help, epilog
from ocria.cli.models import add_models
from ocria.cli.parse import add_parse
from ocria.cli.parser import Parser
from ocria.cli.quantize import add_quantize
from ocria.cli.serve import add_serve
from ocria.cli.settings import settle
from ocria.cli.tui import add_tui
from ocria.errors import EXIT_INTERRUPTED, EXIT_OK, OcriaError
from ocria.progress import Log, Reporter, make_reporter
from ocria.spinning import spin_briefly

_DESCRIPTION = """\
Turn PDFs and page images into Markdown, HTML, text, JSON or searchable PDFs,
on this machine.

Data goes to standard output; progress, notes and errors go to standard error.
"""
_EXAMPLES = [
    ("ocria parse scan.png", "Markdown of an image to standard output."),
    ("ocria tui", "The terminal app: choose documents and watch them being read."),
    ("ocria help parse", "What parse can do; the same as `ocria parse --help`."),
    ("ocria doctor", "What this machine has, and what is missing."),
    ('eval "$(ocria completion bash)"', "Completion of commands and options, in this shell."),
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    spin_briefly()
    parser = build_parser()
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given:
        with contextlib.suppress(OSError, AttributeError):  # standard error is full, or closed
            sys.stderr.write(parser.format_help())
        return 2
    reporter = Reporter()
    try:
        options = parser.parse_args(given)
    except OcriaError as error:  # help, or the version, that cannot be written
        reporter.error(str(error), error.exit_code)
        return error.exit_code
    if options.progress == "json":
        reporter = make_reporter("json")
    log = None
    try:
        options.top, options.settings = parser, settle(options, parser)
        log = _open_log(options)
        reporter = make_reporter(options.progress, quiet=options.quiet, verbose=options.verbose, log=log)
        if log is not None:
            log.begin(__version__, options.parser.prog, _worth_telling(options))
        code = _run(options, reporter)
        if log is not None:
            log.end(code)
    except OcriaError as error:
        reporter.error(str(error), error.exit_code)
        return error.exit_code
    except Exception:
        # A fault of ocria itself: it ends the run as Python does, and the log holds it too.
        if log is not None:
            log.error(traceback.format_exc(), 1)
        raise
    finally:
        if log is not None:
            log.close()
    return code


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(prog="ocria", description=_DESCRIPTION, epilog=f"{epilog(_EXAMPLES)}\n{EXIT_CODES}")
    parser.add_argument("--version", action="version", version=f"ocria {__version__}")
    parser.set_defaults(progress="none", quiet=False, verbose=False, log_file=None, log_format="text")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_parse(commands)
    add_tui(commands, commands.choices["parse"])
    add_batch(commands, commands.choices["parse"])
    add_serve(commands)
    add_models(commands)
    add_quantize(commands)
    add_bench(commands)
    add_doctor(commands)
    add_config(commands, commands.choices["parse"])
    add_cache(commands)
    add_completion(commands)
    add_help(commands)
    return parser


def _run(options: argparse.Namespace, reporter: Reporter) -> int:
    try:
        return options.run(options, reporter)
    except BrokenPipeError:
        return EXIT_OK  # the reader of our output has seen enough
    except KeyboardInterrupt:
        reporter.error("interrupted", EXIT_INTERRUPTED)
        return EXIT_INTERRUPTED


def _open_log(options: argparse.Namespace) -> Log | None:
    return None if options.log_file is None else Log(options.log_file, options.log_format)


def _worth_telling(options: argparse.Namespace) -> dict[str, object]:
    """What a log begins with: the inputs, and every setting that is not its default."""
    inputs = {action.dest: getattr(options, action.dest) for action in options.parser.arguments()}
    return {**inputs, **{item.name: item.shown for item in options.settings.items if item.origin != "default"}}
