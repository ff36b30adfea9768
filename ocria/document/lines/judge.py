"""Tells rows of text from debris: halftone, silhouettes, torn edges, hand-drawn shapes."""

from __future__ import annotations

import numpy as np

from .components import Components
from .ink import CELL
from .rows import Row

TEXTURE = 2.6
"""Runs per pixel row of a glyph as wide as high; an m has three in places, a halftone blob many more."""

SURE = 8
"""Rows with so many glyphs on one baseline are text wherever they stand."""


DASH = 0.3
"""Greatest height of the dashes of a rule, in usual glyph heights of the page."""


def looks_like_text(row: Row, parts: Components, unit: float) -> bool:
    """What the row's own shape says, before its surroundings are known."""
    n = len(row.members)
    width = row.x1 - row.x0
    ink = float(parts.area[row.members].sum())
    box = float((parts.h[row.members] * parts.w[row.members]).sum())
    if row.height < 0.45 * unit:
        return False
    if n == 1 and (width < 0.15 * row.height or width > 6 * row.height):
        return False
    if n == 1 and row.height < 0.8 * unit and not (row.height > 0.6 * unit and 0.2 < ink / box < 0.7):
        return False
    return 0.08 < ink / box < 0.95 or n > 3


def keep_text(rows: list[Row], parts: Components, of_run: np.ndarray, dark: np.ndarray, unit: float) -> np.ndarray:
    """Bool [rows]: false for rows that are debris or lie among debris. `of_run`: row of each run or -1;
    `dark`: cells of large dark areas."""
    # Letters that touch make one wide component with the strokes of all.
    strokes = np.bincount(parts.of_run, minlength=len(parts)) / np.maximum(parts.h, parts.w)
    keep = np.array([_is_even(row, parts, strokes, unit) and not _is_dashes(row, parts, unit) for row in rows], bool)
    if not len(rows):
        return keep
    height, width = (CELL * n for n in dark.shape)
    for k, row in enumerate(rows):
        cropped = row.x0 <= 0 or row.y0 <= 0 or row.x1 >= width - CELL or row.y1 >= height - CELL
        keep[k] &= not cropped or len(row.members) > 2
    ink = np.bincount(of_run[of_run >= 0], (parts.runs.x1 - parts.runs.x0)[of_run >= 0], len(rows))
    for _ in range(2):
        clutter = _clutter(rows, keep, parts, of_run, dark, unit)
        for k, row in enumerate(rows):
            if keep[k] and len(row.members) < SURE:
                reach = min(row.height, 3 * unit)
                mass = _mass(clutter, row.x0 - reach, row.y0 - reach, row.x1 + reach, row.y1 + reach)
                keep[k] = mass <= 2 * ink[k]
    return keep


def _is_even(row: Row, parts: Components, strokes: np.ndarray, unit: float) -> bool:
    """Glyphs of a line stand on the baseline and are drawn in few strokes."""
    n = len(row.members)
    if float(strokes[row.members].mean()) > TEXTURE:
        return False
    if n >= 15 and float(np.percentile(parts.w[row.members] / parts.h[row.members], 80)) < 0.22:
        return False  # a bar code
    middle = 0.5 * (parts.x0[row.members] + parts.x1[row.members])
    standing = np.abs(parts.y1[row.members] - row.baseline(middle)) <= 0.15 * row.height
    if n == 1:
        fill = float(parts.area[row.members[0]] / (parts.h[row.members[0]] * parts.w[row.members[0]]))
        return fill > 0.15
    if n <= 6 and row.height > 2.5 * unit:
        return float(standing.mean()) >= 0.4
    return n < 4 or float(standing.mean()) >= 0.15


def _is_dashes(row: Row, parts: Components, unit: float) -> bool:
    """A rule made of dashes, as tills print it."""
    h, w, area = parts.h[row.members], parts.w[row.members], parts.area[row.members]
    if len(row.members) < 3 or row.height > DASH * unit:
        return False
    return float(np.median(w / h)) >= 1.5 and float(area.sum()) >= 0.6 * float((h * w).sum())


def _clutter(
    rows: list[Row], keep: np.ndarray, parts: Components, of_run: np.ndarray, dark: np.ndarray, unit: float
) -> np.ndarray:
    """Summed-area table of the ink that is no text, per cell: float [H/4 + 1, W/4 + 1]."""
    # Specks are no sign of a picture, nor are worn rules.
    long, short = np.maximum(parts.h, parts.w), np.minimum(parts.h, parts.w)
    blob = ((long > 1.2 * unit) & (long < 5 * short))[parts.of_run]
    lost = np.where(of_run >= 0, ~keep[np.maximum(of_run, 0)], blob)
    runs = parts.runs.take(lost)
    mass = dark.astype(float) * CELL * CELL
    x = np.minimum((runs.x0 + runs.x1) // (2 * CELL), dark.shape[1] - 1)
    y = np.minimum(runs.row // CELL, dark.shape[0] - 1)
    np.add.at(mass, (y, x), runs.x1 - runs.x0)
    return np.pad(mass.cumsum(0).cumsum(1), ((1, 0), (1, 0)))


def _mass(table: np.ndarray, x0: float, y0: float, x1: float, y1: float) -> float:
    rows, cols = table.shape
    a, b = (int(np.clip(v / CELL, 0, rows - 1)) for v in (y0, y1))
    c, d = (int(np.clip(v / CELL, 0, cols - 1)) for v in (x0, x1))
    return float(table[b, d] - table[a, d] - table[b, c] + table[a, c])
