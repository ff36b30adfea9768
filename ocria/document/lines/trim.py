"""Takes debris off the ends of rows: what of a picture beside a line stands level with it."""

from __future__ import annotations

import numpy as np

from .components import Components
from .rows import Row, fit_row

GAP = 1.5
"""Empty width, in glyph heights of the row, behind which debris may begin."""

LETTERS = 6
"""So many glyphs must stand on the baseline without what is taken off."""

STANDING = 0.34
"""Less than this share of a cluster's width stands on the baseline where it is debris."""

BLOT = 1.8
"""From this height on, in glyph heights of the row, what does not stand on the baseline is no glyph."""

SPECKS = 5
"""So many loose components around a cluster show a halftone."""


def trim_rows(parts: Components, rows: list[Row]) -> list[Row]:
    """The rows without clusters at their ends that are no text: hardly any of it stands on the baseline, and it has a
    blot in it or specks around it."""
    loose = np.ones(len(parts), bool)
    for row in rows:
        loose[row.members] = False
    specks = np.flatnonzero(loose)
    xc, yc = 0.5 * (parts.x0 + parts.x1)[specks], 0.5 * (parts.y0 + parts.y1)[specks]
    order = np.argsort(yc)
    xc, yc = xc[order], yc[order]
    return [_trimmed(parts, row, xc, yc) for row in rows]


def _trimmed(parts: Components, row: Row, xc: np.ndarray, yc: np.ndarray) -> Row:
    """xc, yc: centres of loose components, by yc."""
    members = row.members[np.argsort(parts.x0[row.members])]
    x0, x1 = parts.x0[members], np.maximum.accumulate(parts.x1[members])
    breaks = np.flatnonzero(x0[1:] - x1[:-1] > GAP * row.height) + 1
    if not len(breaks):
        return row
    height, width = parts.h[members], parts.w[members]
    foot = parts.y1[members] - row.baseline(0.5 * (parts.x0[members] + parts.x1[members]))
    stands = (height >= 0.6 * row.height) & (np.abs(foot) <= 0.15 * row.height)
    a, b = np.searchsorted(yc, [row.base - 2 * row.height, row.base + row.height])

    def is_debris(start: int, stop: int) -> bool:
        here = slice(start, stop)
        if width[here][stands[here]].sum() >= STANDING * width[here].sum():
            return False
        if ((height[here] > BLOT * row.height) & ~stands[here]).any():
            return True
        around = (xc[a:b] > x0[start]) & (xc[a:b] < x1[stop - 1])
        return int(around.sum()) >= max(SPECKS, stop - start)

    first, last = 0, len(members)
    for cut in breaks[::-1]:  # the longest part that is debris as a whole
        if stands[cut:].sum() >= LETTERS and is_debris(first, cut):
            first = int(cut)
            break
    for cut in breaks:
        if cut > first and stands[first:cut].sum() >= LETTERS and is_debris(cut, last):
            last = int(cut)
            break
    return row if last - first == len(members) else fit_row(parts, members[first:last])
