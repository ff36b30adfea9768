"""From fragments to rows: which are lines, which are marks of a line, which are halves of one."""

from __future__ import annotations

import numpy as np

from .attach import ASIDE, spanning
from .components import Components
from .judge import looks_like_text
from .rows import Row, fit_row


def rows_of(parts: Components, of_part: np.ndarray, unit: float) -> list[Row]:
    """The rows of grouped components. `of_part` int [parts]: group, or -1; `unit`: usual glyph height."""
    order = np.argsort(of_part, kind="stable")
    order = order[np.searchsorted(of_part[order], 0) :]
    starts = np.flatnonzero(np.diff(of_part[order], prepend=-1))
    found = [fit_row(parts, members) for members in np.split(order, starts[1:])]
    found = [row for row in found if looks_like_text(row, parts, unit)]
    found.sort(key=lambda row: -row.height)
    return _joined(parts, _without_marks(found, unit)) if found else []


def _without_marks(rows: list[Row], unit: float) -> list[Row]:
    """Rows less those of small marks that belong to a line of larger glyphs: leaders, quotes, tails of letters.

    `rows` go from large to small glyphs; what is left out here finds its line mark by mark.
    """
    n = np.array([len(row.members) for row in rows])
    height, x_height = _column(rows, "height"), _column(rows, "x_height")
    x0, x1 = _column(rows, "x0"), _column(rows, "x1")
    middle_x = 0.5 * (x0 + x1)
    middle_y = 0.5 * (_column(rows, "y0") + _column(rows, "y1"))
    foot = _levels(rows, middle_x)
    # [small, big] from here on.
    marks = (height[:, None] <= 0.85 * height) & (n[:, None] <= n)
    # A line of its own beside much larger type: a subtitle, small print.
    marks &= ~((height >= 0.6 * unit) & (n >= 3))[:, None] | (height[:, None] >= 0.45 * height)
    marks &= (middle_x[:, None] > x0 - 2 * x_height) & (middle_x[:, None] < x1 + 2 * x_height)
    # The middle of the next line is farther down than this; only under a heading a small line is as close.
    below = np.where(height < unit, 1.1, 0.4)
    marks &= middle_y[:, None] > foot - 1.95 * x_height
    marks &= middle_y[:, None] < foot + below[:, None] * x_height
    kept = np.zeros(len(rows), bool)
    for k in range(len(rows)):
        kept[k] = not (marks[k] & kept).any()
    # The stem of an exclamation mark, a slash, a broken letter: in or beside a line and no taller than it.
    y0, y1 = _column(rows, "y0")[:, None], _column(rows, "y1")[:, None]
    stray = (n <= 2)[:, None] & (n >= 5) & kept
    stray &= (x0[:, None] >= x0 - ASIDE * x_height) & (x1[:, None] <= x1 + ASIDE * x_height)
    stray &= (y0 > foot - 2.2 * x_height) & (y1 < foot + 0.8 * x_height)
    kept &= ~stray.any(axis=1)
    return [row for row, keep in zip(rows, kept, strict=True) if keep]


def _joined(parts: Components, rows: list[Row]) -> list[Row]:
    """Rows that lie within a longer one, joined to it: letters printed over or far into each other."""
    x0, x1, x_height = _column(rows, "x0"), _column(rows, "x1"), _column(rows, "x_height")
    width = x1 - x0
    base = _column(rows, "base")
    foot = _levels(rows, 0.5 * (x0 + x1))
    shared = np.minimum(foot, base[:, None]) - np.maximum(foot - x_height, (base - x_height)[:, None])
    within = np.minimum(x1, x1[:, None]) - np.maximum(x0, x0[:, None]) >= 0.7 * width[:, None]
    fits = within & (shared >= 0.6 * np.maximum(x_height, x_height[:, None])) & (width > width[:, None])
    home = np.where(fits.any(axis=1), np.where(fits, width, 0).argmax(axis=1), np.arange(len(rows)))
    for _ in range(4):
        home = home[home]
    out = []
    for k in np.unique(home):
        group = np.flatnonzero(home == k)
        members = np.concatenate([rows[i].members for i in group])
        out.append(rows[k] if len(group) == 1 else fit_row(parts, members))
    return out


def alone(parts: Components, rows: list[Row], unit: float) -> list[Row]:
    """Tall glyphs that stand in no row, such as drop capitals: a row each."""
    free = np.ones(len(parts), bool)
    for row in rows:
        free[row.members] = False
    tall = free & (parts.h > 2 * unit) & (parts.h <= 12 * unit) & (parts.w <= 12 * unit)
    index = np.flatnonzero(tall & (parts.area < 0.72 * parts.h * parts.w))
    held = {i for i, _ in spanning(parts, rows, index)}
    found = [fit_row(parts, np.array([i])) for i in index if int(i) not in held]
    return [row for row in found if looks_like_text(row, parts, unit) and row.x1 - row.x0 > 0.3 * row.height]


def _column(rows: list[Row], name: str) -> np.ndarray:
    return np.array([getattr(row, name) for row in rows])


def _levels(rows: list[Row], x: np.ndarray) -> np.ndarray:
    """Height of each row's baseline at each x: float [x, rows]."""
    return _column(rows, "base") + _column(rows, "slope") * (x[:, None] - _column(rows, "xc"))
