"""Cuts a line out of the page: deskewed, paper evened out, foreign ink painted over."""

from __future__ import annotations

import numpy as np
from PIL import Image

from .components import Runs, mask_of
from .frame import Frame
from .ink import CELL

MARGIN_Y = 0.1
"""White above and below the ink, in heights of the ink."""

MARGIN_X = 0.3
"""White left and right of the ink, in heights of the ink."""


def cut_line(
    gray: np.ndarray,
    frame: Frame,
    paper: np.ndarray,
    own: Runs,
    foreign: Runs,
    slope: float,
    inverted: bool,
) -> tuple[np.ndarray, tuple[float, float, float, float]]:
    """The crop uint8 [h, w] of a line, and its ink box (x0, y0, x1, y1) in the frame, sheared by -slope.

    `gray` is the page as given, `paper` the background map of the frame, `own` the line's runs, `foreign`
    runs near it that must not show (both in frame coordinates, sorted by row).
    """
    k = frame.factor
    xm = 0.5 * (int(own.x0.min()) + int(own.x1.max()))
    lift = slope * (0.5 * (own.x0 + own.x1) - xm)
    x0, x1 = float(own.x0.min()), float(own.x1.max())
    y0, y1 = float((own.row - lift).min()), float((own.row - lift).max()) + 1
    height = y1 - y0
    left, top = int(np.floor(x0 - MARGIN_X * height)), int(np.floor(y0 - MARGIN_Y * height))
    right, bottom = int(np.ceil(x1 + MARGIN_X * height)), int(np.ceil(y1 + MARGIN_Y * height))
    size = ((right - left) * k, (bottom - top) * k)
    # Frame coordinates of crop pixel (u, v): x = left + u / k, y = top + v / k + slope * (x - xm).
    sheet = (1 / k, 0.0, left, slope / k, 1 / k, top + slope * (left - xm))
    crop = _sample(gray, frame, sheet, size)
    if inverted:
        crop = 255 - crop
    crop = _even(crop, paper, sheet, size)
    hidden = _foreign_mask(own, foreign, sheet, size, k, slope)
    if hidden is not None:
        crop[hidden] = 255
    return crop, (x0, y0, x1, y1)


def _sample(gray: np.ndarray, frame: Frame, sheet: tuple, size: tuple[int, int]) -> np.ndarray:
    height, width = gray.shape
    if frame.skew == 0.0 and sheet[3] == 0.0:
        k = frame.factor
        u0, v0 = int((sheet[2] + frame.origin[0]) * k), int((sheet[5] + frame.origin[1]) * k)
        out = np.full((size[1], size[0]), 255, np.uint8)
        a, b, c, d = max(v0, 0), min(v0 + size[1], height), max(u0, 0), min(u0 + size[0], width)
        if b > a and d > c:
            out[a - v0 : b - v0, c - u0 : d - u0] = gray[a:b, c:d]
        return out
    a, b, c, d, e, f = frame.affine()
    p, q, r, s, t, w = sheet
    # Only the neighbourhood of the line is handed to PIL: the conversion copies what it gets.
    matrix = (
        a * p + b * s,
        a * q + b * t,
        a * r + b * w + c,
        d * p + e * s,
        d * q + e * t,
        d * r + e * w + f,
    )
    us, vs = np.array([0, size[0], 0, size[0]]), np.array([0, 0, size[1], size[1]])
    px, py = matrix[0] * us + matrix[1] * vs + matrix[2], matrix[3] * us + matrix[4] * vs + matrix[5]
    ox, oy = max(int(px.min()) - 2, 0), max(int(py.min()) - 2, 0)
    patch = gray[oy : max(int(py.max()) + 3, oy + 1), ox : max(int(px.max()) + 3, ox + 1)]
    if not patch.size:
        return np.full((size[1], size[0]), 255, np.uint8)
    matrix = (matrix[0], matrix[1], matrix[2] - ox, matrix[3], matrix[4], matrix[5] - oy)
    image = Image.fromarray(np.ascontiguousarray(patch))
    return np.array(image.transform(size, Image.AFFINE, matrix, Image.BICUBIC, fillcolor=255))


def _even(crop: np.ndarray, paper: np.ndarray, sheet: tuple, size: tuple[int, int]) -> np.ndarray:
    """Divide by the background so that the paper is white everywhere."""
    rows, cols = paper.shape
    p, q, r, s, t, w = (v / CELL for v in sheet)
    y0, y1 = int(max(w + min(s * size[0], 0), 0)), int(np.ceil(w + max(s * size[0], 0) + t * size[1])) + 1
    x0, x1 = int(max(r, 0)), int(np.ceil(r + p * size[0])) + 1
    patch = paper[min(y0, rows - 1) : max(y1, 1), min(x0, cols - 1) : max(x1, 1)]
    low = int(patch.min())
    if low >= 250:
        return crop
    image = Image.fromarray(np.pad(patch, 2, mode="edge"))
    matrix = (p, q, r - min(x0, cols - 1) + 2, s, t, w - min(y0, rows - 1) + 2)
    level = np.asarray(image.transform(size, Image.AFFINE, matrix, Image.BILINEAR, fillcolor=int(np.median(patch))))
    level = np.maximum(level, 48).astype(np.float32)
    return np.minimum(crop * (255.0 / level), 255.0).astype(np.uint8)


def _foreign_mask(
    own: Runs, foreign: Runs, sheet: tuple, size: tuple[int, int], k: int, slope: float
) -> np.ndarray | None:
    """Where other lines' ink shows in the crop, a pixel of blur around it included; None where nowhere."""
    if not len(foreign):
        return None
    left, top = int(sheet[2]), int(np.floor(sheet[5] + min(slope * size[0] / k, 0)))
    width, height = size[0] // k, size[1] // k
    if slope:
        height += int(np.ceil(abs(slope) * width)) + 1
    theirs = mask_of(_window(foreign, left, top, width, height), (height, width))
    if not theirs.any():
        return None
    mine = mask_of(_window(own, left, top, width, height), (height, width))
    grow = 2 if k == 1 else 1
    hidden = _grow(theirs, grow) & ~_grow(mine, 1)
    if slope == 0.0:
        return np.repeat(np.repeat(hidden, k, axis=0), k, axis=1)
    matrix = (sheet[0], sheet[1], sheet[2] - left, sheet[3], sheet[4], sheet[5] - top)
    image = Image.fromarray(hidden.astype(np.uint8) * 255)
    return np.asarray(image.transform(size, Image.AFFINE, matrix, Image.NEAREST, fillcolor=0)) > 127


def _window(runs: Runs, left: int, top: int, width: int, height: int) -> Runs:
    """Runs clipped to a window, in its coordinates."""
    a, b = np.searchsorted(runs.row, [top, top + height])
    x0 = np.clip(runs.x0[a:b] - left, 0, width)
    x1 = np.clip(runs.x1[a:b] - left, 0, width)
    kept = x1 > x0
    return Runs(runs.row[a:b][kept] - top, x0[kept], x1[kept])


def _grow(mask: np.ndarray, by: int) -> np.ndarray:
    out = mask.copy()
    for _ in range(by):
        wide = out.copy()
        wide[1:] |= out[:-1]
        wide[:-1] |= out[1:]
        out = wide.copy()
        out[:, 1:] |= wide[:, :-1]
        out[:, :-1] |= wide[:, 1:]
    return out
