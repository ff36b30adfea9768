"""Many documents, one after the other, with one model and one set of worker processes."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Event as Flag
from typing import TYPE_CHECKING

from ocria.batch.fault import until_fault
from ocria.batch.folder import OutputFolder
from ocria.batch.inputs import Input, open_input
from ocria.batch.options import BatchOptions
from ocria.batch.parsing import Parsing, not_begun
from ocria.batch.shared_reader import GentleFlag, SharedReader
from ocria.batch.tally import Tally
from ocria.document.options import ParseOptions
from ocria.events import BatchStarted, DocumentDone, DocumentFailed, DocumentSkipped, DocumentStarted, Event, Note

if TYPE_CHECKING:
    from ocria.document.reader import ReaderLike


def run_batch(
    inputs: Sequence[Input],
    options: ParseOptions,
    batch: BatchOptions | None = None,
    *,
    reader: ReaderLike | None = None,
    cancel: Flag | None = None,
    tally: Tally | None = None,
) -> Iterator[Event]:
    """Parse documents and, with an output folder, write them and pass over what earlier runs have done.

    A document's events end with `DocumentDone` (after `DocumentWritten`), `DocumentFailed` or `DocumentSkipped`; the
    run's with `BatchDone`.

    Args:
        inputs: from `find_inputs`.
        options: how each of them is parsed.
        batch: what is done with them.
        reader: a loaded model; None loads the one that the options name when the first page needs it.
        cancel: once set, pages that are with the model are finished and kept, and nothing more is begun. An
            `ocria.Control` can also pause the run and cancel pages and documents.
        tally: counts the run, for who wants to know more than its last event says.

    Raises:
        EngineError: the model or the device cannot be used.
        UsageError: an option cannot be met, whichever the document.
        OutputError: the output folder cannot be written or is in use, the disk is full.
    """
    batch = batch or BatchOptions()
    tally = tally or Tally(len(inputs))
    begun = time.monotonic()
    shared = SharedReader(options, reader)
    stop = GentleFlag(cancel, shared)
    with ExitStack() as last:
        folder = None
        if batch.output_dir is not None:
            folder = OutputFolder(batch, options, None if options.mode == "text" else shared.identity, inputs)
            last.callback(folder.close)
        parsing = Parsing(options, shared, stop, last)
        yield BatchStarted(len(inputs))
        if folder is not None and not folder.lock.works:
            yield Note("warning", f"{folder.root}: this file system has no locks; start no second run into it")
        for position, item in enumerate(inputs, 1):
            stop.hold()
            if stop.is_set():
                break
            for event in _document(item, parsing, folder, tally):
                if isinstance(event, DocumentStarted):
                    event = replace(event, position=position, documents=len(inputs))
                tally.take(event)
                yield event
        yield tally.done(time.monotonic() - begun)


def _document(item: Input, parsing: Parsing, folder: OutputFolder | None, tally: Tally) -> Iterator[Event]:
    """The events of one document. Whatever is wrong with it, the next one has its turn."""
    entry = None if folder is None else folder.done_before(item)
    if entry is not None:
        skipped = DocumentSkipped(item.path, entry.status, entry.reason or "done, and nothing has changed")
        tally.skip(skipped, entry.reason, entry.cure, entry.exit_code)
        yield skipped
        return
    if parsing.control.is_cancelled(item.path):
        yield not_begun(item.path)
        return
    try:
        for happened in until_fault(_read(item, parsing, folder)):
            if isinstance(happened, Event):
                yield happened
                continue
            if folder is not None:
                folder.fail(item, happened)
            yield DocumentFailed(item.path, happened.message, happened.cure, happened.exit_code)
    finally:
        if folder is not None:
            folder.leave()


def _read(item: Input, parsing: Parsing, folder: OutputFolder | None) -> Iterator[Event]:
    kept = None if folder is None else folder.begin(item)
    data = open_input(item)
    for event in parsing.events(data, kept):
        if folder is not None and isinstance(event, DocumentDone) and not event.document.interrupted:
            source = data.getvalue() if isinstance(data, io.BytesIO) else Path(data)
            yield folder.write(item, event.document, source)
        yield event
