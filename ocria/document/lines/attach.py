"""Gives every run of ink its line: dots, accents, commas and dashes, and glyphs that touch across lines."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from .components import Components
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
"""Least side of a mark, in x-heights of its line."""

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
            & (np.maximum(h, w)[near] >= SPECK * xh)
            & (w[near] <= np.where(h[near] <= 0.4 * xh, 14, 3.5) * xh)
        ]
        foot = row.baseline(xc[near])
        head, centre = foot - xh, yc[near]
        # The middle of a mark must lie in the zone: a comma's under the baseline, a quote's over the x-line.
        inside = (centre > head - ABOVE * xh) & (centre < foot + BELOW * xh)
        inside &= (parts.y0[near] > head - 1.8 * xh) & (parts.y1[near] < foot + 1.4 * xh)
        # A bar over or under the letters is a rule's remnant, a short one over them an accent.
        bar = w[near] >= 2 * h[near]
        over = np.where(w[near] < 0.8 * xh, ABOVE, 0.3)
        inside &= ~bar | ((centre > head - over * xh) & (centre < foot + 0.5 * xh))
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
