"""One request for documents: from when it is accepted to when it is forgotten."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING, Any

from ocria.document.control import Control
from ocria.serve.asked import Asked
from ocria.serve.events import EventLog
from ocria.serve.problems import Problem
from ocria.serve.upload import Upload

if TYPE_CHECKING:
    from ocria.document.result import Document, Page

WAITING, RUNNING, DONE, FAILED, CANCELLED = "waiting", "running", "done", "failed", "cancelled"


class Job:
    """What is known of it. Changed in the thread of the event loop alone, but for `control`, which may be set anywhere.

    Args:
        uploads: what is read, one after the other.
        asked: how.
        keep: whether it is found by its id, also for a while after its end.
    """

    def __init__(self, uploads: tuple[Upload, ...], asked: Asked, keep: bool = False):
        self.left = False
        """Whether nobody wants it any more: it goes with its files as soon as it ends."""
        self.id = secrets.token_urlsafe(18)
        self.uploads, self.asked, self.keep = uploads, asked, keep
        self.control = Control()
        self.begun = time.monotonic()
        self.state = WAITING
        self.pages: int | None = None
        """How many will be read, once that is known."""
        self.done_pages: list[Page] = []
        self.tokens_in = self.tokens_out = 0
        """So far, also those of pages that are not done."""
        self.documents: list[Document] = []
        self.problem: Problem | None = None
        """Why there is no result."""
        self.seconds: float | None = None
        """From its beginning to its end."""
        self.log = EventLog()
        self.ended = asyncio.Event()

    @property
    def name(self) -> str:
        return self.uploads[0].name

    @property
    def status(self) -> str | None:
        """Of the documents: the worst."""
        told = {document.status for document in self.documents}
        return next((one for one in ("interrupted", "failed", "partial", "ok") if one in told), None)

    def to_dict(self, ahead: int) -> dict[str, Any]:
        """For clients. `ahead`: how many wait before it."""
        return {
            "id": self.id,
            "name": self.name,
            "state": self.state,
            "ahead": ahead,
            "format": self.asked.format,
            "pages": self.pages,
            "pages_done": len(self.done_pages),
            "page_count": self.documents[0].page_count if self.documents else None,
            "status": self.status,
            "seconds": None if self.seconds is None else round(self.seconds, 3),
            "error": None if self.problem is None else {**self.problem.to_dict(), "status": self.problem.status},
        }

    def close(self) -> None:
        """Delete its files."""
        for upload in self.uploads:
            upload.close()
