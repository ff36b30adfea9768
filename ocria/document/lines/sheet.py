"""One sheet of dark text on light paper: its rows and their crops. A page is one; so is a dark panel turned over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .attach import assign_runs, chains
from .components import Components, Runs, pixels_of, union
from .crop import cut_line
from .fragments import Fragments, find_fragments
from .frame import Frame
from .ink import Ink
from .judge import keep_text
from .merge import alone, rows_of
from .neighbours import row_pairs
from .result import Line
from .rivers import parting_gaps
from .rows import Row
from .rules import cut_rules
from .trim import trim_rows

SMALL_PRINT = 12
"""From so many small components outside all rows on, they are looked at as text of their own size."""

DASHED = 8.0
"""From this length in glyph heights on, dashes in a row are a rule."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """`gray` uint8: the page as given. `frame`: coordinates of `ink` on it. `inverted`: light on dark there."""

    gray: np.ndarray
    frame: Frame
    ink: Ink
    inverted: bool = False


def glyph_height(h: np.ndarray, w: np.ndarray, area: np.ndarray) -> float | None:
    """The usual height of glyphs among boxes of heights h and widths w (int [n], analysis pixels).

    Weighted by width so that specks count little; None where no box can be a glyph.
    """
    fit = (h >= 4) & (h <= 200) & (w <= 4 * h) & (w >= 2) & (area > 6)
    if not fit.any():
        return None
    h, w = h[fit], np.minimum(w[fit], 2 * h[fit])
    order = np.argsort(h)
    total = np.cumsum(w[order])
    return float(h[order][np.searchsorted(total, 0.5 * total[-1])])


def lines_of(sheet: Sheet, parts: Components, unit: float) -> list[Line]:
    """The lines of a sheet with components `parts` of usual glyph height `unit`, in no order."""
    ruled = cut_rules(parts, unit, sheet.ink.mask.shape)
    parts = ruled.parts
    if not len(parts):
        return []
    shape = sheet.ink.mask.shape
    clean = sheet.ink.mask.copy()
    specks = (np.maximum(parts.h, parts.w) < 0.15 * unit)[parts.of_run]
    clean.ravel()[pixels_of(parts.runs.take(specks), clean.shape[1])] = False
    clean.ravel()[pixels_of(ruled.cut, clean.shape[1])] = False
    rows = _group(parts, _glyphs(parts, unit, shape), unit, clean, ruled.bars)
    rows += alone(parts, rows, unit)
    small = _small_print(parts, rows, unit)
    size = glyph_height(parts.h[small], parts.w[small], parts.area[small])
    if size is not None and small.sum() >= SMALL_PRINT:
        glyph = small & (parts.h >= max(4.0, 0.4 * size))
        rows += [row for row in _group(parts, glyph, size, clean, ruled.bars) if len(row.members) >= 5]
    rows = trim_rows(parts, rows)
    of_run = assign_runs(parts, rows, _barred(parts, unit, shape))
    keep = keep_text(rows, parts, of_run, sheet.ink.dark, unit)
    return _cut(sheet, parts, ruled.cut, rows, np.where(np.append(keep, False)[of_run], of_run, -1))


def _group(parts: Components, glyph: np.ndarray, unit: float, clean: np.ndarray, bars: np.ndarray) -> list[Row]:
    """Rows of the components marked in `glyph`; `clean`: the ink without specks and rules."""
    pieces = find_fragments(parts, glyph, unit)
    if not len(pieces):
        return []
    left, right = _piece_pairs(pieces)
    parted = parting_gaps(pieces, left, right, clean, bars)
    group = union(len(pieces), left[~parted], right[~parted])
    of_part = np.where(pieces.of_part >= 0, group[np.maximum(pieces.of_part, 0)], -1)
    return rows_of(parts, of_part, unit)


def _small_print(parts: Components, rows: list[Row], unit: float) -> np.ndarray:
    """Small components that lie outside all rows: bool [parts]. Footnotes under large type are such."""
    small = (parts.h < 0.75 * unit) & (parts.h >= 4) & (parts.w >= 2)
    xc, yc = 0.5 * (parts.x0 + parts.x1), 0.5 * (parts.y0 + parts.y1)
    index = np.flatnonzero(small)
    for row in rows:
        pad = 1.3 * row.x_height
        inside = (xc[index] > row.x0 - pad) & (xc[index] < row.x1 + pad)
        inside &= (yc[index] > row.y0 - 0.5 * pad) & (yc[index] < row.y1 + 0.5 * pad)
        small[index[inside]] = False
        index = index[~inside]
    return small


def _piece_pairs(pieces: Fragments) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (left, right) of fragments that could stand on one line: by their usual zones and by their glyphs."""
    left, right = row_pairs(pieces.x0, pieces.top, pieces.x1, pieces.foot, reach=40.0)
    a, b = pieces.links
    beside = pieces.x0[b] >= pieces.x1[a] - pieces.glyph_h[a]
    pairs = np.concatenate([left * len(pieces) + right, a[beside] * len(pieces) + b[beside]])
    return np.divmod(np.unique(pairs), len(pieces))


def _glyphs(parts: Components, unit: float, shape: tuple[int, int]) -> np.ndarray:
    """Components that may be glyphs, or several that touch: bool [parts]."""
    h, w = parts.h, parts.w
    height, width = shape
    edge = (parts.x0 == 0) | (parts.y0 == 0) | (parts.x1 == width) | (parts.y1 == height)
    glyph = (h >= max(4.0, 0.4 * unit)) & (h <= 12 * unit) & (w <= 25 * unit)
    glyph &= ~(edge & ((h > 3 * unit) | (w > 6 * unit)))
    # A punched hole or a blot: round, solid and larger than a bullet.
    glyph &= ~((h > 1.2 * unit) & (w > 0.6 * h) & (w < 1.6 * h) & (parts.area > 0.72 * h * w))
    return glyph & (w <= 20 * h) & (h <= 12 * w)


def _barred(parts: Components, unit: float, shape: tuple[int, int]) -> np.ndarray:
    """Components that are no mark of any line: pieces of a dashed or worn rule, what touches the sheet's edge."""
    h, w = parts.h, parts.w
    height, width = shape
    barred = (parts.x0 == 0) | (parts.y0 == 0) | (parts.x1 == width) | (parts.y1 == height)
    piece = np.flatnonzero((h <= 0.4 * unit) & (np.maximum(h, w) >= 0.1 * unit))
    if len(piece) < 2:
        return barred
    x0, x1 = parts.x0[piece], parts.x1[piece]
    chain = chains(parts, piece, unit)
    inked = np.bincount(chain, x1 - x0)
    length = np.full(len(inked), -np.inf)
    start = -length
    np.maximum.at(length, chain, x1)
    np.minimum.at(start, chain, x0)
    length -= start
    rule = (length >= DASHED * unit) & (inked >= 0.5 * length)
    barred[piece] |= rule[chain]
    return barred


def _cut(sheet: Sheet, parts: Components, cut: Runs, rows: list[Row], of_run: np.ndarray) -> list[Line]:
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
        if mine.any():
            # A slope that shifts the ends by less than a stroke is not worth resampling for.
            sways = abs(row.slope) * (row.x1 - row.x0) > 0.15 * row.x_height
            slope = row.slope if sways else 0.0
            own, foreign = near.take(mine), near.take(~mine)
            crop, box = cut_line(sheet.gray, sheet.frame, sheet.ink.paper, own, foreign, slope, sheet.inverted)
            lines.append(_line(sheet.frame, row, slope, box, crop))
    return lines


def _line(frame: Frame, row: Row, slope: float, box: tuple[float, float, float, float], crop: np.ndarray) -> Line:
    x0, y0, x1, y1 = box
    half = abs(slope) * (x1 - x0) / 2
    xs, ys = frame.to_page(np.array([x0, x1, x0, x1]), np.array([y0 - half, y0 - half, y1 + half, y1 + half]))
    angle = 0.0
    if frame.skew or slope:
        ax, ay = frame.to_page(np.array([x0, x1]), np.array([row.baseline(x0), row.baseline(x1)]))
        angle = float(np.degrees(np.arctan2(ay[1] - ay[0], ax[1] - ax[0])))
    middle = 0.5 * (x0 + x1)
    return Line(
        box=(float(xs.min()), float(ys.min()), float(xs.max()), float(ys.max())),
        angle=angle,
        baseline=float(frame.to_page(middle, row.baseline(middle))[1]),
        x_height=row.x_height * frame.factor,
        crop=crop,
    )
