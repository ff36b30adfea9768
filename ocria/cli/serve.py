"""`ocria serve`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from ocria.cli.common import add_configuration
from ocria.cli.help import epilog
from ocria.cli.options import add_engine, add_facts
from ocria.errors import EXIT_OK, InputError, MissingDependencyError, UsageError
from ocria.progress import LOG_FORMATS, Reporter

KEY_VARIABLE = "OCRIA_API_KEY"
_DESCRIPTION = """\
Read documents for other programs, over HTTP: POST /v1/parse takes a file and
gives Markdown, HTML, JSON, text or a searchable PDF; /v1/chat/completions is
there for clients of OpenAI that send images of pages; / is a web page.

The server listens on this machine alone unless told otherwise, and fetches
nothing: no path and no URL that a client names is ever opened. SIGTERM and
Ctrl-C let it finish what it reads; once more cancels that.
"""
_EXAMPLES = [
    ("ocria serve", "At http://127.0.0.1:8000, with the model that ships with ocria."),
    ("ocria serve --host 0.0.0.0 --api-key-file key", "For other machines too, which need the key."),
    ("curl -F file=@scan.pdf http://127.0.0.1:8000/v1/parse", "Markdown of a document."),
]


def add_serve(commands: Any) -> None:
    parser = commands.add_parser(
        "serve",
        help="read documents for other programs, over HTTP",
        description=_DESCRIPTION,
        epilog=epilog(_EXAMPLES, exit_codes=True, engine=True),
    )
    parser.set_defaults(run=_serve)
    server = parser.add_argument_group("server")
    server.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="to listen on (default: 127.0.0.1)")
    server.add_argument("--port", type=int, metavar="N", default=8000, help="0 for any that is free (default: 8000)")
    server.add_argument(
        "--api-key-file",
        metavar="FILE",
        help="file whose first line is what clients must know (default: OCRIA_API_KEY, else none)",
    )
    server.add_argument(
        "--served-model-name",
        metavar="NAME",
        action="append",
        help="what the model is called beside its own name, for clients that ask for another; repeatable",
    )
    server.add_argument("--grace", type=float, metavar="S", default=30.0, help="seconds to finish at the end (30)")
    server.add_argument("--jobs", type=int, metavar="N", default=2, help="processes that open and draw files (2)")
    limits = parser.add_argument_group("limits")
    limits.add_argument("--queue", type=int, metavar="N", default=64, help="requests that wait; more get 429 (64)")
    limits.add_argument("--concurrency", type=int, metavar="N", default=4, help="documents read at the same time (4)")
    limits.add_argument("--max-bytes", metavar="SIZE", default="64M", help="of a request (64M)")
    limits.add_argument("--max-pages", type=int, metavar="N", default=1000, help="of a request (1000)")
    pixels = 100_000_000
    limits.add_argument("--max-image-pixels", type=int, metavar="N", default=pixels, help=f"of an image ({pixels})")
    limits.add_argument(
        "--timeout", type=float, metavar="S", default=900.0, help="seconds for a document, waiting included (900)"
    )
    limits.add_argument(
        "--page-timeout",
        type=float,
        metavar="S",
        default=120.0,
        help="seconds for a page to be drawn, and again with the model (120)",
    )
    limits.add_argument("--upload-timeout", type=float, metavar="S", default=60.0, help="seconds for a body (60)")
    limits.add_argument("--keep-jobs", type=int, metavar="N", default=32, help="jobs kept when they are done (32)")
    limits.add_argument("--keep-seconds", type=float, metavar="S", default=600.0, help="for how long (600)")
    log = parser.add_argument_group("messages, on standard error")
    log.add_argument("-q", "--quiet", action="store_true", help="no line for each request")
    log.add_argument("--log-format", choices=LOG_FORMATS, default="text", help="of these lines (default: text)")
    add_engine(parser)
    add_facts(parser)
    add_configuration(parser)


def _serve(options: argparse.Namespace, reporter: Reporter) -> int:
    from ocria.document.options import OPTION_NAMES, ParseOptions, parse_size

    key = _key(options.api_key_file)
    names = {name for name in OPTION_NAMES if hasattr(options, name)} - {"timeout"}
    base = ParseOptions(**{name: getattr(options, name) for name in names})
    try:
        from ocria.serve.options import ServeOptions
        from ocria.serve.run import Server
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ocria"):
            raise
        cure = "Install it with `pip install 'ocria[serve]'`"
        raise MissingDependencyError(f"the server needs the package {error.name}", cure=cure) from error
    chosen = ServeOptions(
        host=options.host,
        port=options.port,
        key=key,
        names=tuple(options.served_model_name or ()),
        queue=options.queue,
        concurrency=options.concurrency,
        max_bytes=parse_size(options.max_bytes),
        max_pages=options.max_pages,
        max_pixels=options.max_image_pixels,
        timeout=options.timeout,
        upload_timeout=options.upload_timeout,
        grace=options.grace,
        keep_jobs=options.keep_jobs,
        keep_seconds=options.keep_seconds,
        log_format=options.log_format,
        quiet=options.quiet,
    )
    server = Server(chosen, base, _say)
    if not chosen.loopback and key is None:
        _say(f"warning: everybody who reaches {options.host} may use this server; --api-key-file asks for a key")
    server.serve_until_stopped()
    return EXIT_OK


def _say(line: str) -> None:
    print(f"ocria serve: {line}", file=sys.stderr, flush=True)


def _key(path: str | None) -> bytes | None:
    """The key, from a file or the environment, where no child process finds it. Raises InputError, UsageError."""
    told = os.environ.pop(KEY_VARIABLE, "")
    if path is not None:
        try:
            with Path(path).open(encoding="utf-8") as file:
                told = file.readline()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError("the file with the key cannot be read", path=path) from error
        if not told.strip():
            raise UsageError(f"{path} has no key in its first line")
    return told.strip().encode() or None
