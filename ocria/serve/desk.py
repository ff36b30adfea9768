"""The queue: takes jobs while there is room, has them read in threads, and keeps what was read for a while."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from ocria.errors import OUT_OF_TIME, TimeoutExceeded
from ocria.events import DocumentStarted, Event, PageDone, RequestSubmitted, TokensAccepted
from ocria.serve.events import data_of
from ocria.serve.intake import Intake
from ocria.serve.job import CANCELLED, DONE, FAILED, RUNNING, WAITING, Job
from ocria.serve.metrics import Metrics
from ocria.serve.model import ServedModel
from ocria.serve.options import ServeOptions
from ocria.serve.problems import Problem, problem_of
from ocria.serve.reading import read_job

if TYPE_CHECKING:
    from ocria.document.result import Document
    from ocria.document.workers import Workers

_LOG = logging.getLogger("ocria.serve")
_LONGEST_RETRY_S = 120
T = TypeVar("T")


class Desk:
    """Made in the thread of the event loop, where all its methods are called.

    Args:
        workers: processes that open and draw files; closed with the desk. None does it in this process.
    """

    def __init__(self, options: ServeOptions, model: ServedModel, workers: Workers | None, metrics: Metrics):
        self.options, self.model, self.workers, self.metrics = options, model, workers, metrics
        self.intake = Intake(options)
        self.stopping = False
        self._loop = asyncio.get_running_loop()
        self._readers = ThreadPoolExecutor(options.concurrency, "ocria-read")
        self._writer = ThreadPoolExecutor(1, "ocria-write")
        self._drawers = ThreadPoolExecutor(4, "ocria-draw")  # they wait for the workers
        self._live: dict[str, Job] = {}
        self._kept: dict[str, Job] = {}
        self._alarms: dict[str, asyncio.TimerHandle] = {}
        self._usual_s = 5.0
        """A moving mean of what a job takes."""

    @property
    def taken(self) -> int:
        """Places of the queue and readers that are in use."""
        return len(self._live)

    def check_room(self) -> None:
        """Raise Problem where no place is free."""
        if self.stopping:
            raise Problem(503, "stopping", "the server is about to end", headers={"Retry-After": "30"})
        if self.taken >= self.options.queue + self.options.concurrency:
            self.metrics.rejected += 1
            wait = math.ceil(self._usual_s * self.taken / self.options.concurrency)
            headers = {"Retry-After": str(max(1, min(_LONGEST_RETRY_S, wait)))}
            raise Problem(429, "busy", "the queue is full", "Try again later", headers=headers)

    def submit(self, job: Job) -> None:
        """Queue a job. Raises Problem, and deletes its files, where no place is free."""
        try:
            self.check_room()
        except Problem:
            job.close()
            raise
        self._live[job.id] = job
        self._alarms[job.id] = self._loop.call_later(job.asked.timeout, self._expire, job)
        job.log.tell({"type": "job", "id": job.id, "name": job.name, "state": job.state, "ahead": self.ahead(job)})
        self._readers.submit(self._read, job)

    def find(self, job_id: str) -> Job:
        """A job that is kept or live. Raises Problem."""
        self._forget_old()
        job = self._live.get(job_id) or self._kept.get(job_id)
        if job is None or not job.keep:
            raise Problem(404, "not_found", "there is no such job, or it is gone")
        return job

    def ahead(self, job: Job) -> int:
        """How many jobs wait before this one."""
        if job.state != WAITING:
            return 0
        waiting = [other.id for other in self._live.values() if other.state == WAITING]
        return waiting.index(job.id)

    def cancel(self, job: Job) -> None:
        """End a job; does nothing where it has ended. One that runs ends soon."""
        if job.ended.is_set():
            return
        job.control.set()
        if job.state == WAITING:
            self._end(job, CANCELLED, Problem(503 if self.stopping else 409, *self._why()))

    def discard(self, job: Job) -> None:
        """Cancel and forget a job, with its files. Every job that is not kept ends so."""
        job.keep, job.left = False, True
        self._kept.pop(job.id, None)
        if job.ended.is_set():
            job.close()
        else:
            self.cancel(job)

    async def write(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call what makes text of a document."""
        return await self._loop.run_in_executor(self._writer, work, *arguments)

    async def draw(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call what has the workers draw pages or write a PDF."""
        return await self._loop.run_in_executor(self._drawers, work, *arguments)

    def counts(self) -> dict[str, int]:
        """For those who watch."""
        running = sum(job.state == RUNNING for job in self._live.values())
        waiting = self.taken - running
        return {"uploading": len(self.intake), "waiting": waiting, "running": running, "kept": len(self._kept)}

    def stop(self) -> None:
        """Take nothing more, and cancel after the time of grace what is not done by then. Once more: cancel now."""
        if self.stopping:
            self.cancel_all()
        else:
            self.stopping = True
            self._loop.call_later(self.options.grace, self.cancel_all)

    def stop_from_anywhere(self) -> None:
        """As `stop`, from any thread, and from the handler of a signal."""
        self._loop.call_soon_threadsafe(self.stop)

    def cancel_all(self) -> None:
        for job in list(self._live.values()):
            self.cancel(job)

    async def close(self) -> None:
        """Wait for what runs, and end threads, worker processes and the model."""
        if not self.stopping:
            self.stop()
        while self._live:
            await next(iter(self._live.values())).ended.wait()
        for job in list(self._kept.values()):
            self.discard(job)
        if self.workers is not None:
            await asyncio.to_thread(self.workers.close)
        await asyncio.to_thread(self.model.close)
        for pool in (self._readers, self._writer, self._drawers):
            await asyncio.to_thread(pool.shutdown)

    def _read(self, job: Job) -> None:
        """In a thread: one job from its beginning to its end."""
        call = self._loop.call_soon_threadsafe
        if job.control.is_set():
            return
        call(self._begin, job)
        documents: list[Document] = []
        problem = None
        try:
            documents = read_job(
                job, self.model, self.workers, self.options,
                lambda event: call(self._take, job, event, data_of(event, job.asked.options)),
            )  # fmt: skip
        except Exception as error:  # of any kind: whoever waits for the job is told
            problem = problem_of(error)
            if problem.status in (500, 503) and not job.control.is_set():  # no fault of the client, nor its time
                _LOG.error("a document failed", exc_info=error)
        call(self._finish, job, documents, problem)

    def _begin(self, job: Job) -> None:
        if job.state == WAITING:
            job.state = RUNNING

    def _take(self, job: Job, event: Event, told: dict[str, Any] | None) -> None:
        """An event of a job that runs, and what is told of it."""
        if job.ended.is_set():
            return
        if isinstance(event, DocumentStarted):
            job.pages = (job.pages or 0) + event.pages
        elif isinstance(event, RequestSubmitted):
            job.tokens_in += event.tokens_in
        elif isinstance(event, TokensAccepted):
            job.tokens_out += event.tokens
        elif isinstance(event, PageDone):
            if not job.done_pages:
                self.metrics.first_page.add(time.monotonic() - job.begun)
            job.done_pages.append(event.result)
            self.metrics.page(event.result)
        if told is not None:
            job.log.add(event, told)

    def _finish(self, job: Job, documents: list[Document], problem: Problem | None) -> None:
        job.documents = documents
        if job.control.is_set():
            self._end(job, CANCELLED, Problem(503 if self.stopping else 409, *self._why()))
        elif problem is not None:
            self._end(job, FAILED, problem)
        else:
            self._end(job, DONE, None)

    def _end(self, job: Job, state: str, problem: Problem | None) -> None:
        if job.ended.is_set():
            return
        job.state, job.problem = state, problem
        job.seconds = time.monotonic() - job.begun
        del self._live[job.id]
        self._alarms.pop(job.id).cancel()
        self._usual_s += 0.2 * (job.seconds - self._usual_s)
        self.metrics.document(job)
        if problem is not None:
            job.log.tell({"type": "error", "error": {**problem.to_dict(), "status": problem.status}})
        job.log.end()
        job.ended.set()
        if job.left:
            job.close()
        elif job.keep:
            self._kept[job.id] = job
            self._forget_old()
            self._loop.call_later(self.options.keep_seconds, self._forget_old)

    def _expire(self, job: Job) -> None:
        """The time for a job that still waits is over; one that runs sees to that itself."""
        if job.state == WAITING:
            job.control.set()
            self._end(job, FAILED, problem_of(TimeoutExceeded(OUT_OF_TIME, path=job.name)))

    def _forget_old(self) -> None:
        now, kept = time.monotonic(), self._kept
        old = [job for job in kept.values() if now - job.begun - (job.seconds or 0.0) >= self.options.keep_seconds]
        old += list(kept.values())[: max(0, len(kept) - self.options.keep_jobs)]
        for job in dict.fromkeys(old):
            kept.pop(job.id)
            job.close()

    def _why(self) -> tuple[str, str]:
        return ("stopping", "the server ends") if self.stopping else ("cancelled", "the job was cancelled")
