"""Rules: printed lines, table frames, underlines. They are cut out of the ink, also where they touch text.

A rule is a stack of long runs that is thin for its length. Where a glyph's stroke passes right through a
rule, the stroke's pixels stay. Vertical rules are found as horizontal ones of the transposed mask.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .components import Components, Runs, components, mask_of, pixels_of, runs_of

SLENDER = 12
"""Least length of a rule in thicknesses; a serif capital's bar reaches about that many."""


@dataclass(frozen=True, slots=True)
class Ruled:
    """`parts`: what is left. `cut`: runs of the rules. `bars`: boxes (x0, y0, x1, y1) int [n, 4] of all rules."""

    parts: Components
    cut: Runs
    bars: np.ndarray


def cut_rules(parts: Components, unit: float, shape: tuple[int, int]) -> Ruled:
    """Take the rules out of the components of a page of usual glyph height `unit` px."""
    if not len(parts):
        return Ruled(parts, parts.runs, np.zeros((0, 4), np.int32))
    length = parts.runs.x1 - parts.runs.x0
    longest = np.zeros(len(parts), np.int32)
    np.maximum.at(longest, parts.of_run, length)
    suspect = (longest >= 4 * unit) | (parts.h >= 4 * unit)
    if not suspect.any():
        return Ruled(parts, parts.runs.take(np.zeros(0, int)), np.zeros((0, 4), np.int32))
    chosen = suspect[parts.of_run]
    mask = mask_of(parts.runs.take(chosen), shape)
    flat, bars_h = _bars(mask, runs_of(mask), unit)
    x0, x1 = int(parts.x0[suspect].min()), int(parts.x1[suspect].max())
    y0, y1 = int(parts.y0[suspect].min()), int(parts.y1[suspect].max())
    turned = np.ascontiguousarray(mask[y0:y1, x0:x1].T)
    upright, bars_v = _bars(turned, runs_of(turned), unit)
    mask[y0:y1, x0:x1] &= ~upright.T
    mask &= ~flat
    bars_v = bars_v[:, [1, 0, 3, 2]] + np.array([x0, y0, x0, y0], np.int32)
    bars = np.concatenate([bars_h, bars_v])
    if not len(bars):
        return Ruled(parts, parts.runs.take(np.zeros(0, int)), bars)
    flat[y0:y1, x0:x1] |= upright.T
    kept = parts.runs.take(~chosen)
    return Ruled(components(_sorted(kept, runs_of(mask))), runs_of(flat), bars)


def _sorted(a: Runs, b: Runs) -> Runs:
    row, x0, x1 = (np.concatenate([getattr(a, k), getattr(b, k)]) for k in ("row", "x0", "x1"))
    return Runs(row, x0, x1).take(np.lexsort((x0, row)))


def _bars(mask: np.ndarray, runs: Runs, unit: float) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (bool, like mask) and boxes [n, 4] of the horizontal rules of a mask."""
    cut = np.zeros(mask.shape, bool)
    # Runs of half the least length still belong to a rule: a worn or slanting one is ragged at its ends.
    stack = components(runs.take(runs.x1 - runs.x0 >= 2 * unit))
    if not len(stack):
        return cut, np.zeros((0, 4), np.int32)
    thick = stack.area / stack.w
    whole = components(runs)
    # The height of the shape the bar is part of: the bar of a big T is as long as the T is high.
    host = whole.of_run[np.flatnonzero(runs.x1 - runs.x0 >= 2 * unit)]
    host_h = np.zeros(len(stack), np.int32)
    np.maximum.at(host_h, stack.of_run, whole.h[host])
    rule = (stack.w >= 4 * unit) & (thick <= 0.5 * unit) & (stack.w >= SLENDER * thick)
    rule &= stack.h <= np.maximum(2.5 * thick + 2, 0.03 * stack.w)
    rule &= (stack.w >= 2 * host_h) | (stack.w >= 12 * unit)
    chosen = rule[stack.of_run]
    bars = stack.runs.take(chosen)
    if not len(bars):
        return cut, np.zeros((0, 4), np.int32)
    height, width = mask.shape
    pixels = pixels_of(bars, width)
    reach = (np.ceil(thick).astype(np.int64) + 1)[stack.of_run[chosen]] * width
    reach = np.repeat(reach, bars.x1 - bars.x0)
    above, below = pixels - reach, pixels + reach
    ink = mask.ravel()
    through = (above >= 0) & (below < ink.size)
    through &= ink[np.maximum(above, 0)] & ink[np.minimum(below, ink.size - 1)]
    cut.ravel()[pixels[~through]] = True
    boxes = np.stack([stack.x0, stack.y0, stack.x1, stack.y1], axis=1)[rule]
    return cut, boxes
