"""The `ocria` command.

Standard output carries data only; progress, notes and errors go to standard error. Nothing heavy is imported
before it is needed, so that help and errors of usage come at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ocria import __version__
from ocria.cli.doctor import add_doctor, add_models
from ocria.cli.parse import add_parse
from ocria.errors import EXIT_INTERRUPTED, EXIT_OK, OcriaError
from ocria.progress import make_reporter


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    reporter = make_reporter(options.progress, quiet=options.quiet, verbose=options.verbose)
    try:
        return options.run(options, reporter)
    except OcriaError as error:
        reporter.error(str(error), error.exit_code)
        return error.exit_code
    except BrokenPipeError:
        return EXIT_OK  # the reader of our output has seen enough
    except KeyboardInterrupt:
        reporter.error("interrupted", EXIT_INTERRUPTED)
        return EXIT_INTERRUPTED


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="ocria",
        description="Turn PDFs and page images into Markdown, text or JSON, on this machine.",
        epilog="`ocria COMMAND --help` lists the options of a command.",
    )
    parser.add_argument("--version", action="version", version=f"ocria {__version__}")
    parser.set_defaults(progress="none", quiet=False, verbose=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_parse(commands)
    add_models(commands)
    add_doctor(commands)
    return parser
