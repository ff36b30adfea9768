"""The queue of the engine's process: commands come from one thread, documents are read in another one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ocria.batch.inputs import STDIN, find_inputs
from ocria.document.control import Control
from ocria.errors import OcriaError
from ocria.events import Event, Note, PageDone
from ocria_tui.job import Job, Shelf
from ocria_tui.messages import DocumentCancelled, DocumentQueued, PausedChanged, Refused
from ocria_tui.session_options import SessionOptions


@dataclass(slots=True)
class _Known:
    """A document that was opened."""

    job: Job
    """How it was opened."""
    shelf: Shelf | None = None
    """None until its file is open."""


@dataclass(slots=True)
class _Running:
    job: Job
    control: Control
    cancelled: bool = False
    done: set[int] = field(default_factory=set)
    """Pages that nothing can be done about."""


class Desk:
    """What waits, what runs and what was read. Every call answers with at least one event.

    Args:
        options: what documents are opened with.
        tell: takes the events.
        remember: is told of each job that should be done again if the process ended now.
        forget: is told of the path of each that need not.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        tell: Callable[[Event], None],
        remember: Callable[[Job], None],
        forget: Callable[[str], None],
    ):
        self._options = dict(options)
        self._tell, self._remember, self._forget = tell, remember, forget
        self._changed = threading.Condition(threading.RLock())
        self._waiting: list[Job] = []
        self._known: dict[str, _Known] = {}
        self._running: _Running | None = None
        self._paused = False
        self._closed = False

    def open(self, paths: Sequence[str], options: Mapping[str, Any]) -> None:
        """Queue what files, folders and patterns mean."""
        chosen = {**self._options, **options}
        try:
            settled = SessionOptions.of(chosen)
            found = find_inputs(paths, **settled.find, output_dir=settled.batch.output_dir)
        except OcriaError as error:
            self._tell(Refused(error.message, error.cure, error.path))
            return
        if found.ignored:
            self._tell(Note("info", f"{len(found.ignored)} files are of no kind that can be read and left alone"))
        for folder in found.unreadable:
            self._tell(Note("error", "the folder cannot be read", folder))
        for item in found.inputs:
            if item.path == STDIN:
                self._tell(Refused("the app has no standard input to read", "Name a file", STDIN))
                continue
            self.queue(Job(replace(item, path=str(Path(item.path))), chosen))

    def queue(self, job: Job) -> None:
        """Queue one document, or some of its pages."""
        with self._changed:
            if job.again is None and self._is_unfinished(job.path):
                self._tell(Refused("the document is in the queue already", path=job.path))
                return
            if job.again is None or job.path not in self._known:
                self._known[job.path] = _Known(replace(job, again=None, changed={}))
            self._waiting.append(job)
            self._remember(job)
            self._tell(DocumentQueued(job.path, job.again))
            self._changed.notify_all()

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Change what later documents are opened with."""
        chosen = {**self._options, **options}
        try:
            SessionOptions.of(chosen)
        except OcriaError as error:
            self._tell(Refused(error.message, error.cure))
            return
        self._options = chosen
        told = sorted(options.keys() - {"password"})
        self._tell(Note("debug", f"options of what is opened from now on: {', '.join(told) or 'unchanged'}"))

    def pause(self) -> None:
        self._pause(True)

    def resume(self) -> None:
        self._pause(False)

    def cancel(self, path: str | None, page: int | None) -> None:
        """Give up a page, a document, or all."""
        with self._changed:
            if path is None:
                self._cancel_all()
            elif page is not None:
                self._cancel_page(path, page)
            elif not self._cancel_document(path):
                self._tell(Refused("the document is not in the queue", path=path))

    def retry(self, path: str, pages: Sequence[int] | None, options: Mapping[str, Any]) -> None:
        """Read pages again, or all of a document."""
        with self._changed:
            known = self._known.get(path)
            if known is None:
                self._tell(Refused("this document was not opened", "Open it first", path))
                return
            try:
                SessionOptions.of({**known.job.options, **options})
            except OcriaError as error:
                self._tell(Refused(error.message, error.cure, path))
                return
            if known.shelf is None:
                self.queue(Job(known.job.item, {**known.job.options, **options}))
                return
            again = tuple(sorted({int(page) for page in (known.shelf.numbers if pages is None else pages)}))
            strange = [page for page in again if not 1 <= page <= known.shelf.page_count]
            if strange or not again:
                what = f"there is no page {strange[0]}" if strange else "no page was named"
                self._tell(Refused(what, path=path))
                return
            self.queue(Job(known.job.item, known.job.options, again, dict(options), sha256=known.shelf.sha256))

    def shelf(self, path: str) -> tuple[Shelf, SessionOptions]:
        """Where the pages of a document are, and what it was opened with. Raises OcriaError."""
        with self._changed:
            known = self._known.get(path)
            if known is None:
                raise OcriaError("this document was not opened", cure="Open it first")
            if known.shelf is None:
                raise OcriaError("the document was not read yet", cure="Wait for its first page")
            return known.shelf, SessionOptions.of(known.job.options)

    def password(self, path: str) -> str | None:
        """What a document was opened with."""
        with self._changed:
            job = self._known[path].job if path in self._known else None
        return None if job is None else job.options.get("password")

    def take(self) -> tuple[Job, Control] | None:
        """The next job, once there is one and nothing is paused, and what is wanted of it while it is read; None once
        the desk is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or (self._waiting and not self._paused))
            if self._closed:
                return None
            job, control = self._waiting.pop(0), Control()
            for page in job.skipped:
                control.cancel_page(job.path, page)
            self._running = _Running(job, control)
            return job, control

    def finish(self, job: Job) -> None:
        """The job that was taken has ended, by itself or because it was to."""
        with self._changed:
            running, self._running = self._running, None
            if running.cancelled:
                self._tell(DocumentCancelled(job.path))
            if running.cancelled or not self._closed:
                self._settle(job.path)

    def put_up(self, path: str, shelf: Shelf) -> None:
        """The pages of a document will be kept there."""
        with self._changed:
            self._known[path].shelf = shelf

    def page_done(self, event: PageDone) -> None:
        with self._changed:
            if self._running is not None and self._running.job.path == event.path:
                self._running.done.add(event.page)

    def close(self) -> None:
        """Stop what is running; nothing more comes of `next`. What is not done stays to be done."""
        with self._changed:
            self._closed = True
            if self._running is not None:
                self._running.control.set()
            self._changed.notify_all()

    def _pause(self, paused: bool) -> None:
        with self._changed:
            self._paused = paused
            if self._running is not None:
                (self._running.control.pause if paused else self._running.control.resume)()
            self._tell(PausedChanged(paused))
            self._changed.notify_all()

    def _is_unfinished(self, path: str) -> bool:
        return any(job.path == path for job in self._jobs())

    def _jobs(self) -> list[Job]:
        return [*([self._running.job] if self._running and not self._running.cancelled else []), *self._waiting]

    def _cancel_all(self) -> None:
        paths = list(dict.fromkeys(job.path for job in self._jobs()))
        for path in paths:
            self._cancel_document(path)
        if not paths:
            self._tell(Refused("nothing is queued or running"))

    def _cancel_document(self, path: str) -> bool:
        """Whether there was something to cancel."""
        mine = [job for job in self._waiting if job.path == path]
        for job in mine:
            self._waiting.remove(job)
        running = self._running
        if running is not None and running.job.path == path and not running.cancelled:
            running.cancelled = True
            running.control.set()
            return True  # it is told once it has ended
        if mine:
            self._tell(DocumentCancelled(path))
            self._settle(path)
        return bool(mine)

    def _cancel_page(self, path: str, page: int) -> None:
        running = self._running
        if running is not None and running.job.path == path and not running.cancelled and page not in running.done:
            shelf = self._known[path].shelf
            wanted = running.job.again or (shelf and shelf.numbers)
            if wanted and page not in wanted:
                self._tell(Refused(f"page {page} is not being read", path=path))
                return
            running.control.cancel_page(path, page)
            self._tell(Note("debug", "the page is to be left out", path, page))
            return
        for job in self._waiting:
            if job.path == path and (job.again is None or page in job.again):
                job.skipped.add(page)
                self._remember(job)
                self._tell(Note("debug", "the page is to be left out", path, page))
                return
        self._tell(Refused(f"page {page} is not being read", path=path))

    def _settle(self, path: str) -> None:
        """Nothing of a document is left to do, unless it waits once more."""
        self._forget(path)
        for job in self._waiting:
            if job.path == path:
                self._remember(job)
