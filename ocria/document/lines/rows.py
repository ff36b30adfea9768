"""Rows: fragments joined to whole lines, each with a fitted baseline and an x-height."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .components import Components
from .median import median


@dataclass(slots=True)
class Row:
    """One line in the deskewed analysis frame. `members`: component indices. The baseline is
    `y = base + slope * (x - xc)`; `height` is the usual glyph height, `x_height` that of an x."""

    members: np.ndarray
    xc: float
    base: float
    slope: float
    height: float
    x_height: float
    x0: float
    x1: float
    y0: float
    y1: float

    def baseline(self, x: np.ndarray | float) -> np.ndarray | float:
        return self.base + self.slope * (x - self.xc)


def fit_row(parts: Components, members: np.ndarray) -> Row:
    """Fit the baseline through the feet of the glyphs, leaving out descenders and floating marks."""
    x0, x1 = parts.x0[members].astype(float), parts.x1[members].astype(float)
    y0, y1 = parts.y0[members].astype(float), parts.y1[members].astype(float)
    h = y1 - y0
    height = median(h)
    xc = 0.5 * (x0.min() + x1.max())
    x = 0.5 * (x0 + x1) - xc
    letters = h >= 0.6 * height
    slope, base = _robust_line(x[letters], y1[letters], height, float(x1.max() - x0.min()))
    rise = base + slope * x - y0
    standing = letters & (np.abs(y1 - base - slope * x) <= 0.15 * height)
    hanging = float((y1 - base - slope * x > 0.2 * height)[letters].mean())
    return Row(
        members=members,
        xc=xc,
        base=base,
        slope=slope,
        height=height,
        x_height=_x_height(rise[standing] if standing.any() else rise[letters], bool(hanging >= 0.04)),
        x0=float(x0.min()),
        x1=float(x1.max()),
        y0=float(y0.min()),
        y1=float(y1.max()),
    )


def _robust_line(x: np.ndarray, y: np.ndarray, height: float, width: float) -> tuple[float, float]:
    """Slope and intercept at x = 0. Short lines stay level: their slope would only follow descenders."""
    if len(x) < 5 or width < 8 * height:
        return 0.0, _level(y, height)
    slope, base = _theil_sen(x, y)
    for _ in range(3):
        near = np.abs(y - base - slope * x) <= 0.2 * height
        if near.sum() < max(4, 0.3 * len(x)) or np.ptp(x[near]) < 0.5 * width:
            break
        slope, base = np.polyfit(x[near], y[near], 1)
    level = _level(y, height)
    # Descenders at one end tilt a short line's fit: a slope must explain clearly more feet than none does.
    tight = max(1.0, 0.08 * height)
    feet = int((np.abs(y - base - slope * x) <= tight).sum())
    if abs(slope) > 0.03 or feet < 1.15 * (np.abs(y - level) <= tight).sum():
        return 0.0, level
    return float(slope), float(base)


def _level(y: np.ndarray, height: float) -> float:
    """The height at which most feet stand: the mean of those near the median."""
    middle = np.sort(y)[(len(y) - 1) // 2]
    return float(y[np.abs(y - middle) <= 0.1 * height].mean())


def _theil_sen(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    order = np.argsort(x)
    half = len(x) // 2
    a, b = order[:half], order[-half:]
    run = x[b] - x[a]
    slope = median((y[b] - y[a])[run > 0] / run[run > 0]) if (run > 0).any() else 0.0
    return slope, median(y - slope * x)


def _x_height(rise: np.ndarray, small: bool) -> float:
    """Of heights over the baseline: the lower where two are seen, else that of small letters or a capital's share.

    `small`: descenders show that a line of even height is no line of capitals.
    """
    rise = np.sort(rise[rise > 0])
    if not len(rise):
        return 1.0
    low = rise[rise <= 0.82 * rise[-1]]
    if len(low) >= 0.25 * len(rise):
        return median(low)
    return (1.0 if small else 0.7) * median(rise)
