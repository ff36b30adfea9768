"""Lines that are too long for a line model, cut at the gaps between words."""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def split_wide(crop: np.ndarray, most: int) -> list[np.ndarray]:
    """A crop uint8 [h, w] as pieces of equal width, about `most` columns at the most, in order.

    Cuts are made in the middle of the widest gap within a quarter of a piece around the equal division; where
    there is none, through the lightest column.
    """
    width = crop.shape[1]
    pieces = -(-width // most)
    if pieces <= 1:
        return [crop]
    reach = max(1, width // (8 * pieces))
    cuts = [0, *(_gap(crop, width * i // pieces, reach) for i in range(1, pieces)), width]
    return [crop[:, a:b] for a, b in pairwise(cuts)]


def _gap(crop: np.ndarray, middle: int, reach: int) -> int:
    """The column to cut at, within `reach` of `middle`."""
    window = crop[:, max(1, middle - reach) : middle + reach]
    start = max(1, middle - reach)
    paper = np.percentile(crop, 70)
    # Ink of a column in grey steps below the paper; small sums are noise.
    ink = (paper - window.astype(np.float32)).clip(0).sum(axis=0)
    light = ink <= ink.min() + 0.05 * (np.median(ink) + 1)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], light.astype(np.int8), [0]))))
    starts, ends = edges[::2], edges[1::2]
    widest = int(np.argmax(ends - starts))
    return start + int(starts[widest] + ends[widest]) // 2
