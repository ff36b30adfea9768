"""Dark panels with light text: bars, table heads, headings in white on black. Each is turned over and read."""

from __future__ import annotations

import numpy as np

from .components import Components, components, runs_of
from .ink import CELL, Ink

SOLID = 0.5
"""Least share of ink in the box of a panel that the threshold took for ink."""


def dark_panels(ink: Ink, parts: Components, unit: float) -> list[tuple[int, int, int, int]]:
    """Boxes (x0, y0, x1, y1) in analysis pixels of dark areas as large as a word, and not at the sheet's edge.

    Small panels are ink, large ones are dark paper (see `find_ink`).
    """
    height, width = ink.mask.shape
    w, h = parts.w, parts.h
    bars = (w >= 3 * unit) & (h >= 1.3 * unit) & (parts.area >= SOLID * w * h)
    boxes = [(parts.x0[i], parts.y0[i], parts.x1[i], parts.y1[i]) for i in np.flatnonzero(bars)]
    if not boxes and not ink.dark.any():
        return []
    if ink.dark.any():
        cells = components(runs_of(ink.dark))
        for i in np.flatnonzero(cells.area >= 0.6 * cells.w * cells.h):
            box = (cells.x0[i] - 2, cells.y0[i] - 2, cells.x1[i] + 2, cells.y1[i] + 2)
            boxes.append(tuple(CELL * int(v) for v in box))
    solid = ink.mask | np.repeat(np.repeat(ink.dark, CELL, 0), CELL, 1)[:height, :width]
    out = []
    for x0, y0, x1, y1 in boxes:
        inside = x0 > 0 and y0 > 0 and x1 < width and y1 < height
        if not inside or x1 - x0 < 3 * unit or y1 - y0 < 1.3 * unit:
            continue
        if _framed(solid[y0:y1, x0:x1]):
            out.append((int(x0), int(y0), int(x1), int(y1)))
    return out


def _framed(area: np.ndarray) -> bool:
    """A panel is dark all round; letters that touch are not. Corners and ragged edges may miss."""
    edge = max(2, min(area.shape) // 12)
    sides = (area[edge], area[-1 - edge], area[:, edge], area[:, -1 - edge])
    return all(float(side.mean()) >= 0.75 for side in sides)
