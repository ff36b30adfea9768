"""`ocria tui`: the terminal app. It lies outside of this package and on top of it, so it is imported by name, and not
before it runs."""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from ocria.cli.help import epilog
from ocria.cli.parse import OUTPUT_DIR, take_inputs_anywhere
from ocria.cli.parser import Parser
from ocria.errors import MissingDependencyError, UsageError
from ocria.progress import Reporter

_DESCRIPTION = """\
Read documents and watch them being read: page images, text as it comes, and how
fast the engine is. Finished documents are written as `ocria parse --output-dir`
writes them, and the next run goes on where this one was stopped.

Where there is no terminal, in CI jobs, and on terminals that cannot redraw
(TERM=dumb) it prints a line for each thing that happens instead, as with
--plain. Press ? in the app for all keys.
"""
_EXAMPLES = [
    ("ocria tui scan.pdf", "Read a document. Without files, choose them in the app."),
    ("ocria tui papers/*.pdf --mode model --record run.jsonl", "Keep what happens in a file."),
    ("ocria tui --replay run.jsonl --speed 4", "Watch it again, four times as fast, without a model."),
]
# Options of `ocria parse` that mean nothing here: there is one place for outputs, and the app shows what happens.
_LEFT_OUT = {
    "help", "output", "files_from", "null", "dry_run", "quiet", "verbose", "progress", "log_file", "log_format",
}  # fmt: skip
_BATCH = ("page_markers", "overwrite", "resume", "retry_failed")
_FIND = ("recursive", "include", "exclude")


def add_tui(commands: Any, parse: Parser) -> None:
    """`parse`: the parser of the command whose options this one has too."""
    parser = commands.add_parser(
        "tui",
        help="read documents in the terminal app",
        description=_DESCRIPTION,
        epilog=epilog(_EXAMPLES, exit_codes=True, engine=True, messages=True),
    )
    parser.set_defaults(run=_tui)
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help="files, folders, or patterns such as '**/*.pdf'")
    take_inputs_anywhere(parser)
    app = parser.add_argument_group("app")
    app.add_argument("--theme", metavar="NAME", help="colours; the app lists them with ctrl+p (default: the one kept)")
    app.add_argument(
        "--keymap",
        metavar="FILE",
        help="TOML file with keys, such as `export = \"w\"` (default: $XDG_CONFIG_HOME/ocria/keymap.toml or "
        "~/.config/ocria/keymap.toml, if it is there)",
    )
    app.add_argument(
        "--no-images", dest="page_images", action="store_false", help="no images of pages (for figures see --images)"
    )
    app.add_argument("--ascii", action="store_true", help="no characters beyond ASCII for borders, glyphs and bars")
    app.add_argument("--no-animation", dest="animation", action="store_false", help="nothing moves")
    app.add_argument(
        "--plain", action="store_true", help="lines of text in place of the app, for screen readers and logs"
    )
    record = parser.add_argument_group("recordings")
    record.add_argument("--record", metavar="FILE", help="write everything that happens to FILE")
    record.add_argument("--replay", metavar="FILE", help="show what such a file holds; no model is loaded")
    record.add_argument("--speed", type=float, metavar="X", default=1.0, help="of the replay (default: 1)")
    parser.share(parse, _LEFT_OUT)


def _tui(options: argparse.Namespace, reporter: Reporter) -> int:
    from ocria.document.options import OPTION_NAMES, ParseOptions
    from ocria.password import given_password

    if options.replay is not None:
        if options.inputs or options.record is not None:
            raise UsageError("a recording is shown alone", cure="Give --replay without files and without --record")
    elif any(item.name == "speed" and item.origin == "command line" for item in options.settings.items):
        raise UsageError("--speed is that of a replay", cure="Give it with --replay FILE")
    if not 0 < options.speed < float("inf"):
        raise UsageError(f"--speed must be above 0, not {options.speed:g}")
    if "-" in options.inputs:
        raise UsageError("standard input is the keyboard here", cure="Save the document to a file first")
    chosen = {name: getattr(options, name) for name in OPTION_NAMES}
    chosen["password"] = given_password(options.password, options.password_file)
    ParseOptions(**chosen)
    chosen |= {name: getattr(options, name) for name in _BATCH}
    chosen |= {name: getattr(options, name) for name in _FIND if getattr(options, name)}
    chosen["output_dir"] = options.output_dir or OUTPUT_DIR
    chosen["formats"] = tuple(dict.fromkeys(options.format or ("md",)))
    return _app().run(
        options.inputs,
        chosen,
        replay=options.replay,
        speed=options.speed,
        record=options.record,
        theme=options.theme,
        keymap=options.keymap,
        images=options.page_images,
        ascii_only=options.ascii,
        animation=options.animation,
        plain=options.plain,
        fail_on=options.fail_on,
    )


def _app() -> Any:
    """What starts the app. Raises MissingDependencyError: its extra is not installed."""
    try:
        importlib.import_module("textual")
        return importlib.import_module("ocria_tui.run")
    except ModuleNotFoundError as error:
        cure = "Install it with `pip install 'ocria[tui]'`"
        raise MissingDependencyError(f"the app needs the package {error.name}", cure=cure) from error
