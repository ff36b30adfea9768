"""Finds the text lines of a page image."""

from __future__ import annotations

import numpy as np

from .attach import assign_runs
from .components import Components, Runs, components, pixels_of, runs_of, union
from .crop import cut_line
from .fragments import find_fragments
from .frame import Frame
from .ink import Ink, find_ink
from .neighbours import row_pairs
from .order import reading_order
from .result import Line, LinesResult
from .rivers import parting_gaps
from .rows import Row, fit_row
from .rules import cut_rules
from .skew import find_skew

ANALYSIS_PIXELS = 5_000_000
"""Pages are reduced by a whole factor until they have no more pixels than this."""

LEAST_SKEW = 0.25
"""Degrees; less is left to the slope of each line."""


def find_lines(gray: np.ndarray, dpi: float | None = None) -> LinesResult:
    """The text lines of a page uint8 [H, W], in reading order.

    `dpi`, where known, keeps small print from being reduced too far. Any size is fine; a page without
    text gives no lines. Raises ValueError where `gray` is not a uint8 matrix.
    """
    if gray.ndim != 2 or gray.dtype != np.uint8:
        raise ValueError(f"a page is a uint8 matrix [H, W], not {gray.dtype} {gray.shape}")
    height, width = gray.shape
    if min(height, width) < 8:
        return LinesResult([])
    factor = 1
    while height * width > ANALYSIS_PIXELS * factor * factor and (dpi is None or dpi / (factor + 1) >= 100):
        factor += 1
    frame = Frame.of((width, height), factor, 0.0)
    page = frame.analysis(gray)
    ink = find_ink(page)
    parts = components(runs_of(ink.mask))
    unit = glyph_height(parts)
    if unit is None:
        return LinesResult([])
    skew = find_skew(parts, unit)
    if abs(skew) >= LEAST_SKEW:
        frame = Frame.of((width, height), factor, skew)
        page = frame.analysis(gray)
        ink = find_ink(page)
        parts = components(runs_of(ink.mask))
        unit = glyph_height(parts) or unit
    else:
        skew = 0.0
    lines = _lines(gray, frame, ink, parts, unit)
    boxes = np.array([line.box for line in lines]).reshape(-1, 4)
    return LinesResult([lines[i] for i in reading_order(boxes)], skew)


def glyph_height(parts: Components) -> float | None:
    """The usual glyph height of a page in analysis pixels, weighted by width so that specks count little."""
    h, w = parts.h, parts.w
    fit = (h >= 4) & (h <= 200) & (w <= 4 * h) & (w >= 2) & (parts.area > 6)
    if fit.sum() < 1:
        return None
    h, w = h[fit], np.minimum(w[fit], 2 * h[fit])
    order = np.argsort(h)
    total = np.cumsum(w[order])
    return float(h[order][np.searchsorted(total, 0.5 * total[-1])])


def _lines(gray: np.ndarray, frame: Frame, ink: Ink, parts: Components, unit: float) -> list[Line]:
    ruled = cut_rules(parts, unit, ink.mask.shape)
    parts = ruled.parts
    if not len(parts):
        return []
    glyph = _glyphs(parts, unit, ink.mask.shape)
    pieces = find_fragments(parts, glyph)
    if not len(pieces):
        return []
    left, right = row_pairs(pieces.x0, pieces.top, pieces.x1, pieces.foot, reach=40.0)
    clean = ink.mask.copy()
    specks = (np.maximum(parts.h, parts.w) < 0.15 * unit)[parts.of_run]
    clean.ravel()[pixels_of(parts.runs.take(specks), clean.shape[1])] = False
    clean.ravel()[pixels_of(ruled.cut, clean.shape[1])] = False
    parted = parting_gaps(pieces, left, right, clean, ruled.bars)
    group = union(len(pieces), left[~parted], right[~parted])
    rows = _rows(parts, pieces.of_part, group, unit)
    of_run = assign_runs(parts, rows)
    return _cut(gray, frame, ink, parts, ruled.cut, rows, of_run)


def _glyphs(parts: Components, unit: float, shape: tuple[int, int]) -> np.ndarray:
    h, w = parts.h, parts.w
    height, width = shape
    edge = (parts.x0 == 0) | (parts.y0 == 0) | (parts.x1 == width) | (parts.y1 == height)
    glyph = (h >= max(4.0, 0.4 * unit)) & (h <= 12 * unit) & (w <= 25 * unit)
    glyph &= ~(edge & ((h > 3 * unit) | (w > 6 * unit)))
    glyph &= (w <= 20 * h) & (h <= 12 * w)
    return glyph


def _rows(parts: Components, piece: np.ndarray, group: np.ndarray, unit: float) -> list[Row]:
    of_part = np.where(piece >= 0, group[np.maximum(piece, 0)], -1)
    order = np.argsort(of_part, kind="stable")
    order = order[np.searchsorted(of_part[order], 0) :]
    starts = np.flatnonzero(np.diff(of_part[order], prepend=-1))
    rows = [fit_row(parts, members) for members in np.split(order, starts[1:])]
    rows.sort(key=lambda row: -row.height)
    out: list[Row] = []
    for row in rows:
        if not _is_text(row, parts, unit):
            continue
        if not any(_inside(row, big) for big in out):
            out.append(row)
    return out


def _inside(row: Row, big: Row) -> bool:
    """A row of small marks that belong to a line of larger glyphs: leaders, quotes, dots."""
    if row.height > 0.65 * big.height:
        return False
    xh = big.x_height
    x, y = 0.5 * (row.x0 + row.x1), 0.5 * (row.y0 + row.y1)
    foot = big.baseline(x)
    return big.x0 - 2 * xh < x < big.x1 + 2 * xh and foot - 2.2 * xh < y < foot + 0.7 * xh


def _is_text(row: Row, parts: Components, unit: float) -> bool:
    n = len(row.members)
    width = row.x1 - row.x0
    ink = float(parts.area[row.members].sum())
    box = float((parts.h[row.members] * parts.w[row.members]).sum())
    if row.height < 0.45 * unit:
        return False
    if n == 1 and (row.height < 0.8 * unit or width < 0.25 * row.height or width > 6 * row.height):
        return False
    return 0.08 < ink / box < 0.95 or n > 3


def _cut(
    gray: np.ndarray,
    frame: Frame,
    ink: Ink,
    parts: Components,
    cut: Runs,
    rows: list[Row],
    of_run: np.ndarray,
) -> list[Line]:
    runs = Runs(
        np.concatenate([parts.runs.row, cut.row]),
        np.concatenate([parts.runs.x0, cut.x0]),
        np.concatenate([parts.runs.x1, cut.x1]),
    )
    owner = np.concatenate([of_run, np.full(len(cut), -1)])
    order = np.lexsort((runs.x0, runs.row))
    runs, owner = runs.take(order), owner[order]
    lines = []
    for k, row in enumerate(rows):
        a, b = np.searchsorted(runs.row, [row.y0 - 3 * row.height, row.y1 + 3 * row.height])
        near = Runs(runs.row[a:b], runs.x0[a:b], runs.x1[a:b])
        mine = owner[a:b] == k
        if not mine.any():
            continue
        own = near.take(mine)
        shift = abs(row.slope) * (row.x1 - row.x0)
        slope = row.slope if shift > 1.0 else 0.0
        crop, box = cut_line(gray, frame, ink.paper, own, near.take(~mine), slope, False)
        lines.append(_line(frame, row, slope, box, crop))
    return lines


def _line(
    frame: Frame, row: Row, slope: float, box: tuple[float, float, float, float], crop: np.ndarray
) -> Line:
    x0, y0, x1, y1 = box
    half = abs(slope) * (x1 - x0) / 2
    xs, ys = frame.to_page(np.array([x0, x1, x0, x1]), np.array([y0 - half, y0 - half, y1 + half, y1 + half]))
    if frame.skew or slope:
        # The upright box around a slanting line would take in its neighbours: keep the line's own height.
        a, b = frame.to_page(np.array([x0, x1]), np.array([row.baseline(x0), row.baseline(x1)]))
        angle = float(np.degrees(np.arctan2(b[1] - b[0], a[1] - a[0])))
    else:
        angle = 0.0
    _, baseline = frame.to_page(0.5 * (x0 + x1), row.baseline(0.5 * (x0 + x1)))
    return Line(
        box=(float(xs.min()), float(ys.min()), float(xs.max()), float(ys.max())),
        angle=angle,
        baseline=float(baseline),
        x_height=row.x_height * frame.factor,
        crop=crop,
    )
