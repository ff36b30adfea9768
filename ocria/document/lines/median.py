"""The median of a few numbers: what `np.median` says, at a fraction of its calls."""

from __future__ import annotations

import numpy as np


def median(values: np.ndarray) -> float:
    """Of one number at least, [n]."""
    ordered = np.sort(values)
    return float(0.5 * (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]))
