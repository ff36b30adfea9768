"""Which gaps between fragments part two lines: too wide, a rule between, or part of a column gutter.

A gutter is a white river: a strip that runs through the gaps of several lines in a row. Gaps between
the words of justified prose rarely line up over more than two or three lines.
"""

from __future__ import annotations

import numpy as np

from .components import union
from .fragments import Fragments
from .median import median

WIDE = 3.2
"""Gap in glyph heights from which two fragments are two lines whatever else the page says."""

FILLED = 0.3
"""From this share of ink in a gap on, something other than leaders stands in it."""

GUTTER = 5.0
"""Least river: its width in glyph heights times the number of lines it parts."""


def parting_gaps(
    pieces: Fragments, left: np.ndarray, right: np.ndarray, ink: np.ndarray, bars: np.ndarray
) -> np.ndarray:
    """Bool [pairs]: the pair (left, right) of fragments belongs to two different lines.

    `ink` bool [H, W] without specks; `bars` int [n, 4] the boxes of the rules.
    """
    small, large = np.sort([pieces.glyph_h[left], pieces.glyph_h[right]], axis=0)
    # A comma's height says nothing of its line.
    unit = np.where(small < 0.6 * large, large, np.minimum(1.2 * small, 0.5 * (small + large)))
    gx0, gx1 = pieces.x1[left], pieces.x0[right]
    top = np.maximum(pieces.top[left], pieces.top[right])
    foot = np.minimum(pieces.foot[left], pieces.foot[right])
    yc = 0.5 * (top + foot)
    parted = np.zeros(len(left), bool)
    wx0, wx1 = gx0.copy(), gx1.copy()
    for k in np.flatnonzero(gx1 - gx0 > 0.5 * unit):
        wx0[k], wx1[k], filled = _white(ink, top[k], foot[k], gx0[k], gx1[k])
        parted[k] = filled > FILLED and gx1[k] - gx0[k] > 2.5 * unit[k]
    gap = wx1 - wx0
    parted |= gap > WIDE * unit
    parted |= _barred(bars, gx0, gx1, top, foot)
    parted |= _rivers(pieces, left, right, ink, unit, wx0, wx1, yc)
    return parted


def _white(ink: np.ndarray, top: float, foot: float, x0: float, x1: float) -> tuple[float, float, float]:
    """The widest stretch without ink between two fragments, and the share of ink in the whole gap.

    Leader dots and dashes bridge a gap; a picture in it does not.
    """
    area = ink[int(top) : int(np.ceil(foot)), int(x0) : int(np.ceil(x1))]
    band = area.any(axis=0)
    marks = np.flatnonzero(band)
    if not len(marks):
        return x0, x1, 0.0
    stops = np.concatenate([[-1], marks, [len(band)]])
    k = int(np.argmax(np.diff(stops)))
    return int(x0) + stops[k] + 1, int(x0) + stops[k + 1], float(area.mean())


def _barred(bars: np.ndarray, x0: np.ndarray, x1: np.ndarray, top: np.ndarray, foot: np.ndarray) -> np.ndarray:
    """A vertical rule stands in the gap and is as tall as the line."""
    upright = bars[(bars[:, 3] - bars[:, 1]) > (bars[:, 2] - bars[:, 0])] if len(bars) else bars
    out = np.zeros(len(x0), bool)
    for bx0, by0, bx1, by1 in upright:
        centre = 0.5 * (bx0 + bx1)
        out |= (centre > x0) & (centre < x1) & (by0 <= top + 0.2 * (foot - top)) & (by1 >= foot - 0.2 * (foot - top))
    return out


def _rivers(
    pieces: Fragments,
    left: np.ndarray,
    right: np.ndarray,
    ink: np.ndarray,
    unit: np.ndarray,
    gx0: np.ndarray,
    gx1: np.ndarray,
    yc: np.ndarray,
) -> np.ndarray:
    above, below = _reach(ink)
    narrow = _marker(pieces, left, right)
    gap = gx1 - gx0
    usual = _usual_gap(left, right, gap, unit, len(pieces))
    out = np.zeros(len(left), bool)
    for k in np.flatnonzero((gap >= 0.85 * unit) & (gap <= WIDE * unit)):
        row, a, b = int(yc[k]) // ROWS, int(np.ceil(gx0[k])), int(gx1[k])
        up, down = above[row, a:b], below[row, a:b]
        alike = None
        for width in (2.5, 1.5, 0.7):
            span = int(np.ceil(width * unit[k]))
            if span > b - a:
                continue
            high, low = _sliding(up, span, np.maximum), _sliding(down, span, np.minimum)
            at = int(np.argmax(low - high))
            y0, y1 = high[at] * ROWS, low[at] * ROWS
            # Lines are 0.8 units apart: most strips are too low for so many, and then none need be counted.
            if 1 + int((y1 - y0) / (0.8 * unit[k])) < _witnesses(width):
                continue
            if alike is None:
                # A gutter's lines resemble each other; where prose stands above a table, their gaps do not.
                alike = (gap <= 2 * gap[k]) & (gap >= 0.5 * unit[k])
                if gap[k] >= 1.5 * unit[k]:
                    alike |= np.minimum(np.abs(gx1 - gx1[k]), np.abs(gx0 - gx0[k])) <= 0.5 * unit[k]
            through = alike & (yc > y0) & (yc < y1) & (gx0 <= a + at) & (gx1 >= a + at + span)
            # Several pairs may span one gap; those of one line are level.
            lines = max(
                _levels(yc[through], unit[k]),
                _banks(pieces, (a + at, a + at + span), (y0, y1), gx1[k], unit[k]),
            )
            if lines < _witnesses(width):
                continue
            # A gap no wider than the line's other gaps needs many witnesses.
            if lines < 8 and gap[k] < 1.6 * usual[k]:
                continue
            if narrow[through].all() and gap[k] < 3 * unit[k]:
                continue
            out[k] = True
            break
    return out


def _witnesses(width: float) -> int:
    """Lines that a river of a width in glyph heights must part."""
    return max(4 if width < 1 else 3, int(np.ceil(GUTTER / width)))


def _levels(y: np.ndarray, unit: float) -> int:
    """How many different lines heights y belong to."""
    return 1 + int((np.diff(np.sort(y)) > 0.8 * unit).sum()) if len(y) else 0


def _banks(pieces: Fragments, x: tuple[float, float], y: tuple[float, float], edge: float, unit: float) -> int:
    """Lines along a white strip whose right bank is straight: those of the side that has fewer.

    Columns of unlike leading are level by chance only, so that few gaps lie between their lines.
    """
    middle = 0.5 * (pieces.top + pieces.foot)
    along = (middle > y[0]) & (middle < y[1])
    left = along & (pieces.x1 <= x[0] + 1) & (pieces.x1 > x[0] - BANK * unit)
    right = along & (np.abs(pieces.x0 - edge) <= 0.35 * unit)
    return min(_levels(middle[left], unit), _levels(middle[right], unit))


def _usual_gap(left: np.ndarray, right: np.ndarray, gap: np.ndarray, unit: np.ndarray, count: int) -> np.ndarray:
    """For each pair the median of the other gaps within the line that both would form; 0 where there is none."""
    close = gap <= WIDE * unit
    chain = union(count, left[close], right[close])[left]
    out = np.zeros(len(left))
    order = np.argsort(chain, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(chain[order])) + 1):
        group = group[close[group]]
        if len(group) >= 3:
            out[group] = median(gap[group])
    return out


BANK = 4.0
"""How far from a river a line on its ragged left bank may end, in glyph heights."""

ROWS = 4
"""Pixel rows that share a row of the reach maps."""


def _marker(pieces: Fragments, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The fragment left of the gap is as small as a list's number or bullet, and nothing precedes it."""
    starts = ~np.isin(left, right)
    return starts & (pieces.size[left] <= 3) & (pieces.x1 - pieces.x0 < 3.5 * pieces.glyph_h)[left]


def _reach(ink: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each column and row of the map, the nearest map row with ink above and below; int16 [H/4, W]."""
    height, width = ink.shape
    rows = -(-height // ROWS)
    padded = np.zeros((rows * ROWS, width), bool)
    padded[:height] = ink
    inked = padded.reshape(rows, ROWS, width).any(axis=1)
    index = np.arange(rows, dtype=np.int16)[:, None]
    above = np.maximum.accumulate(np.where(inked, index, np.int16(-1)), axis=0)
    below = np.minimum.accumulate(np.where(inked, index, np.int16(rows))[::-1], axis=0)[::-1]
    return above, below


def _sliding(values: np.ndarray, span: int, pick: np.ufunc) -> np.ndarray:
    """The extremes of all windows of `span` values, by doubling."""
    done = 1
    while done * 2 <= span:
        values = pick(values[:-done], values[done:])
        done *= 2
    return pick(values[: done - span], values[span - done :]) if done < span else values
