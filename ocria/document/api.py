"""The public functions: parse a document, or watch it being parsed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from threading import Event as Flag
from typing import TYPE_CHECKING, BinaryIO

from ocria.document.options import OPTION_NAMES, ParseOptions
from ocria.document.reader import ReaderLike
from ocria.document.result import Document
from ocria.errors import UsageError
from ocria.events import DocumentDone, Event

if TYPE_CHECKING:
    from typing import Unpack

    from ocria.document.option_types import OptionTypes
    from ocria.document.workers import Workers

DEFAULT_JOBS = 1
Input = str | os.PathLike[str] | bytes | BinaryIO


def parse(
    path: Input,
    *,
    on_event: Callable[[Event], None] | None = None,
    reader: ReaderLike | None = None,
    workers: Workers | None = None,
    cancel: Flag | None = None,
    **options: Unpack[OptionTypes],
) -> Document:
    """Parse a PDF or an image file.

    Args:
        path: a file's path, its bytes, or a binary stream.
        on_event: called with every event of the run, between its steps; it may use the control given as `cancel`.
        reader: a loaded model to use; several documents can share one. By default the model is loaded when
            the first page needs it.
        workers: processes that open and draw files; several documents can share them. By default `jobs` of them run
            while the document is parsed, and on for the next one as long as the `reader` that was given lives.
        cancel: once set, no further page is begun and the document ends with what was read. An `ocria.Control` can
            also pause the run and cancel single pages.
        options: see `ocria.document.options.ParseOptions`: `pages`, `mode`, `model`, `dpi`, ...

    Raises:
        OcriaError: the input, the options or the model cannot be used. A page that fails raises nothing: its
            status says so.
    """
    document: Document | None = None
    for event in stream(path, reader=reader, workers=workers, cancel=cancel, **options):
        if on_event is not None:
            on_event(event)
        if isinstance(event, DocumentDone):
            document = event.document
    assert document is not None, "a run ends with DocumentDone"
    return document


def stream(
    path: Input,
    *,
    reader: ReaderLike | None = None,
    workers: Workers | None = None,
    cancel: Flag | None = None,
    **options: Unpack[OptionTypes],
) -> Iterator[Event]:
    """Parse and yield events as they happen; the last one, `DocumentDone`, carries the document.

    Arguments and errors are those of `parse`; faults of the input are raised at the first event.
    """
    unknown = options.keys() - set(OPTION_NAMES)
    if unknown:
        raise UsageError(f"unknown option {', '.join(sorted(unknown))}", cure=f"Known: {', '.join(OPTION_NAMES)}")
    chosen = ParseOptions(**options)
    return _stream(path, chosen, reader, workers, cancel)


def _stream(
    path: Input,
    options: ParseOptions,
    reader: ReaderLike | None,
    workers: Workers | None,
    cancel: Flag | None,
) -> Iterator[Event]:
    from ocria.document.control import Deadline, control_of

    control = control_of(cancel)
    begun = control.now()
    until = None if options.timeout is None else Deadline(control, options.timeout)
    with contextlib.ExitStack() as last:
        jobs = DEFAULT_JOBS if options.jobs is None else options.jobs
        if workers is None and jobs:
            from ocria.document.workers import Workers, warm_workers

            workers = None if reader is None else warm_workers(reader, jobs)
            if workers is None:
                # They load their libraries while the file is read and the modules below are loaded.
                workers = last.enter_context(Workers(jobs))
        from ocria.document.assemble import Run
        from ocria.document.source import open_source

        source = open_source(path, options.password, workers, page_timeout=options.page_timeout, until=until)
        last.callback(source.close)
        yield from Run(source, options, reader, control, begun, until).events()
