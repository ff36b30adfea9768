"""Image files as a source of pages: one page a frame."""

from __future__ import annotations

import io
import struct

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from ocria.document.guess import Word
from ocria.document.look import PageFacts, look_at_pixels
from ocria.errors import InputError

FORMATS = ("PNG", "JPEG", "TIFF", "WEBP")

# What Pillow's readers raise over damaged files.
_DAMAGE = (OSError, ValueError, TypeError, LookupError, ArithmeticError, SyntaxError, EOFError, struct.error)

# Sheets are about 11 inches long; a photo's stated 72 dots per inch would make them metres.
_ASSUMED_LONG_SIDE = 11.0
_BELIEVABLE_LONG_SIDE = (3.0, 50.0)


class ImageSource:
    """An open image file: PNG, JPEG, WebP, or TIFF with all its pages.

    Raises:
        InputError: not an image, an unsupported kind, corrupt, or too large to be genuine.
    """

    repaired = False

    def __init__(self, path: str, content: bytes, sha256: str):
        self.path = path
        self.sha256 = sha256
        try:
            self._image = Image.open(io.BytesIO(content), formats=FORMATS)
        except UnidentifiedImageError:
            raise InputError(
                "not a PDF or a supported image", path=path, cure=f"Supported: PDF, {', '.join(FORMATS)}"
            ) from None
        except (*_DAMAGE, Image.DecompressionBombError) as error:
            raise InputError(f"not a readable image ({error})", path=path) from error
        # An animation is one picture; only TIFF frames are pages.
        self.page_count = self._count() if self._image.format == "TIFF" else 1

    def page(self, number: int) -> ImagePage:
        return ImagePage(self, number)

    def close(self) -> None:
        self._image.close()

    def frame(self, number: int) -> tuple[Image.Image, float]:
        """Frame `number` (1-based), upright by its EXIF entry and RGB on white, and its resolution in dpi.

        Raises:
            InputError: the frame's data is corrupt.
        """
        try:
            if self.page_count > 1:
                self._image.seek(number - 1)
            image = ImageOps.exif_transpose(self._image)
            return on_white(image), _resolution(self._image)
        except _DAMAGE as error:
            raise InputError(f"image {number} is corrupt ({error})", path=self.path) from error

    def _count(self) -> int:
        """Frames of a TIFF. The first one that cannot be reached counts, so that it shows up as a failed page, and
        hides all that follow it."""
        count = 1
        while True:
            try:
                self._image.seek(count)
            except EOFError:
                return count
            except _DAMAGE:
                return count + 1
            count += 1


class ImagePage:
    """One frame of an image file."""

    def __init__(self, source: ImageSource, number: int):
        self.source = source
        self.number = number

    def look(self) -> PageFacts:
        image, dpi = self.source.frame(self.number)
        return look_at_pixels(image, dpi)

    def render(self, dpi: int | None) -> np.ndarray:
        """The frame at its own resolution: resampling a scan only loses. `dpi` applies to PDF pages."""
        return np.asarray(self.source.frame(self.number)[0])

    def words(self) -> list[Word]:
        """None: an image has no text layer."""
        return []


def on_white(image: Image.Image) -> Image.Image:
    """As RGB, transparent parts white, 16-bit greys scaled to 8."""
    if image.mode in ("I", "I;16", "I;16B", "I;16L", "F"):
        values = np.asarray(image).astype(np.float64)
        top = 65535.0 if image.mode.startswith("I") and values.max(initial=0) > 255 else 255.0
        return Image.fromarray((values.clip(0, top) * (255 / top)).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        layered = image.convert("RGBA")
        paper = Image.new("RGBA", layered.size, "white")
        return Image.alpha_composite(paper, layered).convert("RGB")
    return image.convert("RGB")


def _resolution(image: Image.Image) -> float:
    """Dots per inch as stated, or, where that is missing or gives no sheet of paper, assumed from the size."""
    long_side = max(image.size)
    stated = image.info.get("dpi")
    if stated:
        dpi = float(max(stated))
        if dpi > 72.5 and _BELIEVABLE_LONG_SIDE[0] <= long_side / dpi <= _BELIEVABLE_LONG_SIDE[1]:
            return dpi
    return long_side / _ASSUMED_LONG_SIDE
