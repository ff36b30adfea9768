"""Which way up a page image is, from its pixels, and where they leave it open from a reading of some lines.

Lines of print stand across: a letter's nearest neighbour is beside it, not above it. Latin print has more
ink above the small letters than below: ascenders and capitals outweigh descenders. On the scans of the
samples the first test gave 0.63 to 1.0 for upright and 0.0 to 0.07 for sideways pages; the second 0.65 to 0.85
for upright and 0.16 to 0.35 for upside-down pages in mixed case, and anything for print in capitals only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from ocria.document.lines import Line, find_lines
from ocria.document.lines.components import components, runs_of
from ocria.document.lines.ink import find_ink

_ANALYSIS_SIDE = 1700
_ASKED_LETTERS = 800
_LEAST_VOTES = 12
_SIDEWAYS = 0.35
# How far from one half the share of ascenders is evidence. For an upright page it is enough; to turn a page
# the reading must not speak against it.
_CLEAR = 0.15
_LEAST_LINES = 3
_SAMPLE_LINES = 6
# Difference in mean probability of two readings that counts.
_MARGIN = 0.03

Confidence = Callable[[Sequence[np.ndarray]], float]
"""Mean confidence of reading some line crops."""


@dataclass(frozen=True, slots=True)
class UprightLines:
    """The page turned upright, its lines, and the degrees clockwise by which it was turned."""

    gray: np.ndarray
    lines: list[Line]
    turned: int


def upright_lines(gray: np.ndarray, dpi: float, confidence: Confidence | None) -> UprightLines:
    """Turn a page uint8 [H, W] so that its print reads from left to right, and find its lines.

    Args:
        dpi: resolution of the page.
        confidence: reads some lines, to decide between two ways up; None goes by the pixels alone.
    """
    turned = 90 if is_sideways(gray) else 0
    page = np.ascontiguousarray(np.rot90(gray, -turned // 90))
    lines = find_lines(page, dpi=dpi).lines
    if not _is_upside_down(lines, confidence):
        return UprightLines(page, lines, turned)
    page = np.ascontiguousarray(page[::-1, ::-1])
    return UprightLines(page, find_lines(page, dpi=dpi).lines, turned + 180)


def is_sideways(gray: np.ndarray) -> bool:
    """Whether the lines of print of a page uint8 [H, W] run up or down."""
    factor = max(gray.shape) / _ANALYSIS_SIDE
    if factor > 1:
        size = (max(1, round(gray.shape[1] / factor)), max(1, round(gray.shape[0] / factor)))
        gray = np.asarray(Image.fromarray(gray).resize(size, Image.Resampling.BOX))
    if min(gray.shape) < 8:
        return False
    across, down = _neighbour_votes(gray)
    return across + down >= _LEAST_VOTES and across / (across + down) < _SIDEWAYS


def ascender_share(crops: Sequence[np.ndarray]) -> float:
    """Of the ink outside the band of small letters, the share that lies above it; 0.5 where there is none.

    Args:
        crops: lines of print, uint8 [h, w], dark on light.
    """
    above = below = 0.0
    for crop in crops:
        ink = 255.0 - crop.astype(np.float32)
        profile = np.where(ink >= 90, ink, 0).sum(axis=1)
        if not profile.any():
            continue
        smooth = np.convolve(profile, np.full(3, 1 / 3), "same")
        band = np.flatnonzero(smooth > 0.45 * np.percentile(smooth, 90))
        longest = max(np.split(band, np.flatnonzero(np.diff(band) > 1) + 1), key=len)
        above += float(profile[: longest[0]].sum())
        below += float(profile[longest[-1] + 1 :].sum())
    return above / (above + below) if above + below > 0 else 0.5


def _is_upside_down(lines: Sequence[Line], confidence: Confidence | None) -> bool:
    crops = [line.crop for line in lines if line.crop.shape[1] > 3 * line.crop.shape[0]]
    if len(crops) < _LEAST_LINES:
        return False
    share = ascender_share(crops)
    if share >= 0.5 + _CLEAR:
        return False
    if confidence is None:
        return share < 0.5 - _CLEAR
    # Lines of middling length: the longest may be several run together.
    sample = sorted(crops, key=lambda crop: crop.shape[1] / crop.shape[0])[-2 * _SAMPLE_LINES :][:_SAMPLE_LINES]
    gain = confidence([np.ascontiguousarray(crop[::-1, ::-1]) for crop in sample]) - confidence(sample)
    return gain > (-_MARGIN if share < 0.5 - _CLEAR else _MARGIN)


def _neighbour_votes(gray: np.ndarray) -> tuple[int, int]:
    """How many letters have their nearest neighbour beside them, and how many above or below."""
    parts = components(runs_of(find_ink(gray).mask))
    size = np.maximum(parts.w, parts.h)
    if not (size >= 4).any():
        return 0, 0
    common = float(np.median(size[size >= 4]))
    letters = (size >= max(4, 0.4 * common)) & (size <= 3 * common) & (np.minimum(parts.w, parts.h) >= 2)
    x0, y0, x1, y1 = (v[letters].astype(np.float32) for v in (parts.x0, parts.y0, parts.x1, parts.y1))
    if len(x0) < 2:
        return 0, 0
    asked = np.arange(0, len(x0), max(1, len(x0) // _ASKED_LETTERS))
    beside = _nearest(asked, x0, x1, y0, y1)
    over = _nearest(asked, y0, y1, x0, x1)
    near = np.minimum(beside, over) < 2 * common
    return int((near & (beside < over)).sum()), int((near & (over < beside)).sum())


def _nearest(asked: np.ndarray, a0: np.ndarray, a1: np.ndarray, b0: np.ndarray, b1: np.ndarray) -> np.ndarray:
    """Gap along axis a from each asked box to the nearest one that it overlaps by half along axis b."""
    order = np.argsort(b0, kind="stable")
    begin = b0[order]
    # Boxes that overlap at all begin before the other ends, and no earlier than the tallest one would.
    low = np.searchsorted(begin, b0[asked] - (b1 - b0).max(), "left")
    count = np.searchsorted(begin, b1[asked], "left") - low
    row = np.repeat(np.arange(len(asked)), count)
    i = asked[row]
    j = order[np.arange(len(row)) + np.repeat(low - (np.cumsum(count) - count), count)]
    shared = np.minimum(b1[i], b1[j]) - np.maximum(b0[i], b0[j])
    aligned = (shared > 0.5 * np.minimum((b1 - b0)[i], (b1 - b0)[j])) & (i != j)
    row, i, j = row[aligned], i[aligned], j[aligned]
    gap = np.maximum(a0[i], a0[j]) - np.minimum(a1[i], a1[j])
    # Boxes that overlap along both axes are parts of one letter.
    apart = gap > -0.3 * np.minimum((a1 - a0)[i], (a1 - a0)[j])
    nearest = np.full(len(asked), np.inf, gap.dtype)
    np.minimum.at(nearest, row[apart], gap[apart])
    return nearest
