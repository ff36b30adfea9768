"""One sheet of dark text on light paper: its rows and their crops. A page is one; so is a dark panel turned over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .attach import assign_runs, spanning
from .components import Components, Runs, pixels_of, union
from .crop import cut_line
from .fragments import Fragments, find_fragments
from .frame import Frame
from .ink import Ink
from .judge import keep_text, looks_like_text
from .neighbours import close_pairs, row_pairs
from .result import Line
from .rivers import parting_gaps
from .rows import Row, fit_row
from .rules import cut_rules

DASHES = 8
"""From so many in a row on, dashes are a rule."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """`gray` uint8: the page as given. `frame`: coordinates of `ink` on it. `inverted`: light on dark there."""

    gray: np.ndarray
    frame: Frame
    ink: Ink
    inverted: bool = False


def glyph_height(parts: Components) -> float | None:
    """The usual glyph height in analysis pixels, weighted by width so that specks count little."""
    h, w = parts.h, parts.w
    fit = (h >= 4) & (h <= 200) & (w <= 4 * h) & (w >= 2) & (parts.area > 6)
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
    pieces = find_fragments(parts, _glyphs(parts, unit, sheet.ink.mask.shape))
    if not len(pieces):
        return []
    left, right = _piece_pairs(pieces)
    clean = sheet.ink.mask.copy()
    specks = (np.maximum(parts.h, parts.w) < 0.15 * unit)[parts.of_run]
    clean.ravel()[pixels_of(parts.runs.take(specks), clean.shape[1])] = False
    clean.ravel()[pixels_of(ruled.cut, clean.shape[1])] = False
    parted = parting_gaps(pieces, left, right, clean, ruled.bars)
    group = union(len(pieces), left[~parted], right[~parted])
    rows = _rows(parts, pieces.of_part, group, unit)
    of_run = assign_runs(parts, rows, _barred(parts, unit, sheet.ink.mask.shape))
    keep = keep_text(rows, parts, of_run, sheet.ink.dark, unit)
    return _cut(sheet, parts, ruled.cut, rows, np.where(np.append(keep, False)[of_run], of_run, -1))


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
    """Components that are no mark of any line: dashes of a dashed rule, and what touches the sheet's edge."""
    h, w = parts.h, parts.w
    height, width = shape
    barred = (parts.x0 == 0) | (parts.y0 == 0) | (parts.x1 == width) | (parts.y1 == height)
    dash = np.flatnonzero((h <= 0.4 * unit) & (w >= 1.2 * h) & (w >= 0.25 * unit))
    if len(dash) < DASHES:
        return barred
    x0, x1, yc = parts.x0[dash], parts.x1[dash], 0.5 * (parts.y0 + parts.y1)[dash]
    i, j = close_pairs(yc, np.full(len(dash), 0.25 * unit))
    near = (x0[j] >= x1[i] - 1) & (x0[j] - x1[i] <= 1.2 * unit)
    chain = union(len(dash), i[near], j[near])
    barred[dash] |= np.bincount(chain)[chain] >= DASHES
    return barred


def _rows(parts: Components, piece: np.ndarray, group: np.ndarray, unit: float) -> list[Row]:
    of_part = np.where(piece >= 0, group[np.maximum(piece, 0)], -1)
    order = np.argsort(of_part, kind="stable")
    order = order[np.searchsorted(of_part[order], 0) :]
    starts = np.flatnonzero(np.diff(of_part[order], prepend=-1))
    found = [fit_row(parts, members) for members in np.split(order, starts[1:])]
    found.sort(key=lambda row: -row.height)
    rows: list[Row] = []
    for row in found:
        if looks_like_text(row, parts, unit) and not any(_inside(row, big, unit) for big in rows):
            rows.append(row)
    rows = _joined(parts, rows)
    return rows + _alone(parts, rows, of_part, unit)


def _joined(parts: Components, rows: list[Row]) -> list[Row]:
    """Rows that lie within a longer one, joined to it: letters printed over or far into each other."""
    x0, x1 = np.array([r.x0 for r in rows]), np.array([r.x1 for r in rows])
    foot = np.array([r.base for r in rows])
    head = foot - np.array([r.x_height for r in rows])
    home = np.arange(len(rows))
    for k in np.argsort(x1 - x0, kind="stable"):
        row = rows[k]
        level = np.array([other.baseline(0.5 * (row.x0 + row.x1)) for other in rows])
        shared = np.minimum(level, foot[k]) - np.maximum(level - (foot - head), head[k])
        within = np.minimum(x1, row.x1) - np.maximum(x0, row.x0) >= 0.7 * (row.x1 - row.x0)
        fits = within & (shared >= 0.6 * np.maximum(foot - head, row.x_height)) & (x1 - x0 > row.x1 - row.x0)
        if fits.any():
            home[k] = np.flatnonzero(fits)[np.argmax((x1 - x0)[fits])]
    for _ in range(3):
        home = home[home]
    return [
        rows[k]
        if (home == k).sum() == 1
        else fit_row(parts, np.concatenate([rows[i].members for i in np.flatnonzero(home == k)]))
        for k in range(len(rows))
        if home[k] == k
    ]


def _alone(parts: Components, rows: list[Row], of_part: np.ndarray, unit: float) -> list[Row]:
    """Tall glyphs that stand in no row, such as drop capitals: a row each."""
    tall = np.flatnonzero((of_part < 0) & (parts.h > 2 * unit) & (parts.h <= 12 * unit) & (parts.w <= 12 * unit))
    held = {i for i, _ in spanning(parts, rows, tall)}
    alone = [fit_row(parts, np.array([i])) for i in tall if int(i) not in held]
    return [row for row in alone if looks_like_text(row, parts, unit) and row.x1 - row.x0 > 0.3 * row.height]


def _inside(row: Row, big: Row, unit: float) -> bool:
    """A row of small marks that belong to a line of larger glyphs: leaders, quotes, tails of broken letters."""
    if row.height > 0.85 * big.height or len(row.members) > len(big.members):
        return False
    if row.height >= 0.6 * unit and row.height < 0.45 * big.height and len(row.members) >= 3:
        return False
    xh = big.x_height
    x, y = 0.5 * (row.x0 + row.x1), 0.5 * (row.y0 + row.y1)
    foot = big.baseline(x)
    # The middle of the next line is farther down than this; only under a heading a small line is as close.
    below = 1.1 if row.height < unit else 0.4
    return big.x0 - 2 * xh < x < big.x1 + 2 * xh and foot - 1.95 * xh < y < foot + below * xh


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
            slope = row.slope if abs(row.slope) * (row.x1 - row.x0) > 1.0 else 0.0
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
