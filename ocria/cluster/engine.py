"""An engine on the cluster: reads documents, writes them as a shard, and says so."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ocria.batch.options import BatchOptions
from ocria.batch.outputs import contents
from ocria.batch.shared_reader import SharedReader
from ocria.batch.tally import document_code
from ocria.cluster.control import STOP
from ocria.cluster.done import written
from ocria.cluster.files import Store, fetch, is_local
from ocria.cluster.job import RECEIPTS, Fault, Job, Receipt
from ocria.cluster.kept import KeptParts, Part, assembled
from ocria.cluster.options import ClusterOptions
from ocria.cluster.reading import JobReader, Stopped
from ocria.cluster.shards import FOLDER, bad_pages, encode, failed_line, page_lines, shard_name
from ocria.document.options import ParseOptions
from ocria.document.result import Document
from ocria.errors import EngineError, OcriaError, OutputError

# So often a document is begun, and each engine may begin to load its model without any of them getting to the end.
_MOST_TRIES = 3
DOCUMENTS = "documents"


@dataclass(slots=True)
class _Finished:
    """A row that is to be written."""

    lines: list[dict[str, Any]]
    receipt: Receipt


class Engine:
    """Loads the model once; a call reads the jobs of one block.

    Args:
        options: how documents are read; `device` is set.
        control: the actor of `Control`.
        kept: keys of rows of which earlier runs have kept parts.
        engines: how many there may be.
    """

    def __init__(
        self, options: ParseOptions, cluster: ClusterOptions, control: Any, kept: frozenset[str], engines: int
    ):
        import ray

        self._get, self._control, self._kept = ray.get, control, kept
        self._options, self._cluster, self._engines = options, cluster, engines
        self._store = Store(cluster.out)
        self._started: JobReader | None = None

    @property
    def _reader(self) -> JobReader:
        """Made in the first call: what is wrong with the model is then told as it is, which Ray does not do for what
        a constructor raises. Raises EngineError."""
        if self._started is None:
            from ocria.document.reader import Reader
            from ocria.document.workers import Workers

            if self._get(self._control.load.remote()) > _MOST_TRIES * self._engines:
                raise EngineError(
                    "the processes of engines end while they load the model",
                    cure="They may lack memory: see Ray's logs, and how much an engine needs",
                )
            workers = Workers(self._options.jobs or 1)
            shared = SharedReader(self._options, None if self._options.mode == "text" else Reader(self._options))
            self._started = JobReader(self._options, shared, workers, self._is_stopped, self._page_done)
            self._control.loaded.remote()
        return self._started

    def __call__(self, table: pa.Table) -> pa.Table:
        """A table of `job.JOBS` as one of `job.RECEIPTS`. Jobs that a stop leaves undone have none, parts of long
        documents but for the last of them neither.

        Raises:
            EngineError: the model or the device cannot be used.
            OutputError: nothing can be written.
        """
        self._reader  # noqa: B018  (before a fault of it counts as one of a document)
        jobs = [Job.from_json(text) for text in table["job"].to_pylist()]
        finished: list[_Finished] = []
        if (known := self._known(jobs)) is None:
            once = {job.name: place for place, job in enumerate(jobs)}  # a manifest may name a document twice
            for place in once.values():
                if (done := self._one(jobs[place], table["content"][place].as_py())) is not None:
                    finished.append(done)
                # If another document of the block kills this process, all of them are begun again.
                self._control.end.remote(jobs[place].name)
            known = self._write(finished)
        return pa.table({"receipt": [receipt.to_json() for receipt in known]}, RECEIPTS)

    def _known(self, jobs: list[Job]) -> list[Receipt] | None:
        """The receipts of a block that was written before, where its machine was lost right after."""
        if not jobs or any(job.parts > 1 for job in jobs):
            return None
        keys = {job.key for job in jobs}
        found = written(self._store, shard_name(keys, self._cluster.shards), self._cluster.shards, keys)
        if found is None:
            return None
        return [Receipt(one.row, one.path, one.outcome, one.code, one.pages, 0, [], 0.0) for one in found]

    def _one(self, job: Job, content: bytes | None) -> _Finished | None:
        """Read a job; None where its row is not done by it."""
        begun = time.monotonic()
        tries = self._get(self._control.begin.remote(job.name))
        if tries == STOP:
            return None
        if job.fault is not None:
            return _failed(job, job.fault, begun)
        try:
            document = self._document(job, content, tries)
            if document is None:
                return None
            self._write_document(job, document, content)
        except Stopped:
            return None
        except EngineError as error:
            # The engine may be broken for good. A fresh process has the next try, and the document only so many.
            print(f"ocria: {job.row.path}: {error}; the engine starts anew", file=sys.stderr, flush=True)
            os._exit(1)
        except OutputError:
            raise
        except OcriaError as error:
            return _failed(job, Fault.of(error), begun)
        lines = page_lines(job.key, job.row, document, self._options)
        receipt = Receipt(
            job.key, job.row.path, document.status, document_code(document), len(lines),
            sum(line["tokens"] for line in lines), bad_pages(lines), time.monotonic() - begun,
            kept=job.parts > 1 or job.key in self._kept,
        )  # fmt: skip
        return _Finished(lines, receipt)

    def _document(self, job: Job, content: bytes | None, tries: int) -> Document | None:
        """The whole document of a job, or None where other parts of it are missing."""
        kept = KeptParts(self._store, job.key)
        part = self._part(job, content, tries, kept)
        if isinstance(part, Document):
            return part
        parts = [part]
        if job.parts > 1:
            kept.save(job.part, part)
            if not self._get(self._control.part_done.remote(job.key, job.part, job.parts)):
                return None
            parts = [kept.load(number) for number in range(job.parts)]
        document = assembled(job.row.path, parts)
        self._reader.finish(document)
        return document

    def _part(self, job: Job, content: bytes | None, tries: int, kept: KeptParts) -> Part | Document:
        if tries > _MOST_TRIES:
            return self._reader.given_up(job, f"the process that read it ended {_MOST_TRIES} times")
        try:
            found = kept.load(job.part) if self._may_be_kept(job, tries) else None
            return self._reader.read(job, self._content(job, content), kept, found)
        except OcriaError as error:
            if job.parts == 1 or isinstance(error, (EngineError, OutputError)):
                raise
            return self._reader.given_up(job, error.message)  # the other parts may come out

    def _content(self, job: Job, content: bytes | None) -> bytes | None:
        """The bytes of a document that lies on no disk of this machine. Raises InputError."""
        return fetch(job.row.path) if content is None and not is_local(job.row.path) else content

    def _may_be_kept(self, job: Job, tries: int) -> bool:
        return job.key in self._kept or (job.parts > 1 and tries > 1)

    def _write_document(self, job: Job, document: Document, content: bytes | None) -> None:
        if not self._cluster.documents:
            return
        batch = BatchOptions(formats=self._cluster.documents, page_markers=self._cluster.page_markers)
        source = None
        if "pdf" in self._cluster.documents:
            content = self._content(job, content)
            source = Path(job.row.path) if content is None else content
        for name, data in contents(document, job.row.place, self._options, batch, source).items():
            self._store.write(
                f"{DOCUMENTS}/{name}", data.encode("utf-8", "replace") if isinstance(data, str) else data
            )

    def _write(self, finished: list[_Finished]) -> list[Receipt]:
        if finished:
            name = shard_name([one.receipt.key for one in finished], self._cluster.shards)
            lines = [line for one in finished for line in one.lines]
            self._store.write(f"{FOLDER}/{name}", encode(lines, self._cluster.shards))
        for one in finished:
            self._control.add.remote(documents=1, failed=int(one.receipt.outcome == "failed"))
        return [one.receipt for one in finished]

    def _is_stopped(self) -> bool:
        return self._get(self._control.is_stopped.remote())

    def _page_done(self, tokens: int, good: bool) -> None:
        self._control.add.remote(pages=1, tokens=tokens, bad_pages=int(not good))


def _failed(job: Job, fault: Fault, begun: float) -> _Finished:
    line = failed_line(job.key, job.row, fault.error(job.row.path))
    bad = [{"page": None, "status": "failed", "why": fault.message}]
    seconds = time.monotonic() - begun
    receipt = Receipt(job.key, job.row.path, "failed", fault.code, 0, 0, bad, seconds, fault.cure)
    return _Finished([line], receipt)
