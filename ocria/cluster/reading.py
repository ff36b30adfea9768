"""Read the pages of one job."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from threading import Event as Flag
from typing import TYPE_CHECKING

from ocria.batch.fault import until_fault
from ocria.batch.shared_reader import GentleFlag, SharedReader
from ocria.cluster.job import Job
from ocria.cluster.kept import KeptParts, Part
from ocria.cluster.opener import as_input
from ocria.document.api import stream
from ocria.document.assemble import failed_page
from ocria.document.finish import finish
from ocria.document.options import OPTION_NAMES, ParseOptions
from ocria.document.result import BLANK, OK, Document
from ocria.document.route import Route
from ocria.document.write.store import page_to_dict
from ocria.errors import CrashError, OcriaError
from ocria.events import DocumentDone, PageDone

if TYPE_CHECKING:
    from ocria.document.workers import Workers

_LOOK_S = 1.0


class Stopped(Exception):
    """The run is stopped; what was read of the job is kept."""


class JobReader:
    """Reads jobs with one model and one set of processes that open and draw files.

    Args:
        is_stopped: asked every second.
        page_done: told of every page the tokens that the model wrote, and whether it came out whole.
    """

    def __init__(
        self,
        options: ParseOptions,
        reader: SharedReader,
        workers: Workers,
        is_stopped: Callable[[], bool],
        page_done: Callable[[int, bool], None],
    ):
        self._options, self._reader, self._workers = options, reader, workers
        self._is_stopped, self._page_done = is_stopped, page_done
        self._chosen = {name: getattr(options, name) for name in OPTION_NAMES if name != "pages"}

    def read(self, job: Job, content: bytes | None, kept: KeptParts, found: Part | None) -> Part | Document:
        """A whole document as `ocria.parse` gives it; a part where the job is one, or some of it was kept.

        Raises:
            Stopped: see there.
            OcriaError: as `ocria.parse`.
        """
        missing = [number for number in job.numbers if found is None or number not in found.numbers]
        if not missing:
            return found
        flag = Flag()
        document, pages, looked = None, [], time.monotonic()
        events = stream(
            as_input(job.row.path, content),
            reader=self._reader,
            workers=self._workers,
            cancel=GentleFlag(flag, self._reader),
            **{**self._chosen, "pages": missing},
        )
        with closing(events):
            for event in until_fault(events):
                if isinstance(event, OcriaError):
                    raise event
                if isinstance(event, PageDone):
                    pages.append(page_to_dict(event.result))  # as it was read: it changes when the document is finished
                    self._page_done(event.tokens_out, event.status in (OK, BLANK))
                elif isinstance(event, DocumentDone):
                    document = event.document
                if time.monotonic() - looked > _LOOK_S:
                    looked = time.monotonic()
                    if self._is_stopped():
                        flag.set()
        assert document is not None, "a run ends with DocumentDone"
        if found is None and job.parts == 1 and not document.interrupted:
            return document
        before = [] if found is None else found.pages
        model = document.model or (None if found is None else found.model)
        part = Part(document.page_count, document.sha256, document.converted_from, model, before + pages)
        if document.interrupted:
            if part.pages:
                kept.save(job.part, part)
            raise Stopped
        return part

    def given_up(self, job: Job, why: str) -> Part:
        """The part of a job that is not tried any more: all of its pages failed."""
        route, error = Route("model", "not looked at"), CrashError(why)
        pages = [failed_page(number, None, route, error) for number in job.numbers]
        for _ in pages:
            self._page_done(0, False)
        return Part(job.page_count, job.sha256, None, None, [page_to_dict(page) for page in pages])

    def finish(self, document: Document) -> None:
        """What only all pages together tell."""
        finish(document, self._options)
