"""Pages of documents that are not done: parts of long ones, and of what was being read when a run was stopped."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ocria.cluster.files import Store
from ocria.document.result import Document, ModelInfo, Page
from ocria.document.write.store import page_from_dict

FOLDER = ".ocria/parts"


@dataclass(slots=True)
class Part:
    """Raw pages, as they were read, and what is to be known of their document."""

    page_count: int
    sha256: str
    converted_from: str | None
    model: ModelInfo | None
    pages: list[dict[str, Any]]
    """As `page_to_dict` gives them."""

    @property
    def numbers(self) -> set[int]:
        return {page["index"] for page in self.pages}


class KeptParts:
    """The parts of one row in a store."""

    def __init__(self, store: Store, row: str):
        self._store, self._folder = store, f"{FOLDER}/{row}"

    def load(self, part: int) -> Part | None:
        """What is kept of a part; None where that is nothing, or of another version's making."""
        data = self._store.read(f"{self._folder}/{part:06}.json")
        if data is None:
            return None
        try:
            told = json.loads(data)
            for page in told["pages"]:
                page_from_dict(page)
        except (ValueError, KeyError):
            return None  # it is read again
        model = told.pop("model")
        return Part(**told, model=None if model is None else ModelInfo(**model))

    def save(self, part: int, kept: Part) -> None:
        """Keep a part, in place of what was kept of it. Raises OutputError."""
        model = None if kept.model is None else {"name": kept.model.name, "version": kept.model.version}
        told = {
            "page_count": kept.page_count, "sha256": kept.sha256, "converted_from": kept.converted_from,
            "model": model, "pages": kept.pages,
        }  # fmt: skip
        self._store.write(f"{self._folder}/{part:06}.json", json.dumps(told).encode("ascii"))

    def remove(self) -> None:
        """Forget all parts. Raises OutputError."""
        self._store.remove(self._folder, folder=True)


def assembled(path: str, parts: list[Part]) -> Document:
    """The document of all its parts, not finished yet."""
    first = parts[0]
    model = next((part.model for part in parts if part.model is not None), None)
    document = Document(path, first.page_count, first.sha256, model=model, converted_from=first.converted_from)
    pages: list[Page] = [page_from_dict(page) for part in parts for page in part.pages]
    document.pages = sorted(pages, key=lambda page: page.index)
    document.seconds = sum(page.seconds for page in pages)
    return document
