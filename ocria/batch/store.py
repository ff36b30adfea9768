"""The pages of a document that is not done yet, each kept as soon as it is read."""

from __future__ import annotations

import contextlib
from pathlib import Path

from ocria.batch.journal import Journal, read_journal
from ocria.batch.manifest import FOLDER
from ocria.document.result import BLANK, OK, ModelInfo, Page
from ocria.document.write.store import page_from_dict, page_to_dict


class PageStore:
    """Raw pages under a key that says from what and how they were read: `.ocria/pages/KEY.jsonl`."""

    def __init__(self, root: Path, key: str):
        self.key = key
        self._path = root / FOLDER / "pages" / f"{key}.jsonl"
        self._journal: Journal | None = None

    def load(self) -> tuple[dict[int, Page], ModelInfo | None]:
        """The pages by number, as they were read, and the model that read their pixels.

        Raises:
            OutputError: the store cannot be read.
        """
        pages: dict[int, Page] = {}
        model = None
        for record in read_journal(self._path):
            if "model" in record:
                model = ModelInfo(**record["model"])
            # A page of another version's making is read again.
            with contextlib.suppress(ValueError):
                if "page" in record:
                    page = page_from_dict(record["page"])
                    pages[page.index] = page
        return pages, model

    def put(self, page: Page) -> None:
        """Keep a page. Raises OutputError where that is not possible."""
        self._open().append({"page": page_to_dict(page)})

    def put_model(self, model: ModelInfo) -> None:
        """Keep which model reads the pages that follow. Raises OutputError where that is not possible."""
        self._open().append({"model": {"name": model.name, "version": model.version}})

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def remove(self) -> None:
        """Forget the pages."""
        self.close()
        self._path.unlink(missing_ok=True)

    def _open(self) -> Journal:
        if self._journal is None:
            self._journal = Journal(self._path)
        return self._journal


def is_good(page: Page) -> bool:
    """Whether a page needs no second try."""
    return page.status in (OK, BLANK)
