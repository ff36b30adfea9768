"""Archives of page images (CBZ) as a source of pages: one page an image, in the order of their names."""

from __future__ import annotations

import io
import re
import zipfile
import zlib

from ocria.document.image import ImagePage, ImageSource
from ocria.document.kind import IMAGE_NAMES
from ocria.errors import InputError


class ComicSource:
    """An open archive of images. One that cannot be read is a page that fails, and the others are read.

    Of an image with several frames the first counts.
    """

    repaired = False
    converted_from = None
    parallel = 0

    def __init__(self, path: str, content: bytes, sha256: str):
        self.path = path
        self.sha256 = sha256
        self._archive = zipfile.ZipFile(io.BytesIO(content))
        names = (entry.filename for entry in self._archive.infolist())
        # macOS leaves a hidden file beside every image.
        pages = (n for n in names if n.lower().endswith(IMAGE_NAMES) and not n.startswith("__MACOSX/"))
        self._names = sorted(pages, key=_in_order)
        if not self._names:
            raise InputError("an archive without pages", path=path)
        self.page_count = len(self._names)

    def page(self, number: int) -> ImagePage:
        name = self._names[number - 1]
        try:
            content = self._archive.read(name)
        except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, zlib.error) as error:
            raise InputError(f"{name} cannot be unpacked ({error})", path=self.path) from error
        return ImagePage(ImageSource(f"{self.path}: {name}", content, self.sha256), number, frame=1)

    def close(self) -> None:
        self._archive.close()


def _in_order(name: str) -> list[tuple[int, str]]:
    """Numbers in a name by their value, so that page 10 follows page 9."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name.lower())]
