"""Finds the text lines of a page image."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PIL import Image

from .components import components, runs_of
from .frame import Frame
from .ink import find_ink
from .order import reading_order
from .result import Line, LinesResult
from .sheet import Sheet, glyph_height, lines_of
from .skew import find_skew

ANALYSIS_PIXELS = 5_000_000
"""Pages are reduced by a whole factor until they have no more pixels than this."""

SMALL_GLYPH = 10.5
"""Glyph height in analysis pixels under which letters of neighbouring lines run together."""

LEAST_SKEW = 0.25
"""Degrees; less is left to the slope of each line."""


def find_lines(gray: np.ndarray, dpi: float | None = None) -> LinesResult:
    """The text lines of a page uint8 [H, W], in reading order.

    `dpi`, where known, keeps small print from being reduced too far. Any size is fine; a page without
    text gives no lines. Raises ValueError where `gray` is not a uint8 matrix.
    """
    if gray.ndim != 2 or gray.dtype != np.uint8:
        raise ValueError(f"a page is a uint8 matrix [H, W], not {gray.dtype} {gray.shape}")
    height, width = gray.shape
    if min(height, width) < 8:
        return LinesResult([])
    factor = 1
    while height * width > ANALYSIS_PIXELS * factor * factor and (dpi is None or dpi / (factor + 1) >= 100):
        factor += 1
    return _find(gray, factor, double=True)


def _find(gray: np.ndarray, factor: int, double: bool) -> LinesResult:
    height, width = gray.shape
    frame = Frame.of((width, height), factor, 0.0)
    ink = find_ink(frame.analysis(gray))
    parts = components(runs_of(ink.mask))
    unit = glyph_height(parts)
    if unit is None:
        return LinesResult([])
    if unit < SMALL_GLYPH and factor > 1:
        return _find(gray, factor - 1, double)
    if unit < SMALL_GLYPH and double and height * width * 4 <= 2 * ANALYSIS_PIXELS:
        return _find_doubled(gray)
    skew = find_skew(parts, unit)
    if abs(skew) >= LEAST_SKEW:
        frame = Frame.of((width, height), factor, skew)
        ink = find_ink(frame.analysis(gray))
        parts = components(runs_of(ink.mask))
        unit = glyph_height(parts) or unit
    else:
        skew = 0.0
    lines = lines_of(Sheet(gray, frame, ink), parts, unit)
    boxes = np.array([line.box for line in lines]).reshape(-1, 4)
    return LinesResult([lines[i] for i in reading_order(boxes)], skew)


def _find_doubled(gray: np.ndarray) -> LinesResult:
    """Lines of a small or coarse image, found at twice its size; the crops stay at that size."""
    height, width = gray.shape
    twice = np.asarray(Image.fromarray(gray).resize((2 * width, 2 * height), Image.BICUBIC))
    found = _find(twice, 1, double=False)
    return LinesResult([_halved(line) for line in found.lines], found.skew, ["small print: seen at twice its size"])


def _halved(line: Line) -> Line:
    x0, y0, x1, y1 = (v / 2 for v in line.box)
    return replace(line, box=(x0, y0, x1, y1), baseline=line.baseline / 2, x_height=line.x_height / 2)
