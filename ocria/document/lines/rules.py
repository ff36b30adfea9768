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
    x0, x1 = int(parts.x0[suspect].min()), int(parts.x1[suspect].max())
    y0, y1 = int(parts.y0[suspect].min()), int(parts.y1[suspect].max())
    turned = np.ascontiguousarray(mask[y0:y1, x0:x1].T)
    flat, upright = _find_bars(runs_of(mask), unit), _find_bars(runs_of(turned), unit)
    if not len(flat.runs) and not len(upright.runs):
        return Ruled(parts, parts.runs.take(np.zeros(0, int)), np.zeros((0, 4), np.int32))
    # Where rules cross, neither counts as a stroke that passes through the other.
    flat_mask, upright_mask = mask_of(flat.runs, shape), np.zeros(shape, bool)
    upright_mask[y0:y1, x0:x1] = mask_of(upright.runs, turned.shape).T
    _spare_strokes(flat_mask, mask & ~upright_mask, flat)
    spared = np.ascontiguousarray(upright_mask[y0:y1, x0:x1].T)
    _spare_strokes(spared, turned & ~np.ascontiguousarray(flat_mask[y0:y1, x0:x1].T), upright)
    flat_mask[y0:y1, x0:x1] |= spared.T
    mask &= ~flat_mask
    bars = np.concatenate([flat.boxes, upright.boxes[:, [1, 0, 3, 2]] + np.array([x0, y0, x0, y0], np.int32)])
    kept = parts.runs.take(~chosen)
    return Ruled(components(_sorted(kept, runs_of(mask))), runs_of(flat_mask), bars)


def _sorted(a: Runs, b: Runs) -> Runs:
    row, x0, x1 = (np.concatenate([getattr(a, k), getattr(b, k)]) for k in ("row", "x0", "x1"))
    return Runs(row, x0, x1).take(np.lexsort((x0, row)))


@dataclass(frozen=True, slots=True)
class _Bars:
    """Runs of horizontal rules, the thickness of the rule of each run, and the rules' boxes [n, 4]."""

    runs: Runs
    thick: np.ndarray
    boxes: np.ndarray


def _find_bars(runs: Runs, unit: float) -> _Bars:
    # Runs of half the least length still belong to a rule: a worn or slanting one is ragged at its ends.
    long = runs.x1 - runs.x0 >= 2 * unit
    stack = components(runs.take(long))
    if not len(stack):
        return _Bars(stack.runs, np.zeros(0), np.zeros((0, 4), np.int32))
    thick = stack.area / stack.w
    # The height of the shape the bar is part of: the bar of a big T is as long as the T is high.
    whole = components(runs)
    host_h = np.zeros(len(stack), np.int32)
    np.maximum.at(host_h, stack.of_run, whole.h[whole.of_run[long]])
    rule = (stack.w >= 4 * unit) & (thick <= 0.5 * unit) & (stack.w >= SLENDER * thick)
    rule &= stack.h <= np.maximum(2.5 * thick + 2, 0.03 * stack.w)
    hairline = thick <= np.maximum(0.25 * unit, 3)
    rule &= hairline | (stack.w >= 2 * host_h) | (stack.w >= 12 * unit)
    chosen = rule[stack.of_run]
    boxes = np.stack([stack.x0, stack.y0, stack.x1, stack.y1], axis=1)[rule]
    return _Bars(stack.runs.take(chosen), thick[stack.of_run[chosen]], boxes)


def _spare_strokes(cut: np.ndarray, ink: np.ndarray, bars: _Bars) -> None:
    """Clear in `cut` (the pixels of bars) those through which a stroke of `ink` passes from above to below."""
    if not len(bars.runs):
        return
    width = cut.shape[1]
    pixels = pixels_of(bars.runs, width)
    reach = (np.ceil(bars.thick).astype(np.int64) + 1) * width
    reach = np.repeat(reach, bars.runs.x1 - bars.runs.x0)
    above, below = pixels - reach, pixels + reach
    flat = ink.ravel()
    through = (above >= 0) & (below < flat.size)
    through &= flat[np.maximum(above, 0)] & flat[np.minimum(below, flat.size - 1)]
    cut.ravel()[pixels[through]] = False
