"""Gives every run of ink its line: dots, accents, commas and dashes, and glyphs that touch across lines."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from .components import Components, union
from .neighbours import close_pairs
from .rows import Row

ABOVE, BELOW = 1.25, 0.75
"""How far over the x-line and under the baseline a line's own marks reach, in x-heights."""

ASIDE = 1.1
"""How far a mark may stand off a line's end, in x-heights."""

LEADER = 1.8
"""Largest space between leader dots, in x-heights."""

BULLET = 5.0
"""How far a bullet may stand before its line, in x-heights."""

SPECK = 0.1
"""Least side of a mark outside the band of the letters, in x-heights of its line. Inside, worn print has points of one
or two pixels."""

LETTER = 1.8
"""Widest letter, in x-heights: a bar no wider may be the top of a broken one."""

AFAR = 0.75, 0.45
"""From so far over the x-line and under the baseline on, in x-heights, a mark is one of a glyph right below or above
it, as the accents of capitals are."""

TOUCH = 0.45
"""Largest gap between a glyph and its accent, in x-heights."""

DASHES = 3
"""From so many dashes in a row on they are no accents."""

DASH_GAP = 0.8
"""Largest gap between the dashes of a rule, in glyph heights."""

TALL = 2.4
"""From this height, in x-heights, a loose component is no mark."""


def assign_runs(parts: Components, rows: list[Row], barred: np.ndarray) -> np.ndarray:
    """Row number of each run of `parts`, -1 where it belongs to none. int [runs].

    Members keep their row; components marked in `barred` (bool [parts]) are left out. A loose component
    goes to the nearest row whose zone holds it. One that spans several rows (letters that touch) is cut
    midway between them.
    """
    of_part = np.full(len(parts), -1)
    for k, row in enumerate(rows):
        of_part[row.members] = k
    _attach_marks(parts, rows, of_part, barred)
    of_run = of_part[parts.of_run]
    for i, span in spanning(parts, rows, np.flatnonzero(of_part < 0)):
        mine = np.flatnonzero(parts.of_run == i)
        xc = 0.5 * (parts.x0[i] + parts.x1[i])
        edges = [0.5 * (rows[a].baseline(xc) + rows[b].baseline(xc) - rows[b].x_height) for a, b in pairwise(span)]
        of_run[mine] = np.array(span)[np.searchsorted(edges, parts.runs.row[mine])]
    return of_run


def spanning(parts: Components, rows: list[Row], loose: np.ndarray) -> list[tuple[int, list[int]]]:
    """Tall components among `loose` that stand in one or more rows, with these rows from top to bottom."""
    out: dict[int, list[int]] = {}
    xc = 0.5 * (parts.x0[loose] + parts.x1[loose])
    h = parts.h[loose]
    for k, row in enumerate(rows):
        foot = row.baseline(xc)
        head = foot - row.x_height
        hit = (h > TALL * row.x_height) & (xc > row.x0) & (xc < row.x1)
        hit &= (parts.y0[loose] < head + 0.5 * row.x_height) & (parts.y1[loose] > foot - 0.5 * row.x_height)
        for i in loose[hit]:
            out.setdefault(int(i), []).append(k)
    found = []
    for i, span in out.items():
        middle = 0.5 * (parts.x0[i] + parts.x1[i])
        # Something much taller than the rows it stands in is a picture.
        if len(span) <= 6 and parts.h[i] <= 3.6 * len(span) * max(rows[k].x_height for k in span):
            found.append((i, sorted(span, key=lambda k: rows[k].baseline(middle))))
    return found


def _attach_marks(parts: Components, rows: list[Row], of_part: np.ndarray, barred: np.ndarray) -> None:
    xc, yc = 0.5 * (parts.x0 + parts.x1), 0.5 * (parts.y0 + parts.y1)
    h, w = parts.h.astype(float), parts.w.astype(float)
    loose = np.flatnonzero((of_part < 0) & ~barred)
    dashed = _dashed(parts, loose, rows)
    loose = loose[np.argsort(yc[loose])]
    ordered = yc[loose]
    best = np.full(len(parts), np.inf)
    for k, row in enumerate(rows):
        xh = row.x_height
        sway = abs(row.slope) * (row.x1 - row.x0)
        a, b = np.searchsorted(ordered, [row.base - 3 * xh - sway, row.base + 2 * xh + sway])
        near = loose[a:b]
        near = near[
            (h[near] <= TALL * xh)
            & (w[near] <= np.where(h[near] <= 0.4 * xh, 14, 3.5) * xh)
        ]
        foot = row.baseline(xc[near])
        head, centre = foot - xh, yc[near]
        # The middle of a mark must lie in the zone: a comma's under the baseline, a quote's over the x-line.
        inside = (centre > head - ABOVE * xh) & (centre < foot + BELOW * xh)
        inside &= (parts.y0[near] > head - 1.8 * xh) & (parts.y1[near] < foot + 1.4 * xh)
        band = (centre > head - 0.5 * xh) & (centre < foot + 0.2 * xh)
        inside &= band | (np.maximum(h, w)[near] >= SPECK * xh)
        # A bar over or under the letters is a rule's remnant; among them it is a stroke of a broken letter, and a short
        # one over them an accent.
        bar = w[near] >= 2 * h[near]
        over = np.where(w[near] < 0.8 * xh, ABOVE, 0.3)
        among = (parts.y0[near] >= foot - _rise(parts, row) - 0.1 * xh) & (centre < foot + 0.2 * xh)
        inside &= ~bar | ((centre > head - over * xh) & (centre < foot + 0.5 * xh)) | (among & (w[near] <= LETTER * xh))
        inside &= ~dashed[near] | among
        afar = inside & ((centre < head - AFAR[0] * xh) | (centre > foot + AFAR[1] * xh))
        inside[afar] = _touches(parts, row, near[afar])
        off = np.maximum(np.maximum(head - centre, centre - foot), 0)
        round_ = (h[near] > 0.3 * xh) & (w[near] < 1.5 * h[near]) & (h[near] < 1.5 * w[near])
        bullet = round_ & (parts.area[near] > 0.5 * h[near] * w[near]) & (off == 0) & (xc[near] < row.x0)
        dot = (np.maximum(h, w)[near] <= 0.6 * xh) & (np.abs(centre - foot) <= 0.35 * xh)
        x0, x1 = _grown(row, parts.x0[near], parts.x1[near], inside, bullet, inside & dot)
        inside &= (xc[near] >= x0) & (xc[near] <= x1)
        aside = np.maximum(np.maximum(row.x0 - parts.x1[near], parts.x0[near] - row.x1), 0) / xh
        # A row that the mark stands in comes before one that it stands beside. In pixels, for in x-heights all that
        # is below a large capital would be near to it.
        cost = off + xh * np.where(aside > 0, 1 + 0.1 * np.minimum(aside, 5), 0)
        better = inside & (cost < best[near])
        best[near[better]] = cost[better]
        of_part[near[better]] = k


def _rise(parts: Components, row: Row) -> float:
    """How high the taller glyphs of a row stand over its baseline."""
    members = row.members
    rise = np.sort(row.baseline(0.5 * (parts.x0 + parts.x1)[members]) - parts.y0[members])
    return float(rise[int(0.9 * (len(rise) - 1))])


def _touches(parts: Components, row: Row, marks: np.ndarray) -> np.ndarray:
    """Which of `marks` have a glyph of the row right above or below: bool."""
    glyph, mark = row.members[None, :], marks[:, None]
    beside = (parts.x0[glyph] < parts.x1[mark]) & (parts.x1[glyph] > parts.x0[mark])
    gap = np.maximum(parts.y0[glyph] - parts.y1[mark], parts.y0[mark] - parts.y1[glyph])
    return (beside & (gap <= TOUCH * row.x_height)).any(axis=1)


def _dashed(parts: Components, loose: np.ndarray, rows: list[Row]) -> np.ndarray:
    """Flat components among `loose` that stand in a row with their like: bool [parts]."""
    out = np.zeros(len(parts), bool)
    if not rows:
        return out
    height = float(np.median([row.height for row in rows]))
    flat = loose[(parts.w >= 1.5 * parts.h)[loose] & (parts.h <= 0.3 * height)[loose]]
    chain = chains(parts, flat, height)
    out[flat] = np.bincount(chain, minlength=1)[chain] >= DASHES
    return out


def chains(parts: Components, index: np.ndarray, height: float) -> np.ndarray:
    """Which of the components `index` follow each other on one level: int [index], the number of the chain.
    `height`: usual glyph height."""
    x0, x1, yc = parts.x0[index], parts.x1[index], 0.5 * (parts.y0 + parts.y1)[index]
    i, j = close_pairs(yc, np.full(len(index), 0.2 * height))
    near = (x0[j] >= x1[i] - 1) & (x0[j] - x1[i] <= DASH_GAP * height)
    return union(len(index), i[near], j[near])


def _grown(
    row: Row, x0: np.ndarray, x1: np.ndarray, inside: np.ndarray, bullet: np.ndarray, dot: np.ndarray
) -> tuple[float, float]:
    """The row's x-range grown by marks beside it, a bullet before it and leader dots after it."""
    xh = row.x_height
    left, right = row.x0, row.x1
    after = inside & (x1 > right) & (x0 <= right + ASIDE * xh)
    if after.any():
        right = float(x1[after].max())
    index = np.flatnonzero(dot)
    for i in index[np.argsort(x0[index])]:
        if right < x1[i] and x0[i] <= right + LEADER * xh:
            right = float(x1[i])
    before = inside & (x0 < left)
    touching = before & (x1 >= left - ASIDE * xh)
    if touching.any():
        left = float(x0[touching].min())
    # A bullet stands alone: among several marks none is one.
    apart = before & ~touching & (x1 >= left - 2 * BULLET * xh)
    if apart.sum() == 1 and (apart & bullet & (x1 >= left - BULLET * xh)).any():
        left = float(x0[apart].min())
    return left, right
