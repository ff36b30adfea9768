"""Reading one document in the engine's process: its pages are kept as they come, its outputs written at the end."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocria.batch.fault import DocumentFault, until_fault
from ocria.batch.folder import OutputFolder
from ocria.batch.key import pages_key, settings_key
from ocria.batch.shared_reader import SharedReader
from ocria.document.control import Control, Deadline
from ocria.document.ranges import select_pages
from ocria.document.result import CANCELLED
from ocria.errors import EngineError, OcriaError, UsageError
from ocria.events import DocumentDone, DocumentFailed, DocumentStarted, Event, Note, PageDone
from ocria.progress.lines import plural
from ocria_tui.job import Job, Shelf
from ocria_tui.messages import DocumentQueued
from ocria_tui.session_options import SessionOptions

if TYPE_CHECKING:
    from ocria.batch.kept import Kept
    from ocria.document.result import Document, Page
    from ocria.document.source import Source
    from ocria.document.workers import Workers


class Model(SharedReader):
    """A reader that tells when it loads its model, which takes a while."""

    def __init__(self, options: SessionOptions, tell: Callable[[Event], None]):
        super().__init__(options.parse)
        self.key = options.model_key
        self._tell = tell

    def _load(self) -> Any:
        if self._reader is None:
            self._tell(Note("info", f"loading the model {self._options.model or 'that ships with ocria'}"))
            super()._load()
            self._tell(Note("info", f"the model is loaded: {self.about()}"))
        return self._reader


class Reading:
    """Reads documents one after the other. They share the model, as long as their options ask for the same one, and
    the processes that open files.

    Args:
        tell: takes what there is to say beside the events of a document.
    """

    def __init__(self, tell: Callable[[Event], None]):
        self._tell = tell
        self._model: Model | None = None
        self._workers: Workers | None = None
        self._jobs: int | None = None

    def events(self, job: Job, control: Control, put_up: Callable[[Shelf], None]) -> Iterator[Event]:
        """Read a document. It ends with `DocumentDone`, or with `DocumentFailed` whatever is wrong, and the next one
        has its turn.

        Args:
            put_up: learns where the pages are kept, before the first one is.
        """
        try:
            asked = SessionOptions.of({**job.options, **job.changed})
            with closing(_Document(job, asked, self, control)) as document:
                for happened in until_fault(document.events(put_up)):
                    if isinstance(happened, Event):
                        yield happened
                        continue
                    if job.again is None:
                        document.folder.fail(job.item, happened)
                    yield _failed(job, happened)
        except OcriaError as error:
            if isinstance(error, EngineError):
                self._model = None  # a fresh one may serve the next document
            yield _failed(job, error)
        except Exception as error:  # what nobody foresaw must not take the queue along
            yield _failed(job, OcriaError(f"unexpected {type(error).__name__}: {error}"))

    def close(self) -> None:
        """End the processes that open files."""
        self._model = None
        if self._workers is not None:
            self._workers.close()
            self._workers = None

    def reader(self, options: SessionOptions) -> Model:
        if self._model is None or self._model.key != options.model_key:
            self._model = None  # its memory is free before the other one is loaded
            self._model = Model(options, self._tell)
        return self._model

    def pool(self, jobs: int | None) -> Workers | None:
        if self._workers is not None and self._jobs != jobs:
            self._workers.close()
            self._workers = None
        if self._workers is None and jobs != 0:
            from ocria.document.workers import Workers

            self._workers, self._jobs = Workers(jobs or 1), jobs
        return self._workers


class _Document:
    """One document while it is read; its folder of outputs is held until it is closed. What is kept goes by the options
    that the document was opened with, also where some of its pages are read with others.

    Args:
        asked: for what is read now.

    Raises:
        OcriaError: the options cannot be met, or the folder of outputs cannot be used.
    """

    def __init__(self, job: Job, asked: SessionOptions, reading: Reading, control: Control):
        own = SessionOptions.of(job.options)
        batch = replace(own.batch, keep_pages=True)
        if job.again is not None:
            batch = replace(batch, resume=True, retry_failed=False)
        identity = None if own.parse.mode == "text" else SharedReader(own.parse).identity
        self._job, self._options, self._control = job, asked.parse, control
        self._model = reading.reader(asked)
        self._workers = reading.pool(asked.parse.jobs)
        self._settings = settings_key(own.parse, batch.page_markers, identity)
        self.folder = OutputFolder(batch, own.parse, identity, [job.item])

    def close(self) -> None:
        self.folder.leave()
        self.folder.close()

    def events(self, put_up: Callable[[Shelf], None]) -> Iterator[Event]:
        from ocria.document.source import open_source

        job, options = self._job, self._options
        begun = self._control.now()
        until = None if options.timeout is None else Deadline(self._control, options.timeout)
        kept = self.folder.begin(job.item)
        source = open_source(job.path, options.password, self._workers, page_timeout=options.page_timeout, until=until)
        try:
            numbers = _selected(options.pages, source.page_count)
            again = None if job.again is None else _selected(job.again, source.page_count)
            if job.sha256 not in (None, source.sha256):
                again = None  # of another file nothing is there
            pages = self._kept_pages(kept, source.sha256, numbers)
            missing = [number for number in numbers if number not in pages] if again is None else again
            key = pages_key(self._settings, source.sha256, job.path)
            shelf = Shelf(self.folder.root, key, source.sha256, source.page_count, tuple(numbers), options)
            put_up(shelf)
            yield DocumentQueued(source.path, tuple(numbers if again is None else again))
            read = yield from self._read(source, kept, missing, pages, begun, until)
            left_out = [] if read is None else [page for page in read.pages if page.status == CANCELLED]
            document = shelf.document(source.path, left_out)
            document.seconds = self._control.now() - begun
            document.interrupted |= read is not None and read.interrupted
            if not document.interrupted:
                yield self.folder.write(job.item, document, Path(job.path))
            yield DocumentDone(source.path, document.status, document.seconds, document)
        finally:
            source.close()

    @staticmethod
    def _kept_pages(kept: Kept, sha256: str, numbers: Sequence[int]) -> dict[int, Page]:
        """What need not be read."""
        there = kept.open(sha256) & set(numbers)
        pages = kept.load()[0] if there else {}
        return {number: pages[number] for number in sorted(there)}

    def _read(
        self,
        source: Source,
        kept: Kept,
        missing: Sequence[int],
        pages: dict[int, Page],
        begun: float,
        until: Deadline | None,
    ) -> Generator[Event, None, Document | None]:
        """Read what is missing, beside the pages that are kept; returns it, or None where nothing was."""
        from ocria.document.assemble import Run

        taken = {number: page for number, page in pages.items() if number not in missing}
        taken = taken if self._job.again is None else {}
        if not missing:
            yield DocumentStarted(source.path, 0)
            yield from _taken_over(source.path, taken)
            return None
        options = replace(self._options, pages=list(missing))
        for event in Run(source, options, self._model, self._control, begun, until).events():
            if isinstance(event, DocumentDone):
                return event.document
            if isinstance(event, PageDone) and event.status != CANCELLED:  # which the next run reads
                kept.put(event.result, self._model)
            yield event
            if isinstance(event, DocumentStarted):
                yield from _taken_over(source.path, taken)
        raise AssertionError("a run ends with DocumentDone")


def _selected(pages: str | Sequence[int] | None, count: int) -> list[int]:
    """Raises DocumentFault for a page that this document does not have."""
    try:
        return select_pages(pages, count)
    except UsageError as error:
        raise DocumentFault(error) from error


def _taken_over(path: str, pages: dict[int, Page]) -> Iterator[Event]:
    """The pages that are kept from an earlier run."""
    if pages:
        yield Note("info", f"kept from an earlier run: {plural(len(pages), 'page')}", path)
    for number, page in pages.items():
        yield PageDone(
            path, number, page.status, page.route, page.seconds, page.tokens_out, page.markdown,
            page.acceptance and page.acceptance["accept_length"], page,
        )  # fmt: skip


def _failed(job: Job, error: OcriaError) -> DocumentFailed:
    return DocumentFailed(job.path, error.message, error.cure, error.exit_code)
