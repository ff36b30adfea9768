"""The skew of a page from the feet of its glyphs (projection of component bottoms, Postl/Baird)."""

from __future__ import annotations

import numpy as np

from .components import Components

LIMIT = 6.0
"""Largest skew looked for, in degrees."""


def find_skew(parts: Components, unit: float) -> float:
    """Degrees by which the text runs downhill to the right; 0 where too little text says so.

    `parts` are the components of the page, `unit` its usual glyph height in pixels.
    """
    h, w = parts.h, parts.w
    glyph = (h >= 0.6 * unit) & (h <= 2.5 * unit) & (w <= 6 * h) & (w >= 0.2 * h)
    if glyph.sum() < 12:
        return 0.0
    x = 0.5 * (parts.x0 + parts.x1)[glyph]
    feet, heads = parts.y1[glyph].astype(float), parts.y0[glyph].astype(float)
    x = x - x.mean()
    bin_px = max(1.0, unit / 8)

    def sharpness(angle: float) -> float:
        slope = np.tan(np.radians(angle))
        return _peaks(feet - slope * x, bin_px) + 0.5 * _peaks(heads - slope * x, bin_px)

    best = _best(sharpness, np.arange(-LIMIT, LIMIT + 0.01, 0.25))
    best = _best(sharpness, best + np.arange(-0.25, 0.251, 0.05))
    best = _best(sharpness, best + np.arange(-0.04, 0.041, 0.01))
    # A page whose sharpness barely depends on the angle (few lines, a picture) is left as it is. A short
    # line's descenders can look like a slope.
    if sharpness(best) < (1.1 + 10 / glyph.sum()) * sharpness(0.0):
        return 0.0
    return float(best)


def _best(score, angles: np.ndarray) -> float:
    return float(angles[int(np.argmax([score(a) for a in angles]))])


def _peaks(y: np.ndarray, bin_px: float) -> float:
    bins = ((y - y.min()) / bin_px).astype(np.int64)
    counts = np.bincount(bins).astype(float)
    # Neighbouring bins are added so that a line on a bin edge scores like one within a bin.
    return float(np.square(np.convolve(counts, [0.5, 1.0, 0.5], "same")).sum())
