"""The line image of a line model: how a crop of one text line becomes the model's input.

Training and reading both come through here, so that the model meets the same pixels in both.
"""

import math

import numpy as np
from PIL import Image

HEIGHT = 40  # px: one merged image token is 40 x 40
STRETCH = 1.5  # widening beyond the aspect ratio: an image token then covers about two characters
BUCKET = 160  # px: widths are padded to a multiple, so that lines batch
MAX_WIDTH = 4800  # px: wider lines must be split by the caller

_MIN_CONTRAST = 40  # gray levels between ink and paper below which a crop is taken for blank


def contrast(gray: np.ndarray) -> np.ndarray:
    """Dark ink on white paper: stretch the gray range, turn light-on-dark around.

    uint8 `[h, w]` -> uint8 `[h, w]`. The range is taken from percentiles of a line crop, of which ink covers
    5 to 40 %. A crop with hardly any contrast comes out white instead of having its noise blown up.
    """
    low, middle, light, high = _percentiles(gray, (1, 50, 70, 99))
    if high - low < _MIN_CONTRAST:
        return np.full_like(gray, 255)
    if middle < (low + high) / 2:
        gray = 255 - gray
        low, high = 255 - high, 255 - low
        (light,) = _percentiles(gray, (70,))
    paper = min(high, light)
    if paper - low < _MIN_CONTRAST:
        paper = high
    levels = np.clip((np.arange(256) - low) * (255.0 / (paper - low)), 0, 255).astype(np.uint8)
    return levels[gray]


def _percentiles(gray: np.ndarray, percents: tuple[int, ...]) -> list[float]:
    """`np.percentile` of uint8, by counting the levels instead of sorting the pixels."""
    reached = np.cumsum(Image.fromarray(gray).histogram())
    found = []
    for percent in percents:
        place = (gray.size - 1) * (percent / 100)
        below, above = np.searchsorted(reached, [int(place), min(int(place) + 1, gray.size - 1)], side="right")
        part = place - int(place)
        step = float(above - below)
        found.append(above - step * (1 - part) if part >= 0.5 else below + step * part)
    return found


def crop_to_ink(gray: np.ndarray, margin: float = 0.1) -> np.ndarray:
    """Cut a loosely cropped line to its ink, with `margin` of the ink height above and below.

    uint8 `[h, w]` -> uint8 `[h', w']`; paper is added where the crop is tighter than that. A blank crop is
    returned unchanged.
    """
    ink = contrast(gray) < 128
    rows = np.flatnonzero(ink.sum(1) >= max(1, 0.002 * gray.shape[1]))
    columns = np.flatnonzero(ink.any(0))
    if not len(rows) or not len(columns):
        return gray
    top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    pad = max(1, round((bottom - top) * margin))
    paper = int(np.percentile(gray, 70))
    if np.median(gray) < 128:
        paper = int(np.percentile(gray, 30))
    padded = np.pad(gray, 3 * pad, constant_values=paper)
    return padded[top + 2 * pad : bottom + 4 * pad, left : right + 6 * pad]


def scaled_width(height: int, width: int) -> int:
    """Pixels that a crop of this size covers in the line image, before padding."""
    return max(1, round(width * STRETCH * HEIGHT / height))


def line_image(crop: np.ndarray) -> np.ndarray:
    """A crop of one line -> uint8 `[HEIGHT, W]`, W a multiple of BUCKET.

    The crop is deskewed, its ink about 80 % of its height, as `crop_to_ink` and the line finder cut it.
    Raises ValueError for an empty crop and for one wider than MAX_WIDTH after scaling.
    """
    height, width = crop.shape
    if not height or not width:
        raise ValueError(f"empty line crop {crop.shape}")
    target = scaled_width(height, width)
    if target > MAX_WIDTH:
        raise ValueError(f"line crop {width}x{height} is {target} px wide after scaling, limit {MAX_WIDTH}")
    image = Image.fromarray(contrast(crop))
    image = np.asarray(image.resize((target, HEIGHT), Image.Resampling.BICUBIC))
    padded = np.full((HEIGHT, math.ceil(target / BUCKET) * BUCKET), 255, np.uint8)
    padded[:, :target] = image
    return padded
