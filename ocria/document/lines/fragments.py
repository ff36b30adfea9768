"""Fragments: runs of glyphs that stand close enough to be a word, or part of one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .components import Components, union
from .neighbours import close_pairs, row_pairs

WORD_REACH = 0.55
"""Largest gap inside a fragment, in heights of the taller neighbour."""

LINE_REACH = 4.0
"""Largest gap over which glyphs of different fragments are looked at as neighbours, in the same heights."""

BRIDGE = 2.3
"""A glyph so many times taller than those beside it is no single letter of their line."""


@dataclass(frozen=True, slots=True)
class Fragments:
    """n fragments, float [n]: outer box, and the zone between the median top and bottom of its glyphs.

    `glyph_h`: median glyph height. `size`: number of glyphs. `of_part` int [parts]: fragment or -1.
    `links` (left, right): fragments with glyphs that are neighbours on a line, farther apart than in a word.
    """

    x0: np.ndarray
    y0: np.ndarray
    x1: np.ndarray
    y1: np.ndarray
    top: np.ndarray
    foot: np.ndarray
    glyph_h: np.ndarray
    size: np.ndarray
    of_part: np.ndarray
    links: tuple[np.ndarray, np.ndarray]

    def __len__(self) -> int:
        return len(self.x0)


def find_fragments(parts: Components, glyph: np.ndarray, unit: float) -> Fragments:
    """Chain the components marked in `glyph` (bool [parts]) into fragments; `unit`: usual glyph height."""
    index = np.flatnonzero(glyph)
    index = index[~_bridges(parts, index, unit)]
    box = [getattr(parts, k)[index].astype(float) for k in ("x0", "y0", "x1", "y1")]
    left, right = row_pairs(*box, reach=LINE_REACH)
    x0, y0, x1, y1 = box
    tall = np.maximum((y1 - y0)[left], (y1 - y0)[right])
    close = x0[right] - x1[left] <= WORD_REACH * tall
    group = union(len(index), left[close], right[close])
    count = int(group.max()) + 1 if len(group) else 0
    of_part = np.full(len(parts), -1)
    of_part[index] = group
    a, b = group[left[~close]], group[right[~close]]
    return Fragments(
        x0=_extreme(np.minimum, x0, group, count),
        y0=_extreme(np.minimum, y0, group, count),
        x1=_extreme(np.maximum, x1, group, count),
        y1=_extreme(np.maximum, y1, group, count),
        top=group_median(y0, group, count),
        foot=group_median(y1, group, count),
        glyph_h=group_median(y1 - y0, group, count),
        size=np.bincount(group, minlength=count),
        of_part=of_part,
        links=(a[a != b], b[a != b]),
    )


def _bridges(parts: Components, index: np.ndarray, unit: float) -> np.ndarray:
    """Glyphs far taller than those around them: letters that touch across lines, braces, drop capitals.

    They would chain two lines into one, so they wait until the lines are known.
    """
    x0, x1 = parts.x0[index].astype(float), parts.x1[index].astype(float)
    y0, y1 = parts.y0[index].astype(float), parts.y1[index].astype(float)
    h = y1 - y0
    i, j = close_pairs(0.5 * (y0 + y1), 0.5 * h)
    gap = np.maximum(x0[i], x0[j]) - np.minimum(x1[i], x1[j])
    inside = (y0[j] < y1[i]) & (y1[j] > y0[i]) & (i != j)
    beside = inside & (gap < 1.5 * h[i]) & (h[j] > 0.25 * h[i])
    i, j = i[beside], j[beside]
    count = np.bincount(i, minlength=len(index))
    out = np.zeros(len(index), bool)
    seen = np.flatnonzero(count >= 6)
    if len(seen):
        order = np.lexsort((h[j], i))
        first = np.cumsum(count) - count
        usual = h[j][order][first[seen] + (count[seen] - 1) // 2]
        out[seen] = (h[seen] > BRIDGE * usual) & (h[seen] > 1.5 * unit)
    return out


def group_median(value: np.ndarray, group: np.ndarray, count: int) -> np.ndarray:
    """Lower median of `value` in each of `count` non-empty groups."""
    order = np.lexsort((value, group))
    size = np.bincount(group, minlength=count)
    first = np.cumsum(size) - size
    return value[order][first + (size - 1) // 2]


def _extreme(pick: np.ufunc, value: np.ndarray, group: np.ndarray, count: int) -> np.ndarray:
    out = np.full(count, np.inf if pick is np.minimum else -np.inf)
    pick.at(out, group, value)
    return out
