"""`ocria parse`."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ocria.batch.options import FAIL_ON, FORMATS
from ocria.cli.common import add_common
from ocria.cli.help import epilog
from ocria.cli.options import add_engine, add_facts
from ocria.errors import UsageError
from ocria.events import Note
from ocria.progress import Reporter

if TYPE_CHECKING:
    from ocria.batch.inputs import Found
    from ocria.document.result import Document

OUTPUT_DIR = "ocria-out"
_DESCRIPTION = """\
Parse documents. One goes to standard output, or to a file with -o. Of several,
of folders and of patterns the outputs go into a folder: those of a/scan.pdf
are a/scan.pdf.md and so on. A run into a folder that was stopped goes on where
it was when the same command is given again, and passes over what is done.

A document is a PDF, an image (PNG, JPEG, TIFF with all its pages, WebP, GIF,
BMP, JPEG 2000, AVIF, PNM, HEIC with ocria[heic]), a book (EPUB, MOBI, FB2, XPS,
CBZ), an office file (DOCX, PPTX, XLSX), HTML, SVG, Markdown or plain text.
"""
_EXAMPLES = [
    ("ocria parse scan.pdf", "Markdown to standard output."),
    ("ocria parse scan.pdf -p 1-3 -o scan.json", "Three pages as JSON, with boxes and confidences."),
    ("ocria parse -r papers -f md,json", "All documents below a folder, into ./ocria-out."),
    ("ocria parse -r papers --retry-failed", "Once more what failed, and only that."),
    ("find . -name '*.pdf' -print0 | ocria parse --files-from - -0 -f jsonl -o -", "All of them as one stream."),
]


def add_parse(commands: Any) -> None:
    parser = commands.add_parser(
        "parse",
        help="parse documents",
        description=_DESCRIPTION,
        epilog=epilog(_EXAMPLES, exit_codes=True, engine=True, messages=True),
    )
    parser.set_defaults(run=parse)
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help="files, folders, patterns such as '**/*.pdf', or - for standard input",
    )
    take_inputs_anywhere(parser)
    _add_inputs(parser.add_argument_group("inputs"))
    _add_output(parser.add_argument_group("output"))
    _add_long_runs(parser.add_argument_group("runs over several documents"))
    _add_reading(parser.add_argument_group("reading"))
    add_engine(parser)
    add_facts(parser)
    add_common(parser)


def parse(options: argparse.Namespace, reporter: Reporter) -> int:
    from ocria.batch.inputs import find_inputs, names_from
    from ocria.cli.record import recorded
    from ocria.document.options import OPTION_NAMES
    from ocria.document.ranges import parse_ranges
    from ocria.password import given_password

    if not sys.warnoptions and (options.quiet or not options.verbose):
        warnings.simplefilter("ignore")  # those of libraries: what concerns the user comes as a Note
    if options.quiet and options.progress in ("bar", "plain", "json"):
        raise UsageError(f"give either --quiet or --progress {options.progress}")
    if options.pages is not None:
        parse_ranges(options.pages)
    names = list(options.inputs)
    if options.files_from is not None:
        if options.files_from == "-" and "-" in names:
            raise UsageError("standard input is either the list of files or a document")
        names += names_from(options.files_from, options.null)
    elif not names:
        options.parser.error("the following arguments are required: INPUT")
    found = find_inputs(
        names,
        recursive=options.recursive,
        include=options.include or (),
        exclude=options.exclude or (),
        output_dir=options.output_dir or OUTPUT_DIR,
    )
    found.many |= options.files_from is not None
    _tell_ignored(found, reporter)
    chosen = {name: getattr(options, name) for name in OPTION_NAMES}
    chosen["password"] = given_password(options.password, options.password_file)
    alone = not found.many and options.output_dir is None
    if not alone and options.output is None:
        options.output_dir = options.output_dir or OUTPUT_DIR
    if options.dry_run:
        from ocria.cli.dry_run import dry_run

        return dry_run(found, options, chosen, reporter)
    if alone and options.retry_failed:
        raise UsageError("--retry-failed needs a folder of outputs", cure="Give it with --output-dir")
    with recorded(reporter, options, [item.path for item in found.inputs]) as reporter:
        if alone:
            from ocria.cli.parse_one import parse_one

            return parse_one(found.inputs[0], options, chosen, reporter)
        from ocria.cli.parse_many import parse_many

        return parse_many(found, options, chosen, reporter)


def exit_code(document: Document) -> int:
    """The exit code that tells how a document went. When time ran out on every page, that is what it tells."""
    from ocria.batch.tally import document_code

    return document_code(document)


def _tell_ignored(found: Found, reporter: Reporter) -> None:
    if found.ignored:
        count = "1 file is" if len(found.ignored) == 1 else f"{len(found.ignored)} files are"
        reporter.show(Note("info", f"{count} of no kind that can be read and left alone"))
    for path in found.unreadable:
        reporter.show(Note("error", "the folder cannot be read", path))
    for path in found.ignored:
        reporter.show(Note("debug", f"{path}: left alone"))
    for path in found.repeated:
        reporter.show(Note("debug", f"{path}: named before"))


def _add_inputs(inputs: argparse._ArgumentGroup) -> None:
    inputs.add_argument("-r", "--recursive", action="store_true", help="folders in folders too")
    inputs.add_argument(
        "--include",
        action="append",
        metavar="PATTERN",
        help="of folders and patterns only files whose path, or a folder in it, matches (repeatable)",
    )
    inputs.add_argument("--exclude", action="append", metavar="PATTERN", help="none that match (repeatable)")
    inputs.add_argument("--files-from", metavar="FILE", help="file with one input a line, or - for standard input")
    inputs.add_argument("-0", "--null", action="store_true", help="names in that file end with a NUL byte")
    inputs.add_argument("-p", "--pages", metavar="RANGES", help="pages such as 1-3,8 or 5- (1-based; default: all)")
    inputs.add_argument("--password", help="password of encrypted PDFs; seen by other users of the machine")
    inputs.add_argument(
        "--password-file",
        metavar="FILE",
        help="file whose first line is the password, - for standard input (default: OCRIA_PASSWORD, else asked for on "
        "a terminal where there is one document)",
    )


def _add_output(output: argparse._ArgumentGroup) -> None:
    place = output.add_mutually_exclusive_group()
    place.add_argument("-o", "--output", metavar="FILE", help="file for one document; - is standard output (default)")
    place.add_argument(
        "--output-dir", metavar="FOLDER", help=f"folder for the outputs (default for several documents: {OUTPUT_DIR})"
    )
    formats = output.add_argument(
        "-f",
        "--format",
        action="extend",
        type=formats_of,
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)}; several for a folder, by commas or repeated (default: by the name of the output, "
        "else md)",
    )
    formats.completions = FORMATS  # type: ignore[attr-defined]
    output.add_argument("--overwrite", action="store_true", help="replace files that ocria did not write, or not so")
    output.add_argument(
        "--table-format",
        choices=("auto", "md", "html", "csv"),
        default="auto",
        help="how tables stand in Markdown (default: md, html where cells span)",
    )
    output.add_argument(
        "--no-merge-tables",
        dest="merge_tables",
        action="store_false",
        help="leave the parts of a table that goes on over pages where they are",
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
    output.add_argument(
        "--record",
        metavar="FILE",
        help="write every event of the run to FILE, the text among them; ocria tui --replay shows it",
    )
    output.add_argument("--page-markers", action="store_true", help="mark where each page begins")


def _add_long_runs(runs: argparse._ArgumentGroup) -> None:
    runs.add_argument(
        "--no-resume", dest="resume", action="store_false", help="start over: parse what is done already once more"
    )
    runs.add_argument("--retry-failed", action="store_true", help="parse failed pages and documents once more")
    runs.add_argument(
        "--fail-on",
        choices=FAIL_ON,
        default="partial",
        help="what the exit code tells: failed documents and pages (partial, the default), failed documents alone "
        "(failure), or neither (never)",
    )
    runs.add_argument(
        "--dry-run",
        action="store_true",
        help="list documents, pages and outputs, with -f json or jsonl as JSON Lines; load no model and write nothing",
    )


def _add_reading(reading: argparse._ArgumentGroup) -> None:
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


def formats_of(text: str) -> list[str]:
    """One or several formats, parted by commas."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in FORMATS:
            raise argparse.ArgumentTypeError(f"{name!r} is no format (choose from {', '.join(FORMATS)})")
    return names


def take_inputs_anywhere(parser: argparse.ArgumentParser) -> None:
    """argparse takes arguments without a name in one piece; here they may stand between options."""
    parse_known = parser.parse_known_args

    def parse_all(args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None) -> Any:
        parsed, rest = parse_known(args, namespace)
        end = rest.index("--") if "--" in rest else len(rest)
        extra = [word for word in rest[:end] if word == "-" or not word.startswith("-")]
        parsed.inputs = [*parsed.inputs, *extra, *rest[end + 1 :]]
        return parsed, [word for word in rest[:end] if word not in extra]

    parser.parse_known_args = parse_all  # type: ignore[method-assign]
