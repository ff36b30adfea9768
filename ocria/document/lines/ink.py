"""From grey levels to ink: background, local contrast and an adaptive threshold.

The threshold lies halfway between the local paper and the local ink, both taken from the page
reduced four times. A dark area much larger than a stroke counts as background, so scan borders,
shadows and solid pictures do not become ink.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

CELL = 4
"""Side in pixels of a cell of the background map."""

WINDOW = 13
"""Cells across the neighbourhood in which some paper must show (52 px, wider than a heading's stroke)."""


@dataclass(frozen=True, slots=True)
class Ink:
    """`mask` bool [H, W]: ink. `paper` uint8 [H/4, W/4]: background level per cell. `dark` bool, same
    shape as paper: cells inside large dark areas."""

    mask: np.ndarray
    paper: np.ndarray
    dark: np.ndarray


def find_ink(gray: np.ndarray) -> Ink:
    """Adaptive threshold of uint8 [H, W]; dark text on light paper is expected."""
    height, width = gray.shape
    cells_y, cells_x = -(-height // CELL), -(-width // CELL)
    padded = _pad(gray, cells_y * CELL, cells_x * CELL)
    image = Image.fromarray(padded)
    half = np.asarray(image.reduce(CELL // 2))
    mean = np.asarray(image.reduce(CELL))
    darkest = half.reshape(cells_y, 2, cells_x, 2).min(axis=(1, 3))
    paper = _erode(_dilate(mean, WINDOW), WINDOW)
    stroke = _erode(np.minimum(darkest, mean), WINDOW)
    contrast = paper.astype(np.int16) - stroke
    white = float(np.percentile(paper, 75))
    weakest, strongest = (float(v) for v in np.percentile(contrast, (10, 99.5)))
    # Weak contrast that is the same everywhere is the paper's grain.
    grain = strongest < min(1.6 * weakest, 70.0)
    floor = 256.0 if grain else max(24.0, 0.25 * strongest)
    drop = np.where(contrast < floor, floor, 0.5 * contrast)
    dark = paper < 0.25 * white
    level = np.clip(paper - drop, 0, 255)
    level[dark] = 0
    threshold = np.asarray(
        Image.fromarray(level.astype(np.uint8)).resize((padded.shape[1], padded.shape[0]), Image.BILINEAR)
    )
    return Ink(gray < threshold[:height, :width], paper, dark)


def _pad(gray: np.ndarray, height: int, width: int) -> np.ndarray:
    if gray.shape == (height, width):
        return gray
    return np.pad(gray, ((0, height - gray.shape[0]), (0, width - gray.shape[1])), mode="edge")


def _dilate(image: np.ndarray, size: int) -> np.ndarray:
    return _extreme(_extreme(image, size, np.maximum, 0), size, np.maximum, 1)


def _erode(image: np.ndarray, size: int) -> np.ndarray:
    return _extreme(_extreme(image, size, np.minimum, 0), size, np.minimum, 1)


def _extreme(image: np.ndarray, size: int, pick: np.ufunc, axis: int) -> np.ndarray:
    """Running extreme over `size` (odd) cells along an axis, by doubling; edges repeat."""
    half = size // 2
    pad = [(0, 0), (0, 0)]
    pad[axis] = (half, half)
    out = np.moveaxis(np.pad(image, pad, mode="edge"), axis, 0)
    span = 1
    while span * 2 <= size:
        out = pick(out[:-span], out[span:])
        span *= 2
    rest = size - span
    if rest:
        out = pick(out[:-rest], out[rest:])
    return np.ascontiguousarray(np.moveaxis(out, 0, axis))
