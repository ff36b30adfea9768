"""The pixels of figures, cut out of their pages."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator

import numpy as np
from PIL import Image

from ocria.document.options import ParseOptions
from ocria.document.result import Block, Page, Picture
from ocria.document.source import Source
from ocria.errors import OcriaError
from ocria.events import Note

_MOST_PIXELS = 4_000_000
_LEAST_SIDE = 8
"""Pixels: what is smaller is a rule or a speck."""
_JPEG_QUALITY = 90
_SMALL = 32_768
"""Bytes: a PNG up to here is small enough, whatever it shows."""
_JPEG_GAIN = 2.0
"""How many times smaller a JPEG must be to be taken for a PNG: drawings keep their sharp edges, photos get small."""


def cut_figures(page: Page, source: Source, options: ParseOptions) -> Iterator[Note]:
    """Give the figures of a page their pixels where the options ask for them, as sharp as the page is, upright and of
    four million pixels at most. A page that cannot be drawn keeps its blocks without them, and a note tells."""
    if options.images not in ("embed", "extract"):
        return
    blocks = [block for block in page.blocks if block.type == "picture" and _has_place(block, page)]
    if not blocks:
        return
    try:
        pixels = source.page(page.index).render(options.dpi)
    except Exception as error:  # whatever a damaged page does, its text is there
        why = error.message if isinstance(error, OcriaError) else f"{type(error).__name__}: {error}"
        yield Note("warning", f"no figure could be cut out: {why}", source.path, page.index)
        return
    for block in blocks:
        crop = _crop(pixels, block, page)
        if min(crop.shape[:2]) >= _LEAST_SIDE:
            block.picture = encode(np.rot90(crop, -page.rotation // 90))


def encode(pixels: np.ndarray) -> Picture:
    """A picture of uint8 [H, W, 3]: PNG, or JPEG for photos. Grey ones are stored as such."""
    if (pixels == pixels[..., :1]).all():
        pixels = pixels[..., 0]
    image = Image.fromarray(np.ascontiguousarray(pixels))
    share = math.sqrt(_MOST_PIXELS / (image.width * image.height))
    if share < 1:
        size = (max(1, int(image.width * share)), max(1, int(image.height * share)))
        image = image.resize(size, Image.Resampling.LANCZOS)
    png, jpeg = _saved(image, "PNG"), _saved(image, "JPEG", quality=_JPEG_QUALITY)
    if len(png) > max(_SMALL, _JPEG_GAIN * len(jpeg)):
        return Picture(jpeg, "image/jpeg", image.width, image.height)
    return Picture(png, "image/png", image.width, image.height)


def _has_place(block: Block, page: Page) -> bool:
    """Whether the figure's box is its own. A model that tells no places gives every block the whole page."""
    x0, y0, x1, y1 = block.box
    if x1 <= x0 or y1 <= y0:
        return False
    return len(page.blocks) == 1 or any(other.box != block.box for other in page.blocks if other is not block)


def _crop(pixels: np.ndarray, block: Block, page: Page) -> np.ndarray:
    height, width = pixels.shape[:2]
    across, down = width / page.width, height / page.height
    x0, y0, x1, y1 = block.box
    left, top = max(0, math.floor(x0 * across)), max(0, math.floor(y0 * down))
    return pixels[top : min(height, math.ceil(y1 * down)), left : min(width, math.ceil(x1 * across))]


def _saved(image: Image.Image, kind: str, **options: int) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()
