"""Gives every run of ink its line: dots, accents, commas and dashes, and glyphs that touch across lines."""

from __future__ import annotations

import numpy as np

from .components import Components
from .rows import Row

ABOVE, BELOW = 1.25, 0.75
"""How far over the x-line and under the baseline a line's own marks reach, in x-heights."""

ASIDE = 1.6
"""How far a mark may stand off a line's end, in x-heights."""

SPECK = 0.1
"""Least side of a mark, in x-heights of its line."""


def assign_runs(parts: Components, rows: list[Row]) -> np.ndarray:
    """Row number of each run of `parts`, -1 where it belongs to none. int [runs].

    Members keep their row. A loose component goes to the nearest row whose zone holds it. One that
    spans several rows (letters that touch) is cut midway between them.
    """
    of_part = np.full(len(parts), -1)
    for k, row in enumerate(rows):
        of_part[row.members] = k
    xc, yc = 0.5 * (parts.x0 + parts.x1), 0.5 * (parts.y0 + parts.y1)
    h, w = parts.h.astype(float), parts.w.astype(float)
    loose = of_part < 0
    best = np.full(len(parts), np.inf)
    spans: list[list[int]] = [[] for _ in range(len(parts))]
    for k, row in enumerate(rows):
        xh = row.x_height
        near = np.flatnonzero(loose & (xc > row.x0 - ASIDE * xh) & (xc < row.x1 + ASIDE * xh))
        if not len(near):
            continue
        foot = row.baseline(xc[near])
        head = foot - xh
        big = h[near] > 2.6 * xh
        for i in near[big & (parts.y0[near] < head + 0.5 * xh) & (parts.y1[near] > foot - 0.5 * xh)]:
            spans[i].append(k)
        small = near[~big & (np.maximum(h, w)[near] >= SPECK * xh)]
        foot, head = row.baseline(xc[small]), row.baseline(xc[small]) - xh
        centre = yc[small]
        # The mark's middle must lie in the zone: a comma's just under the baseline, a quote's over the x-line.
        inside = (centre > head - ABOVE * xh) & (centre < foot + BELOW * xh)
        inside &= w[small] <= 14 * xh
        # Distance off the core, told apart from the next row's by its own size.
        off = np.maximum(np.maximum(head - centre, centre - foot), 0) / xh
        aside = np.maximum(np.maximum(row.x0 - parts.x1[small], parts.x0[small] - row.x1), 0) / xh
        cost = off + 0.5 * aside
        better = inside & (cost < best[small])
        best[small[better]] = cost[better]
        of_part[small[better]] = k
    of_run = of_part[parts.of_run]
    _cut_spans(parts, rows, spans, of_run)
    return of_run


def _cut_spans(parts: Components, rows: list[Row], spans: list[list[int]], of_run: np.ndarray) -> None:
    for i, span in enumerate(spans):
        if not span:
            continue
        if len(span) > 6:
            continue
        xc = 0.5 * (parts.x0[i] + parts.x1[i])
        span = sorted(span, key=lambda k: rows[k].baseline(xc))
        # Only text is as narrow as it is tall; something much taller than its rows is a picture.
        if parts.h[i] > 4 * len(span) * rows[span[0]].x_height:
            continue
        mine = np.flatnonzero(parts.of_run == i)
        edges = []
        for upper, lower in zip(span, span[1:], strict=False):
            edges.append(0.5 * (rows[upper].baseline(xc) + rows[lower].baseline(xc) - rows[lower].x_height))
        of_run[mine] = np.array(span)[np.searchsorted(edges, parts.runs.row[mine])]
