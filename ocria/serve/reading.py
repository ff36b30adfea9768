"""A job in a thread: check what was sent, read it, and tell what happens."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from ocria.document.api import stream
from ocria.document.decode import stated_size
from ocria.document.result import TIMEOUT
from ocria.errors import OUT_OF_TIME, TimeoutExceeded
from ocria.events import DocumentDone, DocumentStarted, Event
from ocria.serve.job import Job
from ocria.serve.model import ServedModel
from ocria.serve.options import ServeOptions
from ocria.serve.problems import Problem

if TYPE_CHECKING:
    from ocria.document.result import Document
    from ocria.document.workers import Workers

_HEADER_S = 60.0


def read_job(
    job: Job, model: ServedModel, workers: Workers | None, limits: ServeOptions, tell: Callable[[Event], None]
) -> list[Document]:
    """Read what the job holds; less than that once its control is set.

    Raises:
        OcriaError: as `ocria.parse`.
        Problem: more pages or pixels than the server takes, or nothing could be read.
    """
    documents: list[Document] = []
    pages = 0
    for upload in job.uploads:
        end = job.begun + job.asked.timeout
        check_pixels(upload.read(), upload.name, limits.max_pixels, workers, end)
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutExceeded(OUT_OF_TIME, path=upload.name)
        if job.control.is_set():
            break
        options = replace(job.asked.options, timeout=left)
        chosen = {option.name: getattr(options, option.name) for option in fields(options)}
        with closing(stream(upload, reader=model, workers=workers, cancel=job.control, **chosen)) as events:
            for event in events:
                if isinstance(event, DocumentStarted):
                    pages += event.pages
                    if pages > limits.max_pages:
                        cure = "Ask for some of them with `pages`"
                        raise Problem(413, "too_large", f"more than {limits.max_pages} pages", cure)
                tell(event)
                if isinstance(event, DocumentDone):
                    documents.append(event.document)
        if job.control.is_set():
            break
    if not job.control.is_set():
        _judge(documents)
    return documents


def check_pixels(content: bytes, name: str, limit: int, workers: Workers | None, until: float) -> None:
    """Refuse an image with too many pixels by its header, which must be told `until` a time of `time.monotonic`. Raises
    Problem, or OcriaError where nothing can be told."""
    if b"%PDF" in content[:1024]:
        return  # so it is opened as one
    if workers is None:
        size = stated_size(content)
    else:
        size = workers.run("stated_size", name, content, limit_s=_HEADER_S, until=until)
    if size is not None and size[0] * size[1] > limit:
        raise Problem(413, "too_large", f"the image has {size[0]} x {size[1]} pixels; {limit} are possible")


def _judge(documents: list[Document]) -> None:
    """Raise Problem where nothing was read at all."""
    pages = [page for document in documents for page in document.pages]
    if not pages or any(document.status != "failed" for document in documents):
        return
    late = all(page.status == TIMEOUT for page in pages)
    told = next((page.error for page in pages if page.error), "no page could be read")
    raise Problem(504 if late else 422, "timeout" if late else "input_error", f"no page could be read: {told}")
