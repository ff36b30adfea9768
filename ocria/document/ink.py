"""Which pixels are ink, and whether a page is blank."""

from __future__ import annotations

import numpy as np

# A grey step that reads as print. Bleed-through and scanner noise, once averaged, stay below it.
_LEAST_CONTRAST = 48
# Standard deviations between the extremes of smoothed noise: the brightest of a neighbourhood lies 3.5 above
# the mean, the darkest of a page 5 below it.
_NOISE_RANGE = 9
_CELL = 16


def ink_mask(gray: np.ndarray) -> np.ndarray:
    """Pixels clearly darker than the paper around them.

    Noise is averaged away first: a pixel counts through the mean of its 3x3 neighbourhood; what is left of
    strong noise raises the contrast that is asked for.

    Args:
        gray: uint8 [H, W], a page at about 72 dots per inch.

    Returns:
        bool [H, W].
    """
    values = gray.astype(np.float32)
    smooth = _box3(values)
    noise = 1.4826 * float(np.median(np.abs(values - smooth))) / 3
    return _paper(smooth) - smooth > max(_LEAST_CONTRAST, _NOISE_RANGE * noise)


def is_blank(gray: np.ndarray) -> bool:
    """Whether the page bears no print: white, evenly dark, or nothing but noise and ghosts."""
    mask = ink_mask(gray)
    # A lone digit in 8 pt covers about 6 pixels at 72 dots per inch, a speck of dust 1 or 2.
    return int(mask.sum()) < 5 or not _has_mark(mask)


def _has_mark(mask: np.ndarray) -> bool:
    """A group of at least 4 ink pixels within some 4x4 window."""
    counts = mask.astype(np.int32)
    for axis in (0, 1):
        padded = np.pad(counts, [(0, 3) if a == axis else (0, 0) for a in (0, 1)])
        n = counts.shape[axis]
        counts = sum(padded.take(range(k, k + n), axis=axis) for k in range(4))
    return bool((counts >= 4).any())


def _box3(values: np.ndarray) -> np.ndarray:
    """Mean over 3x3, edges repeated."""
    padded = np.pad(values, 1, mode="edge")
    rows = padded[:-2] + padded[1:-1] + padded[2:]
    return (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9


def _paper(smooth: np.ndarray) -> np.ndarray:
    """Brightness of the paper around each pixel: the bright end of 3x3 cells of 16 pixels. [H, W]"""
    height, width = smooth.shape
    down, across = -(-height // _CELL), -(-width // _CELL)
    padded = np.pad(smooth, ((0, down * _CELL - height), (0, across * _CELL - width)), mode="edge")
    cells = padded.reshape(down, _CELL, across, _CELL).max(axis=(1, 3))
    around = np.pad(cells, 1, mode="edge")
    bright = np.max(
        [around[i : i + down, j : j + across] for i in range(3) for j in range(3)], axis=0
    )  # fmt: skip
    return np.kron(bright, np.ones((_CELL, _CELL), dtype=smooth.dtype))[:height, :width]
