"""Connected components of a bilevel image from its runs, in vectorised numpy.

A run is a maximal horizontal stretch of ink. Pages have some ten thousand runs where they have
millions of pixels, so everything after `runs_of` is cheap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs sorted by row, then column; the columns are half open: `[x0, x1)`. All int32 [n]."""

    row: np.ndarray
    x0: np.ndarray
    x1: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    def take(self, index: np.ndarray) -> Runs:
        return Runs(self.row[index], self.x0[index], self.x1[index])


@dataclass(frozen=True, slots=True)
class Components:
    """Boxes (half open, int32 [n]) and ink area of n components, and the component of each run."""

    x0: np.ndarray
    y0: np.ndarray
    x1: np.ndarray
    y1: np.ndarray
    area: np.ndarray
    runs: Runs
    of_run: np.ndarray

    def __len__(self) -> int:
        return len(self.x0)

    @property
    def w(self) -> np.ndarray:
        return self.x1 - self.x0

    @property
    def h(self) -> np.ndarray:
        return self.y1 - self.y0


def runs_of(mask: np.ndarray) -> Runs:
    """The runs of a bool mask [H, W]."""
    height, width = mask.shape
    padded = np.zeros((height, width + 2), bool)
    padded[:, 1:-1] = mask
    edges = np.flatnonzero(padded[:, 1:] != padded[:, :-1]).astype(np.int64)
    stride = width + 1
    row, x0 = np.divmod(edges[0::2], stride)
    x1 = edges[1::2] - row * stride
    return Runs(row.astype(np.int32), x0.astype(np.int32), x1.astype(np.int32))


def mask_of(runs: Runs, shape: tuple[int, int]) -> np.ndarray:
    """The bool mask [H, W] of some runs that lie inside it."""
    height, width = shape
    marks = np.zeros(height * (width + 1) + 1, np.int8)
    base = runs.row.astype(np.int64) * (width + 1)
    marks[base + runs.x0] += 1
    marks[base + runs.x1] -= 1
    return np.cumsum(marks[:-1], dtype=np.int8).reshape(height, width + 1)[:, :width].astype(bool)


def pixels_of(runs: Runs, width: int) -> np.ndarray:
    """Flat indices (int64) of the pixels of runs in an image `width` columns wide."""
    length = (runs.x1 - runs.x0).astype(np.int64)
    start = runs.row.astype(np.int64) * width + runs.x0
    shift = np.cumsum(length) - length
    return np.repeat(start - shift, length) + np.arange(int(length.sum()))


def components(runs: Runs) -> Components:
    """Group runs that touch, diagonals included (8-connected)."""
    n = len(runs)
    if n == 0:
        none = np.zeros(0, np.int32)
        return Components(none, none, none, none, none, runs, none)
    upper, lower = _touching(runs)
    parent = _merge(n, upper, lower)
    root = parent == np.arange(n)
    of_run = (np.cumsum(root) - 1)[parent].astype(np.int32)
    return measure(runs, of_run, int(root.sum()))


def measure(runs: Runs, of_run: np.ndarray, count: int) -> Components:
    """Boxes and areas of `count` groups of runs; every group has at least one run."""
    order = np.argsort(of_run, kind="stable")
    first = np.searchsorted(of_run[order], np.arange(count))
    row, x0, x1 = runs.row[order], runs.x0[order], runs.x1[order]
    return Components(
        x0=np.minimum.reduceat(x0, first),
        y0=np.minimum.reduceat(row, first),
        x1=np.maximum.reduceat(x1, first),
        y1=np.maximum.reduceat(row, first) + 1,
        area=np.add.reduceat(x1 - x0, first),
        runs=runs,
        of_run=of_run,
    )


def union(n: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Group number (0, 1, … in order of first member) of n items joined by the pairs (a, b)."""
    parent = _merge(n, a, b)
    root = parent == np.arange(n)
    return (np.cumsum(root) - 1)[parent]


def _touching(runs: Runs) -> tuple[np.ndarray, np.ndarray]:
    stride = int(runs.x1.max()) + 2
    start = runs.row.astype(np.int64) * stride + runs.x0
    end = start + (runs.x1 - runs.x0)
    low = np.searchsorted(end, start + stride, "left")
    high = np.searchsorted(start, end + stride, "right")
    count = np.maximum(high - low, 0)
    upper = np.repeat(np.arange(len(runs)), count)
    shift = np.cumsum(count) - count
    lower = np.repeat(low - shift, count) + np.arange(len(upper))
    return upper, lower


def _merge(n: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Root of each item: hook the larger root to the smaller, halve the paths, until nothing moves."""
    parent = np.arange(n)
    while len(a):
        ra, rb = parent[a], parent[b]
        apart = ra != rb
        if not apart.any():
            break
        a, b, ra, rb = a[apart], b[apart], ra[apart], rb[apart]
        np.minimum.at(parent, np.maximum(ra, rb), np.minimum(ra, rb))
        while True:
            above = parent[parent]
            if np.array_equal(above, parent):
                break
            parent = above
    return parent
