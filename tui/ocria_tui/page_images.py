"""Pages as PNG files, drawn in a process of their own at the lowest priority, for whoever shows them."""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from ocria_tui.messages import PageImage

if TYPE_CHECKING:
    from ocria.document.source import Source
    from ocria.document.workers import Workers

LEAST_WIDTH, MOST_WIDTH = 16, 4096
"""Pixels."""
_NICENESS = 15
# Of documents that are open at the same time: a look at some pages here and there opens none of them again and again.
_OPEN = 3
_MOST_BYTES = 256 << 20


class PageImages:
    """Draws pages into a folder. Not for several threads at once.

    Args:
        folder: of the images; who made it removes it.
        most_bytes: that all images may take; those that were not asked for the longest go first.
    """

    def __init__(self, folder: Path, most_bytes: int = _MOST_BYTES):
        self._folder, self._most_bytes = folder, most_bytes
        self._workers: Workers | None = None
        self._sources: OrderedDict[tuple[object, ...], Source] = OrderedDict()
        self._drawn: OrderedDict[str, tuple[PageImage, int]] = OrderedDict()

    def draw(self, path: str, page: int, width: int, password: str | None = None) -> PageImage:
        """The image of a page, `width` pixels across; as it was drawn before where the file has not changed.

        Raises:
            OcriaError: the document cannot be opened, or the page cannot be drawn.
        """
        width = min(MOST_WIDTH, max(LEAST_WIDTH, width))
        stamp = _stamp(path)
        what = repr((path, stamp, page, width)).encode("utf-8", "surrogatepass")
        name = hashlib.sha256(what).hexdigest()[:24] + ".png"
        if name not in self._drawn:
            self._make_room()
            self._drawn[name] = self._draw(path, page, width, password, stamp, self._folder / name)
        self._drawn.move_to_end(name)
        return self._drawn[name][0]

    def close(self) -> None:
        """Close documents and end the process."""
        self._sources.clear()
        if self._workers is not None:
            self._workers.close()
            self._workers = None

    def _draw(
        self, path: str, page: int, width: int, password: str | None, stamp: object, file: Path
    ) -> tuple[PageImage, int]:
        from PIL import Image

        source = self._source(path, password, stamp)
        if not 1 <= page <= source.page_count:
            from ocria.errors import UsageError

            raise UsageError(f"there is no page {page}", path=path)
        drawn = source.page(page)
        facts = drawn.look()
        pixels = Image.fromarray(drawn.render(max(1, -(-width * 72 // max(1, int(facts.width))))))
        if pixels.width != width:
            height = max(1, round(pixels.height * width / pixels.width))
            pixels = pixels.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=2)
        pixels.save(file, "PNG", compress_level=1)
        return PageImage(path, page, str(file), facts.width, facts.height), file.stat().st_size

    def _source(self, path: str, password: str | None, stamp: object) -> Source:
        key = (path, password, stamp)
        if key not in self._sources:
            from ocria.document.source import open_source

            while len(self._sources) >= _OPEN:
                self._sources.popitem(last=False)[1].close()
            self._sources[key] = open_source(path, password, self._pool())
        self._sources.move_to_end(key)
        return self._sources[key]

    def _pool(self) -> Workers:
        if self._workers is None:
            from ocria.document.workers import Workers

            self._workers = Workers(1)
        return self._workers

    def _make_room(self) -> None:
        while self._drawn and sum(size for _, size in self._drawn.values()) > self._most_bytes:
            _, (image, _) = self._drawn.popitem(last=False)
            Path(image.file).unlink(missing_ok=True)


def lowest_priority() -> None:
    """Let this thread, and the processes that it starts, come after all others. (On Linux threads have a niceness
    each.)"""
    os.nice(_NICENESS)


def _stamp(path: str) -> tuple[int, int] | None:
    """The state of a file; None where it is missing, which opening it will tell."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns
