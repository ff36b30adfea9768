"""One document to standard output or to one file."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocria.batch.fault import DocumentFault
from ocria.batch.inputs import Input, open_input
from ocria.batch.parsing import Parsing
from ocria.batch.shared_reader import GentleFlag, SharedReader
from ocria.batch.tally import document_code, worst_code
from ocria.cli.interrupt import cancel_on_signals
from ocria.cli.output import to_standard_output
from ocria.document.options import ParseOptions
from ocria.errors import EXIT_INTERRUPTED, OutputError, UsageError
from ocria.events import DocumentDone, Event, Note
from ocria.password import events_once_unlocked
from ocria.progress import Reporter

if TYPE_CHECKING:
    from ocria.document.result import Document

_KINDS = {
    ".json": "json", ".jsonl": "jsonl", ".txt": "text", ".text": "text", ".html": "html", ".htm": "html", ".pdf": "pdf"
}  # fmt: skip


def parse_one(item: Input, options: argparse.Namespace, chosen: dict[str, Any], reporter: Reporter) -> int:
    """Parse and write one document; returns the exit code.

    Args:
        chosen: the options of `ocria.parse`, the password among them.

    Raises:
        OcriaError: as `ocria.parse`; OutputError also for an output that exists.
    """
    kind = _kind(options)
    _check_output(options, chosen["images"])
    if kind != "pdf" and _is_same(item.path, options.output):
        raise OutputError("the output is the document itself", path=options.output, cure="Name another file with -o")
    data = open_input(item)
    password = chosen.pop("password")
    cancel = cancel_on_signals(reporter.stopping())

    settled = ParseOptions(**chosen)

    def begin(password: str | None) -> Iterator[Event]:
        nonlocal settled
        settled = replace(settled, password=password)
        reader = SharedReader(settled)
        try:
            yield from Parsing(settled, reader, GentleFlag(cancel, reader), last).events(data)
        except DocumentFault as fault:
            raise fault.error from None

    document = None
    with reporter, ExitStack() as last:
        for event in events_once_unlocked(begin, password):
            reporter.show(event)
            if isinstance(event, DocumentDone):
                document = event.document
    source = Path(item.path) if isinstance(data, str) else data.getvalue()
    _write(options, document, kind, settled, source)
    code = document_code(document)
    if code == EXIT_INTERRUPTED:
        _tell_what_is_kept(document, options.output, reporter)
    return code if code == EXIT_INTERRUPTED else worst_code([code], options.fail_on)


def _tell_what_is_kept(document: Document, output: str | None, reporter: Reporter) -> None:
    place = "were printed" if output in (None, "-") else f"are in {output}"
    kept = f"{len(document.pages)} of {document.page_count} pages {place}"
    next_time = "the same command starts over, and one with --output-dir would go on where it was"
    reporter.show(Note("info", f"interrupted; {kept}; {next_time}"))


def _kind(options: argparse.Namespace) -> str:
    if options.format:
        formats = list(dict.fromkeys(options.format))
        if len(formats) > 1:
            cure = "Write them into a folder with --output-dir"
            raise UsageError(f"one output cannot hold {len(formats)} formats", cure=cure)
        kind = formats[0]
    else:
        kind = "md" if options.output in (None, "-") else _KINDS.get(Path(options.output).suffix.lower(), "md")
    if kind == "pdf" and options.output in (None, "-") and sys.stdout is not None and sys.stdout.isatty():
        raise UsageError("a PDF does not belong on a terminal", cure="Name a file with -o")
    return kind


def _check_output(options: argparse.Namespace, images: str) -> None:
    if options.output in (None, "-"):
        if images == "extract":
            raise UsageError("figures cannot be extracted beside standard output", cure="Name a file with -o")
        return
    from ocria.document.write import check_writable, is_device

    check_writable(options.output)
    taken = [options.output] if Path(options.output).exists() and not is_device(options.output) else []
    if images == "extract":
        taken += [path for path in [f"{os.path.splitext(options.output)[0]}.images"] if os.path.lexists(path)]
    if taken and not options.overwrite:
        raise OutputError("the output exists already", path=taken[0], cure="Replace it with --overwrite")


def _is_same(path: str, output: str | None) -> bool:
    return output is not None and os.path.exists(path) and os.path.exists(output) and os.path.samefile(path, output)


def _write(
    options: argparse.Namespace, document: Document, kind: str, chosen: ParseOptions, source: Path | bytes
) -> None:
    from ocria.document.write import figure_files, figure_targets, render, write_atomically

    to_file = options.output not in (None, "-")
    folder, name = os.path.split(os.path.splitext(options.output)[0]) if to_file else ("", "")
    extracted = chosen.images == "extract"
    content = render(
        document,
        kind,
        options=chosen,
        page_markers=options.page_markers,
        source=source,
        picture_target=figure_targets(document, name) if extracted else None,
    )
    if not to_file:
        to_standard_output(content)
        return
    for figure, data in figure_files(document, name).items() if extracted else ():
        path = Path(folder, figure)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"its folder cannot be made: {error.strerror}", path=path) from error
        write_atomically(path, data)
    write_atomically(options.output, content)
