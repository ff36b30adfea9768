"""Open documents on CPU workers: which of them are done, how many pages the others have, and which cannot be opened."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ocria.cluster.done import NOT_DONE, Done
from ocria.cluster.files import fetch, is_local, stamp
from ocria.cluster.job import JOBS, Fault, Job, rows_of
from ocria.cluster.rows import Row, row_key
from ocria.document.options import ParseOptions
from ocria.document.ranges import select_pages
from ocria.errors import EngineError, InputError, OcriaError

# What is fetched over the network travels on to the engine with its row, as long as a block of rows has no more of it.
_MOST_BYTES = 64 << 20


class Opener:
    """Turns rows into jobs. Files are opened in a process of their own, so that one that crashes is a row with an
    error.

    Args:
        control: the actor of `Control`.
    """

    def __init__(self, options: ParseOptions, settings: str, pages_per_row: int, control: Any):
        import ray

        from ocria.document.workers import Workers

        self._get = ray.get
        self._options, self._settings, self._pages_per_row = options, settings, pages_per_row
        self._done: Done = ray.get(ray.get(control.done.remote())[0])
        self._control = control
        self._workers = Workers(1)

    def __call__(self, table: pa.Table) -> pa.Table:
        """A table of `job.ROWS` as one of `job.JOBS`; rows that are done are missing in it."""
        jobs: list[Job] = []
        contents: list[bytes | None] = []
        left = _MOST_BYTES
        if not self._get(self._control.is_stopped.remote()):
            for job, content in self._jobs(rows_of(table)):
                if content is not None and len(content) > left:
                    content = None  # the engine fetches it again
                left -= len(content or b"")
                jobs.append(job)
                contents.append(content)
        return pa.table({"job": [job.to_json() for job in jobs], "content": contents}, JOBS)

    def _jobs(self, rows: list[Row]) -> Iterator[tuple[Job, bytes | None]]:
        stamps = [stamp(row.path) if row.stamp is None else row.stamp for row in rows]
        keys = [row_key(self._settings, row, one) for row, one in zip(rows, stamps, strict=True)]
        codes = self._done.codes_of(keys)
        skipped = Counter(code for code in codes if code != NOT_DONE)
        if skipped:
            self._control.skip.remote(dict(skipped))
        for row, key, code in zip(rows, keys, codes, strict=True):
            if code == NOT_DONE:
                yield from self._open(row, key)

    def _open(self, row: Row, key: str) -> Iterator[tuple[Job, bytes | None]]:
        content = None
        try:
            if not is_local(row.path):
                content = fetch(row.path)
            elif os.path.exists(row.path) and not (os.path.isfile(row.path) or os.path.isdir(row.path)):
                raise InputError("this is no file", path=row.path)  # a pipe, which would wait for a writer
            page_count, sha256, numbers = self._look(row, content)
        except EngineError:
            raise
        except OcriaError as error:
            yield Job(key, row, fault=Fault.of(error)), None
            return
        except Exception as error:  # what a damaged file makes a library raise is of any kind
            yield Job(key, row, fault=Fault(f"unexpected {type(error).__name__}: {error}", None, 1)), None
            return
        size = self._pages_per_row
        parts = [numbers[first : first + size] for first in range(0, len(numbers), size)]
        if len(parts) > 1:
            content = None
        for part, chosen in enumerate(parts):
            yield Job(key, row, tuple(chosen), page_count, sha256, part, len(parts)), content

    def _look(self, row: Row, content: bytes | None) -> tuple[int, str, list[int]]:
        from ocria.document.source import open_source

        source = open_source(as_input(row.path, content), self._options.password, self._workers)
        try:
            if not source.page_count:
                raise InputError("the document has no pages", path=row.path)
            return source.page_count, source.sha256, select_pages(row.pages, source.page_count)
        finally:
            source.close()


def as_input(path: str, content: bytes | None) -> str | io.BytesIO:
    """What is parsed: a local path, or bytes that bear the name of their URL."""
    if content is None:
        return path
    stream = io.BytesIO(content)
    stream.name = path
    return stream
