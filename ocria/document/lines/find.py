"""Finds the text lines of a page image."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PIL import Image

from .components import Components, components, runs_of
from .frame import Frame
from .ink import Ink, find_ink
from .order import reading_order
from .panels import dark_panels
from .result import Line, LinesResult
from .sheet import Sheet, glyph_height, lines_of
from .skew import find_skew

Box = tuple[float, float, float, float]

ANALYSIS_PIXELS = 5_000_000
"""Pages are reduced by a whole factor until they have no more pixels than this."""

SMALL_GLYPH = 10.5
"""Glyph height in analysis pixels under which letters of neighbouring lines run together."""

REDUCED_GLYPH = 9.0
"""The same for a page that was reduced: its letters are apart more clearly than those of a coarse scan."""

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
    page = frame.analysis(gray)
    ink = find_ink(page)
    parts = components(runs_of(ink.mask))
    unit = glyph_height(parts.h, parts.w, parts.area)
    if unit is None:
        return LinesResult([])
    if unit < REDUCED_GLYPH and factor > 1:
        return _find(gray, factor - 1, double)
    if unit < SMALL_GLYPH and double and height * width * 4 <= 2 * ANALYSIS_PIXELS:
        return _find_doubled(gray)
    skew = find_skew(parts, unit)
    if abs(skew) >= LEAST_SKEW:
        frame = Frame.of((width, height), factor, skew)
        page = frame.analysis(gray)
        ink = find_ink(page)
        parts = components(runs_of(ink.mask))
        unit = glyph_height(parts.h, parts.w, parts.area) or unit
    else:
        skew = 0.0
    lines = lines_of(Sheet(gray, frame, ink), parts, unit)
    for box, found in _panel_lines(gray, frame, page, ink, parts, unit):
        lines = [line for line in lines if not _within(line, frame, box)] + found
    boxes = np.array([_level_box(line, skew, width, height) for line in lines]).reshape(-1, 4)
    return LinesResult([lines[i] for i in reading_order(boxes)], skew)


def _level_box(line: Line, skew: float, width: int, height: int) -> Box:
    """The line's box with the page's skew taken out: upright boxes of slanting lines overlap."""
    if skew == 0.0:
        return line.box
    dx, dy = 0.5 * (line.box[0] + line.box[2] - width), 0.5 * (line.box[1] + line.box[3] - height)
    cos, sin = np.cos(np.radians(skew)), np.sin(np.radians(skew))
    x, y = cos * dx + sin * dy, cos * dy - sin * dx
    # The skewed box is w cos + h |sin| wide and w |sin| + h cos high.
    w, h = line.box[2] - line.box[0], line.box[3] - line.box[1]
    even = cos * cos - sin * sin
    w, h = (w * cos - h * abs(sin)) / even, (h * cos - w * abs(sin)) / even
    return (x - w / 2, y - h / 2, x + w / 2, y + h / 2)


def _panel_lines(
    gray: np.ndarray, frame: Frame, page: np.ndarray, ink: Ink, parts: Components, unit: float
) -> list[tuple[Box, list[Line]]]:
    """Dark panels (in the frame) on which there is light text, and its lines."""
    out = []
    for box in dark_panels(ink, parts, unit):
        x0, y0, x1, y1 = box
        patch = find_ink(255 - page[y0:y1, x0:x1])
        inner = components(runs_of(patch.mask))
        size = glyph_height(inner.h, inner.w, inner.area)
        if size is None or size < 0.5 * unit:
            continue
        found = lines_of(Sheet(gray, frame.patch(x0, y0), patch, inverted=True), inner, size)
        # A few small shapes on dark are a picture's lights more often than text.
        found = [line for line in found if line.crop.shape[1] > 1.5 * line.crop.shape[0]]
        if found:
            out.append((box, found))
    return out


def _within(line: Line, frame: Frame, box: Box) -> bool:
    x, y = frame.to_page(np.array(box)[[0, 2, 0, 2]], np.array(box)[[1, 1, 3, 3]])
    cx, cy = 0.5 * (line.box[0] + line.box[2]), 0.5 * (line.box[1] + line.box[3])
    return bool(x.min() < cx < x.max() and y.min() < cy < y.max())


def _find_doubled(gray: np.ndarray) -> LinesResult:
    """Lines of a small or coarse image, found at twice its size; the crops stay at that size."""
    height, width = gray.shape
    twice = np.asarray(Image.fromarray(gray).resize((2 * width, 2 * height), Image.BICUBIC))
    found = _find(twice, 1, double=False)
    return LinesResult([_halved(line) for line in found.lines], found.skew, ["small print: seen at twice its size"])


def _halved(line: Line) -> Line:
    x0, y0, x1, y1 = (v / 2 for v in line.box)
    return replace(line, box=(x0, y0, x1, y1), baseline=line.baseline / 2, x_height=line.x_height / 2)
