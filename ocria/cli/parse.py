"""`ocria parse`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO

from ocria.cli.options import add_engine, add_facts
from ocria.cli.output import to_standard_output
from ocria.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_PARTIAL,
    InputError,
    OutputError,
    TimeoutExceeded,
    UsageError,
)
from ocria.progress import KINDS, Reporter

if TYPE_CHECKING:
    from ocria.document.result import Document
    from ocria.events import Event

_FORMATS = ("md", "text", "json")
_EXIT_OF_STATUS = {
    "ok": EXIT_OK,
    "partial": EXIT_PARTIAL,
    "failed": EXIT_FAILED,
    "interrupted": EXIT_INTERRUPTED,
}
_DESCRIPTION = """\
Parse a document; its Markdown goes to standard output. It is a PDF, an image (PNG, JPEG, TIFF with all
its pages, WebP, GIF, BMP, JPEG 2000, AVIF, PNM, HEIC with ocria[heic]), a book (EPUB, MOBI, FB2, XPS, CBZ),
an office file (DOCX, PPTX, XLSX), HTML, SVG, Markdown or plain text.
"""
_EPILOG = """\
exit codes:
  0 all good   1 the document failed   2 usage   3 some pages failed   4 input unreadable or corrupt
  5 encrypted or wrong password   6 output not writable or exists   7 engine or device unavailable
  8 timed out   130 interrupted (finished pages are written)
"""


def add_parse(commands: Any) -> None:
    parser = commands.add_parser(
        "parse",
        help="parse a document",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=parse)
    parser.add_argument("file", metavar="FILE", help="the document, or - for standard input")
    parser.add_argument("-p", "--pages", metavar="RANGES", help="pages such as 1-3,8 or 5- (1-based; default: all)")
    parser.add_argument("--password", help="password of an encrypted PDF; seen by other users of the machine")
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        help="file whose first line is the password (default: OCRIA_PASSWORD, else asked for on a terminal)",
    )

    output = parser.add_argument_group("output")
    output.add_argument("-o", "--output", metavar="FILE", default="-", help="file to write; - is standard output")
    output.add_argument("-f", "--format", choices=_FORMATS, help="default: by the name of the output, else md")
    output.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")
    output.add_argument(
        "--table-format",
        choices=("auto", "md", "html", "csv"),
        default="auto",
        help="how tables stand in Markdown (default: md, html where cells span)",
    )
    output.add_argument(
        "--images",
        choices=("none", "placeholder", "embed", "extract"),
        default="none",
        help="what becomes of figures (default: none)",
    )
    output.add_argument(
        "--keep-headers-footers", action="store_true", help="running headers and footers too (JSON always has them)"
    )
    output.add_argument("--page-markers", action="store_true", help="mark where each page begins")
    output.add_argument("-q", "--quiet", action="store_true", help="only errors on standard error")
    output.add_argument(
        "-v", "--verbose", action="store_true", help="routes, timings, what the engine uses, warnings of all libraries"
    )
    output.add_argument(
        "--progress",
        choices=KINDS,
        default="auto",
        help="on standard error: a live bar, plain lines, one JSON object an event, or none (default: a bar on a "
        "terminal)",
    )

    reading = parser.add_argument_group("reading")
    reading.add_argument(
        "--mode",
        choices=("auto", "model", "text"),
        default="auto",
        help="auto: trustworthy text layers as they are, other pages through the model (default); "
        "model: every page from its pixels; text: never load the model",
    )
    reading.add_argument("--dpi", type=int, help="resolution of rendered PDF pages (default: that of the scan, or 300)")
    reading.add_argument("--timeout", type=float, metavar="SECONDS", help="most time of a document")
    reading.add_argument(
        "--page-timeout",
        type=float,
        metavar="SECONDS",
        help="most time of a page, to be drawn and again in the model, where pages read together share it; what was "
        "read until then is kept",
    )
    reading.add_argument(
        "-j", "--jobs", type=int, metavar="N", help="processes that open and draw files; 0: none (default: 1)"
    )
    add_engine(parser)
    add_facts(parser)


def parse(options: argparse.Namespace, reporter: Reporter) -> int:
    from ocria.document.api import stream
    from ocria.document.options import OPTION_NAMES
    from ocria.document.ranges import parse_ranges
    from ocria.events import DocumentDone
    from ocria.password import events_once_unlocked, given_password

    if not sys.warnoptions and (options.quiet or not options.verbose):
        warnings.simplefilter("ignore")  # those of libraries: what concerns the user comes as a Note
    if options.quiet and options.progress in ("bar", "plain", "json"):
        raise UsageError(f"give either --quiet or --progress {options.progress}")
    if options.pages is not None:
        parse_ranges(options.pages)
    kind = options.format or _format_of(options.output)
    _check_output(options)
    chosen = {name: getattr(options, name) for name in OPTION_NAMES if name != "password"}
    password = given_password(options.password, options.password_file)
    source = _standard_input() if options.file == "-" else options.file
    document = None
    cancel = _cancel_on_interrupt(reporter.stopping())

    def begin(password: str | None) -> Iterator[Event]:
        return stream(source, cancel=cancel, password=password, **chosen)

    with reporter:
        for event in events_once_unlocked(begin, password):
            reporter.show(event)
            if isinstance(event, DocumentDone):
                document = event.document
    _write(options, _render(document, kind, options.page_markers))
    return exit_code(document)


def exit_code(document: Document) -> int:
    """The exit code that tells how a document went. When time ran out on every page, that is what it tells."""
    if document.pages and all(page.status == "timeout" for page in document.pages):
        return EXIT_INTERRUPTED if document.interrupted else TimeoutExceeded.exit_code
    return _EXIT_OF_STATUS[document.status]


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise InputError("standard input is closed")
    return sys.stdin.buffer


def _render(document: Document, kind: str, page_markers: bool) -> str:
    if kind == "json":
        return document.to_json()
    if kind == "text":
        from ocria.document.write.text import to_text

        return to_text(document, page_markers)
    from ocria.document.write.markdown import to_markdown

    return to_markdown(document, page_markers)


def _format_of(output: str) -> str:
    return {".json": "json", ".txt": "text"}.get(Path(output).suffix.lower(), "md")


def _check_output(options: argparse.Namespace) -> None:
    if options.output == "-":
        return
    from ocria.document.write.files import check_writable, is_device

    check_writable(options.output)
    if Path(options.output).exists() and not is_device(options.output) and not options.overwrite:
        raise OutputError("the output exists already", path=options.output, cure="Replace it with --overwrite")


def _write(options: argparse.Namespace, content: str) -> None:
    if options.output != "-":
        from ocria.document.write.files import write_atomically

        write_atomically(options.output, content)
    else:
        to_standard_output(content)


def _cancel_on_interrupt(said: bytes | None) -> threading.Event:
    """A flag that the first Ctrl-C sets, so that finished pages are kept; the second one stops at once. `said`: what
    is written to standard error then."""
    cancel = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if cancel.is_set():
            raise KeyboardInterrupt
        cancel.set()
        if said is not None:
            os.write(2, said)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
    return cancel
