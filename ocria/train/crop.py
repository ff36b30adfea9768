"""Cuts a line out of its canvas as a line finder would, and adds what stands beside it on a page."""

import random

import numpy as np

from ocria.train import degrade as d
from ocria.train.render import Ink


def cut(ink: Ink, neighbour: Ink | None, rng: random.Random, noise: d.Rng) -> np.ndarray | None:
    """Ink mask float32 [h, w] of one crop; None where resampling left no ink of a hairline.

    `neighbour` is set as the line above or below. The crop is tight on the ink in most lines, the face's
    whole band in some, a little cut in a few.
    """
    mask = ink.mask.astype(np.float32) / 255
    band = ink.ascent + ink.descent
    if rng.random() < 0.4:
        w = mask.shape[1]
        slope = rng.choice((rng.gauss(0, 0.004), rng.uniform(-0.026, 0.026)))
        # A finder deskews its crops: what is left never costs more than a third of the line's height.
        slope = max(-0.33 * band / w, min(0.33 * band / w, slope))
        sag = rng.gauss(0, 0.025) * band if rng.random() < 0.5 else 0.0
        if abs(slope) * w > 0.5 or abs(sag) > 0.5:
            mask = d.bend(mask, noise, slope, sag)
    rows = np.flatnonzero(mask.max(axis=1) > 0.3)
    cols = np.flatnonzero(mask.max(axis=0) > 0.3)
    if rows.size == 0:
        return None
    top, bottom, left, right = rows[0], rows[-1] + 1, cols[0], cols[-1] + 1
    height = bottom - top
    roll = rng.random()
    alone = height < 0.25 * band  # a dash or a stop: some finders give it the height of its line
    if roll < 0.25 or (alone and rng.random() < 0.5):
        y0 = min(top, ink.baseline - ink.ascent - rng.uniform(-0.05, 0.12) * band)
        y1 = max(bottom, ink.baseline + ink.descent + rng.uniform(-0.05, 0.12) * band)
    elif roll < 0.34:
        y0, y1 = top - rng.uniform(0.1, 0.3) * height, bottom + rng.uniform(0.1, 0.3) * height
    elif roll < 0.39:
        y0, y1 = top + rng.uniform(-0.05, 0.03) * height, bottom - rng.uniform(-0.05, 0.03) * height
    else:
        y0, y1 = top - rng.uniform(0.04, 0.15) * height, bottom + rng.uniform(0.04, 0.15) * height
    if neighbour is not None:
        mask, y0, y1 = _with_neighbour(mask, neighbour, ink, rng, top, bottom, y0, y1)
    x0, x1 = left - _side(rng) * band, right + _side(rng) * band
    return _window(mask, round(y0), round(y1), round(x0), round(x1))


def furnish(mask: np.ndarray, rng: random.Random) -> np.ndarray:
    """The crop with rules, an underline or a border's edge that touches it, in a few lines."""
    h, w = mask.shape
    roll = rng.random()
    thick = max(1, round(rng.uniform(0.02, 0.07) * h))
    if roll < 0.025:  # underline
        y = h - thick - round(rng.uniform(0, 0.1) * h)
        mask[y : y + thick] = 1
    elif roll < 0.04:  # rule above or below
        y = 0 if rng.random() < 0.5 else h - thick
        mask[y : y + thick, rng.randrange(max(1, w // 3)) :] = 1
    elif roll < 0.075:  # a rule, the edge of a page or a blot at one end
        mask = _with_edge(mask, rng, thick)
    elif roll < 0.083:  # box of a table cell
        mask[:thick] = mask[-thick:] = 1
    elif roll < 0.09:  # box around the words
        gap = round(rng.uniform(0.12, 0.4) * h)
        mask = np.pad(np.pad(mask, gap), thick, constant_values=1)
    return mask


def _side(rng: random.Random) -> float:
    """Paper left or right of the ink, in heights of the band: a finder's margin, hardly any, or much."""
    roll = rng.random()
    return (
        rng.uniform(0.15, 0.4)
        if roll < 0.5
        else rng.uniform(0, 0.12)
        if roll < 0.78
        else rng.uniform(0.1, 1.5)
    )


def _with_edge(mask: np.ndarray, rng: random.Random, thick: int) -> np.ndarray:
    """The crop with foreign ink at one end: a whole or broken upright rule, a black border, a round hole."""
    h = mask.shape[0]
    kind = rng.random()
    width = thick if kind < 0.6 else round(rng.uniform(0.1, 0.6) * h)
    gap = round(rng.uniform(0.12, 1.2) * h)
    bar = np.zeros((h, width + gap), np.float32)
    if kind < 0.3:
        bar[:, :width] = 1
    elif kind < 0.6:
        y = rng.randrange(h)
        bar[y : y + max(2, round(rng.uniform(0.1, 0.9) * h)), :width] = 1
    elif kind < 0.9:
        bar[:, :width] = 1
    else:
        y, x = np.ogrid[:h, : width + gap]
        bar[(y - rng.uniform(0.3, 0.7) * h) ** 2 + (x - width / 2) ** 2 < (width / 2) ** 2] = 1
    return np.concatenate([bar, mask] if rng.random() < 0.5 else [mask, bar[:, ::-1]], axis=1)


def _with_neighbour(mask, neighbour: Ink, ink: Ink, rng, top, bottom, y0, y1):
    """`mask` with the neighbouring line's ink at its distance, and the crop opened towards it."""
    band = ink.ascent + ink.descent
    below = rng.random() < 0.5
    move = ink.baseline - neighbour.baseline + round(rng.uniform(1.0, 1.25) * band) * (1 if below else -1)
    h, w = mask.shape
    a, b = max(0, move), min(h, move + neighbour.mask.shape[0])
    n = min(w, neighbour.mask.shape[1])
    other = np.zeros((h, w), np.float32)
    if a < b:
        other[a:b, :n] = neighbour.mask[a - move : b - move, :n].astype(np.float32) / 255
    reach = np.flatnonzero(other.max(axis=1) > 0.3)
    height = bottom - top
    if below and reach.size:
        y1 = max(y1, min(bottom + 0.22 * height, reach[0] + 0.12 * height))
    elif reach.size:
        y0 = min(y0, max(top - 0.22 * height, reach[-1] - 0.12 * height))
    return np.maximum(mask, other), y0, y1


def _window(mask: np.ndarray, y0: int, y1: int, x0: int, x1: int) -> np.ndarray:
    """mask[y0:y1, x0:x1] with paper where the window leaves the canvas."""
    h, w = mask.shape
    out = np.zeros((max(4, y1 - y0), max(4, x1 - x0)), np.float32)
    a, b, c, e = max(0, y0), min(h, y1), max(0, x0), min(w, x1)
    out[a - y0 : b - y0, c - x0 : e - x0] = mask[a:b, c:e]
    return out
