"""What the engine's process has to read, and where it keeps what it has read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocria.batch.inputs import Input
from ocria.document.options import ParseOptions

if TYPE_CHECKING:
    from ocria.document.result import Document, Page


@dataclass(slots=True)
class Job:
    """A document to be read, or some of its pages to be read again."""

    item: Input
    options: dict[str, Any]
    """What the document was opened with, as plain data."""
    again: tuple[int, ...] | None = None
    """Pages to be read again, and no others; None reads all that are not kept."""
    changed: dict[str, Any] = field(default_factory=dict)
    """Options for these alone."""
    skipped: set[int] = field(default_factory=set)
    """Pages that were cancelled before their document had its turn."""
    sha256: str | None = None
    """Of the file whose pages are read again: of another file all pages are read."""

    @property
    def path(self) -> str:
        return self.item.path

    def plain(self) -> dict[str, Any]:
        """As data that JSON can hold."""
        return {
            "path": self.path, "place": self.item.place, "options": self.options,
            "again": None if self.again is None else list(self.again), "changed": self.changed,
            "skipped": sorted(self.skipped),
        }  # fmt: skip

    @classmethod
    def of(cls, data: dict[str, Any]) -> Job:
        """The job that `plain` was asked of."""
        again = None if data["again"] is None else tuple(data["again"])
        return cls(Input(data["path"], data["place"]), data["options"], again, data["changed"], set(data["skipped"]))


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where the pages of a document are kept: a `PageStore` below the folder of outputs."""

    root: Path
    key: str
    """Of the page store."""
    sha256: str
    """Of the document's bytes."""
    page_count: int
    numbers: tuple[int, ...]
    """Those that are to be read of it."""
    options: ParseOptions

    def document(self, path: str, left_out: Sequence[Page] = ()) -> Document:
        """All that is kept by now, finished as if it had been read at once, and of other pages that they were left out.

        Raises:
            OutputError: it cannot be read.
        """
        from ocria.batch.store import PageStore
        from ocria.document.finish import finish
        from ocria.document.result import Document

        kept, model = PageStore(self.root, self.key).load()
        pages = {page.index: page for page in left_out} | kept
        document = Document(path, self.page_count, self.sha256, model=model)
        document.pages = [pages[number] for number in self.numbers if number in pages]
        document.interrupted = len(document.pages) < len(self.numbers)
        finish(document, self.options)
        return document
