"""The pages that are kept of one document while it is parsed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ocria.batch.key import pages_key
from ocria.batch.manifest import Manifest
from ocria.batch.store import PageStore, is_good

if TYPE_CHECKING:
    from ocria.batch.shared_reader import SharedReader
    from ocria.document.result import ModelInfo, Page


class Kept:
    """Pages of the input `name`, under a key that is known once the file is open.

    Args:
        path: of the input; its suffix counts.
        fresh: forget what earlier runs have kept.
        only_good: take over only pages that need no second try.
    """

    def __init__(
        self, manifest: Manifest, name: str, stem: str, settings: str, path: str, *, fresh: bool, only_good: bool
    ):
        self._manifest, self._name, self._stem = manifest, name, stem
        self._settings, self._path = settings, path
        self._fresh, self._only_good = fresh, only_good
        self._store: PageStore | None = None
        self._knows_model = False

    def open(self, sha256: str) -> set[int]:
        """The numbers of the pages to take over. What was kept of another state of the file is forgotten."""
        root = self._manifest.root
        self._store = PageStore(root, pages_key(self._settings, sha256, self._path))
        before = self._manifest.stores.get(self._name)
        if before not in (None, self._store.key):
            PageStore(root, before).remove()
        if self._fresh:
            self._store.remove()
        pages, model = self._store.load()
        self._knows_model = model is not None
        return {number for number, page in pages.items() if not self._only_good or is_good(page)}

    def put(self, page: Page, reader: SharedReader) -> None:
        """Keep a page. Raises OutputError where that is not possible."""
        self._manifest.begin(self._name, self._stem, self._store.key)
        if page.route == "model" and not self._knows_model:
            self._store.put_model(reader.model)
            self._knows_model = True
        self._store.put(page)

    def load(self) -> tuple[dict[int, Page], ModelInfo | None]:
        """All pages by now, as they were read, and the model that read pixels."""
        return self._store.load()

    def close(self, forget: bool = False) -> None:
        """The document is done with; `forget` the pages where nobody will ask for them."""
        if self._store is not None:
            if forget:
                self._store.remove()
            self._store.close()


def forget_pages(root: Path, key: str) -> None:
    """Remove pages that a run left behind."""
    PageStore(root, key).remove()
