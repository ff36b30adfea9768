"""Look at the pixels of an image before it is read. Nothing here needs MuPDF, so that a scan does not wait for it."""

from __future__ import annotations

import numpy as np
from PIL import Image

from ocria.document.facts import PageFacts
from ocria.document.ink import is_blank

LOOK_DPI = 72
NEAR_DPI = 200
_LEAST_COLOR = 40
"""Levels between the channels of a pixel."""


def look_at_pixels(image: Image.Image, dpi: float) -> PageFacts:
    """Facts of an image file's page, `image` being at `dpi`."""
    scale = LOOK_DPI / dpi
    blank = is_blank(np.asarray(_at(image.convert("L"), dpi, LOOK_DPI)), min(dpi, LOOK_DPI))
    if blank:
        blank = is_blank(with_color(np.asarray(_at(image.convert("RGB"), dpi, NEAR_DPI))), min(dpi, NEAR_DPI))
    return PageFacts(width=image.width * scale, height=image.height * scale, blank=blank, image_cover=1.0)


def with_color(pixels: np.ndarray) -> np.ndarray:
    """The pixels uint8 [H, W, 3], or one channel [H, W] where they are grey."""
    spread = pixels.max(axis=2).astype(np.int16) - pixels.min(axis=2)
    return pixels if (spread > _LEAST_COLOR).any() else pixels[..., 1]


def _at(image: Image.Image, dpi: float, wanted: float) -> Image.Image:
    """The image of `dpi` at no more than the wanted resolution."""
    scale = wanted / dpi
    if scale >= 1:
        return image
    return image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))), Image.Resampling.BOX)
