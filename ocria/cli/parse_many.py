"""Many documents into a folder, or as JSON Lines to standard output."""

from __future__ import annotations

import argparse
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from ocria.batch.inputs import Found
from ocria.batch.options import BatchOptions
from ocria.batch.run import run_batch
from ocria.batch.summary import failure_table, summary_line
from ocria.batch.tally import Tally
from ocria.cli.interrupt import cancel_on_signals
from ocria.cli.output import to_standard_output
from ocria.document.options import ParseOptions
from ocria.errors import EncryptedError, OcriaError, UsageError
from ocria.events import DocumentDone, DocumentFailed, Event, Note
from ocria.password import events_once_unlocked, someone_is_there
from ocria.progress import Reporter


def batch_options(options: argparse.Namespace) -> BatchOptions:
    """Where the documents go and what is passed over. Raises UsageError where that is no place for several."""
    formats = tuple(dict.fromkeys(options.format or ("md",)))
    streamed = options.output is not None
    if streamed and options.output != "-":
        raise UsageError("one file cannot hold several documents", path=options.output, cure="Give --output-dir")
    if streamed and formats != ("jsonl",):
        cure = "Add -f jsonl, or write files with --output-dir"
        raise UsageError("of several documents only JSON Lines go to standard output", cure=cure)
    if streamed and options.images == "extract":
        raise UsageError("figures cannot be extracted beside standard output", cure="Give --output-dir")
    return BatchOptions(
        output_dir=None if streamed else Path(options.output_dir),
        formats=formats,
        page_markers=options.page_markers,
        overwrite=options.overwrite,
        resume=options.resume,
        retry_failed=options.retry_failed,
    )


def parse_many(found: Found, options: argparse.Namespace, chosen: dict[str, Any], reporter: Reporter) -> int:
    """Parse and write the documents; returns the exit code. `chosen`: the options of `ocria.stream`.

    Raises:
        OcriaError: what ends the whole run.
    """
    batch, settled = batch_options(options), ParseOptions(**chosen)
    cancel = cancel_on_signals(reporter.stopping())
    tally = Tally(len(found.inputs))
    begun = time.monotonic()

    def begin(password: str | None) -> Iterator[Event]:
        nonlocal tally
        tally = Tally(len(found.inputs))
        for path in found.unreadable:
            tally.fail_folder(path)
        events = run_batch(
            found.inputs, replace(settled, password=password), batch, cancel=cancel, tally=tally
        )
        ask = len(found.inputs) == 1 and someone_is_there()
        return _locked_as_error(events) if ask else events

    with reporter:
        try:
            with closing(events_once_unlocked(begin, settled.password)) as events:
                for event in events:
                    reporter.show(event)
                    if batch.output_dir is None and isinstance(event, (DocumentDone, DocumentFailed)):
                        _to_standard_output(event, settled)
        except OcriaError:
            reporter.close()
            if tally.codes or tally.pages:
                _tell(tally, time.monotonic() - begun, options, reporter)
            raise
        if tally.interrupted:
            again = "the same command goes on" if batch.output_dir is not None else "its documents were printed"
            reporter.show(Note("info", f"interrupted; what is done is kept, and {again}"))
    _tell(tally, time.monotonic() - begun, options, reporter)
    return tally.exit_code(options.fail_on)


def _locked_as_error(events: Generator[Event, None, None]) -> Iterator[Event]:
    """The events of a run over one document; that it needs a password is raised, so that it is asked for."""
    with closing(events):
        begun, first = next(events), next(events)
        if isinstance(first, DocumentFailed) and first.exit_code == EncryptedError.exit_code:
            raise EncryptedError(first.message, path=first.path, cure=first.cure)
        yield begun
        yield first
        yield from events


def _to_standard_output(event: DocumentDone | DocumentFailed, options: ParseOptions) -> None:
    from ocria.document.result import Document
    from ocria.document.write import render

    if isinstance(event, DocumentFailed):
        document = Document(event.path, 0, "", error=OcriaError(event.message, cure=event.cure))
        document.error.exit_code = event.exit_code
    else:
        document = event.document
    to_standard_output(render(document, "jsonl", options=options))


def _tell(tally: Tally, seconds: float, options: argparse.Namespace, reporter: Reporter) -> None:
    """The summary and what failed, for people; in JSON the events have said it."""
    if options.quiet or options.progress == "json":
        return
    for line in failure_table(tally.failures):
        reporter.say(line)
    reporter.say(summary_line(tally.done(seconds)))
