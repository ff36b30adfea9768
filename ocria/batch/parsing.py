"""Parse one document of a batch, taking over what an earlier run has read of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from ocria.batch.fault import DocumentFault
from ocria.batch.kept import Kept
from ocria.batch.shared_reader import SharedReader
from ocria.document.control import Control, Deadline
from ocria.document.options import ParseOptions
from ocria.document.ranges import select_pages
from ocria.document.result import CANCELLED
from ocria.errors import UsageError
from ocria.events import DocumentDone, DocumentStarted, Event, Note, PageDone

if TYPE_CHECKING:
    import os

    from ocria.document.result import Page
    from ocria.document.source import Source
    from ocria.document.workers import Workers


class Parsing:
    """What the documents of a batch share: options, model, worker processes and the wish to stop.

    Args:
        last: closes the worker processes.
    """

    def __init__(self, options: ParseOptions, reader: SharedReader, control: Control, last: ExitStack):
        self._options, self._reader, self.control, self._last = options, reader, control, last
        self._workers: Workers | None = None
        self._told = False

    def events(self, data: str | os.PathLike[str] | bytes | BinaryIO, kept: Kept | None = None) -> Iterator[Event]:
        """The events of a document; pages are kept as they come.

        Raises:
            OcriaError: as `ocria.parse`.
            DocumentFault: a page is asked for that this document does not have.
        """
        options = self._options
        until = None if options.timeout is None else Deadline(self.control, options.timeout)
        begun = self.control.now()
        workers = self._pool()  # which load their libraries while this process does
        from ocria.document.source import open_source

        source = open_source(data, options.password, workers, page_timeout=options.page_timeout, until=until)
        try:
            yield from self._pages(source, kept, begun, until)
        finally:
            source.close()

    def _pages(
        self, source: Source, kept: Kept | None, begun: float, until: Deadline | None
    ) -> Iterator[Event]:
        from ocria.document.assemble import Run

        options = self._options
        try:
            numbers = select_pages(options.pages, source.page_count)
        except UsageError as error:
            raise DocumentFault(error) from error
        there = set() if kept is None else kept.open(source.sha256) & set(numbers)
        missing = [number for number in numbers if number not in there]
        if there:
            yield Note("info", f"{len(there)} of {len(numbers)} pages are kept from an earlier run", source.path)
            options = replace(options, pages=missing)
        if not missing:
            yield DocumentStarted(source.path, 0)
            yield self._whole(source, kept, numbers, begun, {})
            return
        cancelled: dict[int, Page] = {}  # to be read by the next run, so they are not kept
        for event in Run(source, options, self._reader, self.control, begun, until).events():
            if kept is not None and isinstance(event, PageDone):
                if event.status == CANCELLED:
                    cancelled[event.page] = event.result
                else:
                    kept.put(event.result, self._reader)
            if isinstance(event, DocumentDone):
                if event.document.model is not None and (ran := self._reader.ran()) is not None:
                    yield Note("debug", f"engine ran {ran}", source.path)
                if there:
                    event = self._whole(source, kept, numbers, begun, cancelled)
            yield event
            if not self._told and (about := self._reader.about()) is not None:
                self._told = True
                yield Note("debug", f"engine: {about}", source.path)

    def _whole(
        self, source: Source, kept: Kept, numbers: list[int], begun: float, cancelled: dict[int, Page]
    ) -> DocumentDone:
        """The document of all pages that are kept by now and those that were cancelled, finished as if they had been
        read at once."""
        from ocria.document.finish import finish
        from ocria.document.result import Document

        pages, model = kept.load()
        pages |= cancelled
        document = Document(source.path, source.page_count, source.sha256, model=model)
        document.pages = [pages[number] for number in numbers if number in pages]
        document.interrupted = len(document.pages) < len(numbers)
        finish(document, self._options)
        document.seconds = self.control.now() - begun
        return DocumentDone(source.path, document.status, document.seconds, document)

    def _pool(self) -> Workers | None:
        """Worker processes, started for the first document that is opened."""
        if self._workers is None and self._options.jobs != 0:
            from ocria.document.workers import Workers

            self._workers = self._last.enter_context(Workers(self._options.jobs or 1))
        return self._workers


def not_begun(path: str) -> DocumentDone:
    """The end of a document that was cancelled before its turn."""
    from ocria.document.result import Document

    document = Document(path, 0, "", interrupted=True)
    return DocumentDone(path, document.status, 0.0, document)
