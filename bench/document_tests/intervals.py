"""How sure a pass rate is: Wilson's interval of a share, and a bootstrap over pages.

Tests of one page pass and fail together, so the interval of independent tests is too narrow for them; the bootstrap
draws whole pages. It says nothing where all or none pass (its interval is a point): there Wilson's stands.
"""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

import numpy as np


def wilson(passed: int, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a share; (0, 1) without any test."""
    if total == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = passed / total
    centre = share + z * z / (2 * total)
    half = z * sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def over_pages(
    pages: list[tuple[int, int]], confidence: float = 0.95, draws: int = 4000, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap of passed tests over all tests from `(passed, total)` of each page; (0, 1) without pages."""
    counts = np.array([page for page in pages if page[1]], dtype=np.float64).reshape(-1, 2)
    if not len(counts):
        return 0.0, 1.0
    drawn = counts[np.random.default_rng(seed).integers(len(counts), size=(draws, len(counts)))].sum(axis=1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
