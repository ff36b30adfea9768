"""Fragments: runs of glyphs that stand close enough to be a word, or part of one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .components import Components, union
from .neighbours import row_pairs

WORD_REACH = 0.55
"""Largest gap inside a fragment, in heights of the taller neighbour."""


@dataclass(frozen=True, slots=True)
class Fragments:
    """n fragments, float [n]: outer box, and the zone between the median top and bottom of its glyphs.

    `glyph_h`: median glyph height. `size`: number of glyphs. `of_part` int [parts]: fragment or -1.
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

    def __len__(self) -> int:
        return len(self.x0)


def find_fragments(parts: Components, glyph: np.ndarray) -> Fragments:
    """Chain the components marked in `glyph` (bool [parts]) into fragments."""
    index = np.flatnonzero(glyph)
    box = [getattr(parts, k)[index].astype(float) for k in ("x0", "y0", "x1", "y1")]
    left, right = row_pairs(*box, reach=WORD_REACH)
    group = union(len(index), left, right)
    count = int(group.max()) + 1 if len(group) else 0
    of_part = np.full(len(parts), -1)
    of_part[index] = group
    x0, y0, x1, y1 = box
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
    )


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
