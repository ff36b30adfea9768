"""`ocria.parse_many`: documents as they finish, in Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from threading import Event as Flag
from typing import TYPE_CHECKING

from ocria.batch.fault import until_fault
from ocria.batch.parsing import Parsing, not_begun
from ocria.batch.shared_reader import GentleFlag, SharedReader
from ocria.document.options import OPTION_NAMES, ParseOptions
from ocria.errors import OcriaError, UsageError
from ocria.events import DocumentDone, DocumentFailed, Event

if TYPE_CHECKING:
    from typing import Unpack

    from ocria.document.api import Input
    from ocria.document.option_types import OptionTypes
    from ocria.document.reader import ReaderLike
    from ocria.document.result import Document


def parse_many(
    paths: Iterable[Input],
    *,
    on_event: Callable[[Event], None] | None = None,
    reader: ReaderLike | None = None,
    cancel: Flag | None = None,
    **options: Unpack[OptionTypes],
) -> Iterator[Document]:
    """Parse several documents with one model and one set of worker processes; each comes when it is finished.

    A document that cannot be parsed has the status `failed`, no pages, and what was wrong as its `error`.

    Args:
        paths: paths of files, their bytes, or binary streams; taken one by one.
        on_event: called with every event of the run.
        reader: a loaded model to use. By default it is loaded when the first page needs it.
        cancel: once set, pages that are with the model are finished, and their document is the last. An
            `ocria.Control` can also pause the run and cancel pages and documents.
        options: as of `ocria.parse`.

    Raises:
        EngineError: the model or the device cannot be used.
        UsageError: the options cannot be met.
    """
    unknown = options.keys() - set(OPTION_NAMES)
    if unknown:
        raise UsageError(f"unknown option {', '.join(sorted(unknown))}", cure=f"Known: {', '.join(OPTION_NAMES)}")
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise UsageError("paths must be several", cure="Give a list, or use ocria.parse for one document")
    return _documents(paths, ParseOptions(**options), on_event, reader, cancel)


def _documents(
    paths: Iterable[Input],
    options: ParseOptions,
    on_event: Callable[[Event], None] | None,
    reader: ReaderLike | None,
    cancel: Flag | None,
) -> Iterator[Document]:
    shared = SharedReader(options, reader)
    stop = GentleFlag(cancel, shared)
    with ExitStack() as last:
        parsing = Parsing(options, shared, stop, last)
        for path in paths:
            stop.hold()
            if stop.is_set():
                return
            yield _document(path, parsing, on_event)


def _document(path: Input, parsing: Parsing, on_event: Callable[[Event], None] | None) -> Document:
    from ocria.document.result import Document

    document = None
    cancelled = parsing.control.is_cancelled(_name_of(path))
    for happened in [not_begun(_name_of(path))] if cancelled else until_fault(parsing.events(path)):
        if isinstance(happened, OcriaError):
            name = happened.path or _name_of(path)
            document = Document(name, 0, "", error=happened)
            happened = DocumentFailed(name, happened.message, happened.cure, happened.exit_code)
        elif isinstance(happened, DocumentDone):
            document = happened.document
        if on_event is not None:
            on_event(happened)
    assert document is not None, "a run ends with DocumentDone or a fault"
    return document


def _name_of(path: Input) -> str:
    if isinstance(path, (str, os.PathLike)):
        return os.fspath(path)
    return "<bytes>" if isinstance(path, (bytes, bytearray, memoryview)) else str(getattr(path, "name", "<stdin>"))
