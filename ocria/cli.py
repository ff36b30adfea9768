"""The `ocria` command.

Standard output carries data only; progress, notes and errors go to standard error. Nothing heavy is imported
before it is needed, so that help and errors of usage come at once.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO

from ocria import __version__
from ocria.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_PARTIAL,
    InputError,
    OcriaError,
    OutputError,
    TimeoutExceeded,
    UsageError,
)
from ocria.progress import KINDS, Reporter, make_reporter

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
    _add_parse(commands)
    models = commands.add_parser("models", help="list the kinds of checkpoint that ocria knows")
    models.set_defaults(run=_models)
    _add_doctor(commands)
    return parser


def _add_parse(commands: Any) -> None:
    parser = commands.add_parser(
        "parse",
        help="parse a document",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=_parse)
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
    reading.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        help="most time of a page in the model; what was read until then is kept (pages read together share it)",
    )
    _add_engine(parser)
    _add_facts(parser)


def _add_doctor(commands: Any) -> None:
    parser = commands.add_parser(
        "doctor",
        help="show versions, devices, and how a model would use the memory",
        description="Show versions, devices, and how a model would use the memory; its weights are not loaded.",
    )
    parser.set_defaults(run=_doctor)
    _add_engine(parser)
    _add_facts(parser)


def _add_engine(parser: argparse.ArgumentParser) -> None:
    engine = parser.add_argument_group("engine")
    engine.add_argument("--model", metavar="NAME", help="folder or name of a checkpoint (default: the embedded one)")
    engine.add_argument("--device", help="cpu, cuda or cuda:N (default: cuda if there is one)")
    engine.add_argument("--dtype", choices=("float32", "bfloat16"), help="default: float32 on the CPU, else bfloat16")
    engine.add_argument("--batch", type=int, metavar="N", help="most requests that run at the same time")
    engine.add_argument("--threads", type=int, metavar="N", help="CPU threads of the engine")
    engine.add_argument(
        "--memory", metavar="SIZE", help="what model and state may take, such as 4G (default: what is free, or half)"
    )
    engine.add_argument("--compile", action="store_true", help="run steps through torch.compile")
    engine.add_argument(
        "--no-graph", dest="graph", action="store_const", const=False, help="no CUDA graphs (default: on CUDA)"
    )
    engine.add_argument(
        "--no-overlap",
        dest="overlap",
        action="store_const",
        const=False,
        help="read the tokens of a step before the next one is launched (default: after it, on CUDA)",
    )
    engine.add_argument(
        "--ring",
        type=int,
        metavar="N",
        help="recent rows replayed over the state: a power of two up to 128, or 0 to write it in every step "
        "(default: 0 on the CPU without drafts, else what suits the steps)",
    )
    engine.add_argument(
        "--draft",
        default="auto",
        metavar="WHAT",
        help="what proposes tokens for the model to verify, for speed alone: none, lookup (text layer, repetition), "
        "vision (a first reading of a line), own (the model's drafter), a drafter's folder, several joined by "
        "commas, or auto (default)",
    )
    engine.add_argument(
        "--draft-rows",
        type=int,
        metavar="N",
        help="rows of a step: the last token and the drafts behind it (default: chosen for each step)",
    )
    engine.add_argument(
        "--verify",
        choices=("exact", "token", "block"),
        default="exact",
        help="how drafts are accepted where tokens are drawn: as without drafts, or with the same distribution and "
        "faster (default: exact)",
    )


def _add_facts(parser: argparse.ArgumentParser) -> None:
    facts = parser.add_argument_group("facts about a checkpoint whose profile does not state them")
    facts.add_argument("--prompt", help="what the model is asked")
    facts.add_argument("--unit", choices=("page", "line"), help="what one request reads")
    facts.add_argument("--dialect", choices=("markdown", "html", "json", "text"), help="what the model writes")
    facts.add_argument("--max-output-tokens", type=int, metavar="N", help="length limit of one request")
    facts.add_argument("--min-pixels", type=int, metavar="N", help="smallest image the model is given")
    facts.add_argument("--max-pixels", type=int, metavar="N", help="largest image the model is given")


def _parse(options: argparse.Namespace, reporter: Reporter) -> int:
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
        _to_standard_output(content)


def _to_standard_output(content: str) -> None:
    """Write in UTF-8 whatever the locale says: a document holds any character."""
    if sys.stdout is None:
        raise OutputError("standard output is closed")
    try:
        sys.stdout.buffer.write(content.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    except OSError as error:
        # What is left in the buffer goes elsewhere, so that the flush at the end does not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputError(f"standard output cannot be written: {error.strerror}") from error


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


def _models(options: argparse.Namespace, reporter: Reporter) -> int:
    from ocria.doctor import models_report

    _to_standard_output(models_report() + "\n")
    return EXIT_OK


def _doctor(options: argparse.Namespace, reporter: Reporter) -> int:
    from ocria.doctor import doctor_report, memory_report
    from ocria.document.options import OPTION_NAMES, ParseOptions

    chosen = ParseOptions(**{name: getattr(options, name) for name in OPTION_NAMES if hasattr(options, name)})
    _to_standard_output(doctor_report() + "\n")
    _to_standard_output(memory_report(chosen) + "\n")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
