"""Image files as a source of pages: one page a frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from PIL import Image

from ocria.document.decode import DAMAGE, decode, open_image, salvage
from ocria.document.facts import PageFacts
from ocria.document.geometry import LinePlace
from ocria.document.guess import Word
from ocria.document.look_pixels import look_at_pixels
from ocria.document.result import Block, Layout
from ocria.errors import InputError

# Sheets are about 11 inches long; a photo's stated 72 dots per inch would make them metres.
_ASSUMED_LONG_SIDE = 11.0
_BELIEVABLE_LONG_SIDE = (3.0, 50.0)
_MISSING = "parts of the image are missing and were left white"
# A screenshot of a long web page is no sheet: its width tells.
_LEAST_WIDTH = 3.0


class ImageSource:
    """An open image file: a TIFF with all its pages, or one page. An animation is one picture, its first; of a HEIC
    or of a camera's file with several pictures the main one counts.

    `repaired` tells that parts of the only page are missing and were left white. A frame of a TIFF that is damaged
    is no page that could be read.

    Raises:
        InputError: not an image, an unsupported kind, corrupt, or too large to be genuine.
    """

    converted_from = None
    parallel = 0

    def __init__(self, path: str, content: bytes, sha256: str):
        self.path = path
        self.sha256 = sha256
        self.repaired = False
        self._image = open_image(content, path)
        self.page_count = self._count() if self._image.format == "TIFF" else 1
        self._only = self._decode_only(content) if self.page_count == 1 else None

    def page(self, number: int) -> ImagePage:
        return ImagePage(self, number)

    def close(self) -> None:
        self._image.close()

    def frame(self, number: int) -> tuple[Image.Image, float]:
        """Frame `number` (1-based), upright by its EXIF entry and RGB on white, and its resolution in dpi.

        Raises:
            InputError: the frame's data is corrupt.
        """
        if self._only is not None:
            return self._only
        try:
            self._image.seek(number - 1)
            return self._measured(*decode(self._image, self.path))
        except DAMAGE as error:
            raise InputError(f"image {number} is corrupt ({error})", path=self.path) from error

    def _decode_only(self, content: bytes) -> tuple[Image.Image, float]:
        try:
            self._image.seek(0)
            return self._measured(*decode(self._image, self.path))
        except DAMAGE as error:
            rest = salvage(content, self.path)
            if rest is None:
                raise InputError(f"the image is corrupt ({error})", path=self.path) from error
        self.repaired = True
        return self._measured(*rest)

    def _measured(self, frame: Image.Image, scale: float) -> tuple[Image.Image, float]:
        return frame, _resolution(frame, self._image.info.get("dpi"), scale)

    def _count(self) -> int:
        """Frames of a TIFF. The first one that cannot be reached counts, so that it shows up as a failed page, and
        hides all that follow it."""
        count = 1
        while True:
            try:
                self._image.seek(count)
            except EOFError:
                return count
            except DAMAGE:
                return count + 1
            count += 1


class ImagePage:
    """One frame of an image file; `frame` where that is not the number of the page."""

    def __init__(self, source: ImageSource, number: int, frame: int | None = None):
        self.source = source
        self.number = number
        self._frame = frame or number

    def look(self) -> PageFacts:
        image, dpi = self.source.frame(self._frame)
        facts = look_at_pixels(image, dpi)
        return replace(facts, missing=_MISSING) if self.source.repaired else facts

    def render(self, dpi: int | None) -> np.ndarray:
        """The frame at its own resolution: resampling a scan only loses. `dpi` applies to PDF pages."""
        return np.asarray(self.source.frame(self._frame)[0])

    def words(self) -> list[Word]:
        """None: an image has no text layer."""
        return []

    def lay_out(self) -> Layout:
        """No block: an image has no text layer."""
        return Layout([], 0)

    def lay_out_lines(self, width: float, height: float, lines: Sequence[tuple[str, LinePlace]]) -> list[Block]:
        from ocria.document.place import lay_out_lines

        return lay_out_lines(width, height, lines)


def _resolution(image: Image.Image, stated: tuple[float, float] | None, scale: float) -> float:
    """Dots per inch as stated, or, where that is missing or gives no sheet of paper, assumed from the size. `scale`:
    how the image was shrunk since it was stated."""
    long_side = max(image.size)
    if stated:
        dpi = float(max(stated))
        if dpi > 72.5 and _BELIEVABLE_LONG_SIDE[0] <= long_side / scale / dpi <= _BELIEVABLE_LONG_SIDE[1]:
            return dpi * scale
    assumed = long_side / _ASSUMED_LONG_SIDE
    return min(assumed, image.width / _LEAST_WIDTH) if image.height > image.width else assumed
