"""For every box, the nearest box to its right and left that could stand on the same text line."""

from __future__ import annotations

import numpy as np

LARGEST_RATIO = 2.3
"""Of the heights of neighbours on one line: x-height to parenthesis."""


def close_pairs(centre: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All (i, j), sorted by i, with `|centre[j] - centre[i]| <= reach[i]`; j == i is among them."""
    order = np.argsort(centre, kind="stable")
    ordered = centre[order]
    low = np.searchsorted(ordered, centre - reach, "left")
    count = np.searchsorted(ordered, centre + reach, "right") - low
    i = np.repeat(np.arange(len(centre)), count)
    j = order[np.repeat(low - (np.cumsum(count) - count), count) + np.arange(len(i))]
    return i, j


def row_pairs(
    x0: np.ndarray, y0: np.ndarray, x1: np.ndarray, y1: np.ndarray, reach: float
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (left, right) of indices, each the other's or one's nearest neighbour on the line.

    Boxes are float [n]. `reach`: largest gap in heights of the taller box; two boxes pair when at
    least half of the lower one's height is shared, and their heights differ by `LARGEST_RATIO` at most.
    """
    n = len(x0)
    if n < 2:
        none = np.zeros(0, np.int64)
        return none, none
    h = y1 - y0
    yc = 0.5 * (y0 + y1)
    # Seen from the taller box of a pair the other's centre is at most this far.
    i, j = close_pairs(yc, 0.62 * h)
    tall, low = np.maximum(h[i], h[j]), np.minimum(h[i], h[j])
    shared = np.minimum(y1[i], y1[j]) - np.maximum(y0[i], y0[j])
    fits = (i != j) & (tall <= LARGEST_RATIO * low) & (shared >= 0.5 * low)
    i, j, tall = i[fits], j[fits], tall[fits]
    # Both directions: the taller box's window may hold a pair that the lower one's does not.
    i, j, tall = np.concatenate([i, j]), np.concatenate([j, i]), np.concatenate([tall, tall])
    gap = np.maximum(x0[i], x0[j]) - np.minimum(x1[i], x1[j])
    ahead = (x0[j] + x1[j]) > (x0[i] + x1[i])
    near = (gap <= reach * tall) & (gap >= -0.6 * np.minimum((x1 - x0)[i], (x1 - x0)[j]))
    left, right = [], []
    for direction in (ahead, ~ahead):
        pick = near & direction
        a, b, g = i[pick], j[pick], gap[pick]
        best = np.lexsort((g, a))
        a, b = a[best], b[best]
        first = np.ones(len(a), bool)
        first[1:] = a[1:] != a[:-1]
        left.append(np.where(ahead[pick][best], a, b)[first])
        right.append(np.where(ahead[pick][best], b, a)[first])
    pairs = np.unique(np.concatenate(left) * n + np.concatenate(right))
    return pairs // n, pairs % n
