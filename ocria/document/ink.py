"""Which pixels are ink, and whether a page is blank."""

from __future__ import annotations

import numpy as np

from ocria.document.lines.components import Components, components, runs_of

# A grey step that reads as print. Bleed-through and scanner noise, once averaged, stay below it.
_LEAST_CONTRAST = 48
# Standard deviations between the extremes of smoothed noise: the brightest of a neighbourhood lies 3.5 above
# the mean, the darkest of a page 5 below it.
_NOISE_RANGE = 9
_CELL = 16

# Millimetres on paper.
_LARGEST_DUST = 0.9
_THICKEST_LINE = 0.9
_LONGEST_DASH = 20.0
_HOLE_FROM_EDGE = 25.0
# Share of the shorter side of a page.
_WIDEST_BORDER = 0.1


def ink_mask(gray: np.ndarray) -> np.ndarray:
    """Pixels clearly darker than the paper around them.

    Noise is averaged away first: a pixel counts through the mean of its 3x3 neighbourhood; what is left of
    strong noise raises the contrast that is asked for.

    Args:
        gray: uint8 [H, W], a page at 72 dots per inch or more.

    Returns:
        bool [H, W].
    """
    values = gray.astype(np.float32)
    smooth = _box3(values)
    noise = 1.4826 * float(np.median(np.abs(values - smooth))) / 3
    return _paper(smooth) - smooth > max(_LEAST_CONTRAST, _NOISE_RANGE * noise)


def is_blank(pixels: np.ndarray, dpi: float = 72.0) -> bool:
    """Whether the page bears no print: white, evenly dark, or nothing but noise, ghosts of the other side, dust, punch
    holes and the borders of a scan.

    Args:
        pixels: uint8 [H, W], or [H, W, 3] where print in any colour is looked for.
        dpi: their resolution. Thin pale print shows in finer pixels only.
    """
    if pixels.ndim == 2:
        return not _has_print(ink_mask(pixels), dpi / 25.4)
    return all(is_blank(pixels[..., channel], dpi) for channel in range(pixels.shape[2]))


def _has_print(mask: np.ndarray, mm: float) -> bool:
    """Whether any group of ink pixels is neither dust nor of the scan itself; `mm` is the pixels in a millimetre."""
    if int(mask.sum()) < 5:
        return False
    parts = components(runs_of(mask))
    longer, shorter = np.maximum(parts.w, parts.h), np.minimum(parts.w, parts.h)
    # Two pixels come from the averaging.
    marks = (longer >= round(_LARGEST_DUST * mm) + 2) & (parts.area >= 4)
    marks &= ~((shorter <= max(3, _THICKEST_LINE * mm) + 2) & (longer > np.maximum(_LONGEST_DASH * mm, 12 * shorter)))
    marks &= ~_is_hole(parts, mask.shape, mm)
    return any(not _is_border(parts, int(i), mask.shape) for i in np.flatnonzero(marks))


def _is_hole(parts: Components, shape: tuple[int, ...], mm: float) -> np.ndarray:
    """Solid discs of a punch's size near an edge. bool [N]"""
    width, height = parts.w - 1, parts.h - 1
    round_ = (np.abs(width - height) <= np.maximum(2, 0.15 * width)) & (width >= 4.5 * mm) & (width <= 9.5 * mm)
    solid = np.abs(parts.area / (parts.w * parts.h) - np.pi / 4) < 0.1
    near = np.minimum(
        np.minimum(parts.x0, shape[1] - parts.x1), np.minimum(parts.y0, shape[0] - parts.y1)
    ) < _HOLE_FROM_EDGE * mm  # fmt: skip
    return round_ & solid & near


def _is_border(parts: Components, index: int, shape: tuple[int, ...]) -> bool:
    """Whether a part runs along the edges of the page alone, or is the frame of a rectangle and nothing else."""
    x0, y0, x1, y1 = (int(v[index]) for v in (parts.x0, parts.y0, parts.x1, parts.y1))
    touches = min(x0, y0, shape[1] - x1, shape[0] - y1) <= 2
    frames = (x1 - x0) > 0.3 * shape[1] and (y1 - y0) > 0.3 * shape[0]
    if not touches and not frames:
        return False
    mine = parts.of_run == index
    row, start, end = parts.runs.row[mine], parts.runs.x0[mine], parts.runs.x1[mine]
    if touches:
        room = _WIDEST_BORDER * min(shape)
        left, top, right, bottom = 0, 0, shape[1], shape[0]
        if _lie_along(row, start, end, (left, top, right, bottom), room):
            return True
    return frames and _lie_along(row, start, end, (x0, y0, x1, y1), max(4, 0.03 * (x1 - x0)))


def _lie_along(
    row: np.ndarray, start: np.ndarray, end: np.ndarray, box: tuple[int, int, int, int], room: float
) -> bool:
    """Whether runs of pixels lie no farther than `room` from the edges of a box."""
    x0, y0, x1, y1 = box
    level = (row < y0 + room) | (row >= y1 - room)
    return bool((level | (end <= x0 + room) | (start >= x1 - room)).mean() > 0.99)


def _box3(values: np.ndarray) -> np.ndarray:
    """Mean over 3x3, edges repeated."""
    padded = np.pad(values, 1, mode="edge")
    rows = padded[:-2] + padded[1:-1] + padded[2:]
    return (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9


def _paper(smooth: np.ndarray) -> np.ndarray:
    """Brightness of the paper around each pixel: the bright end of 3x3 cells of 16 pixels. [H, W]"""
    height, width = smooth.shape
    down, across = -(-height // _CELL), -(-width // _CELL)
    padded = np.pad(smooth, ((0, down * _CELL - height), (0, across * _CELL - width)), mode="edge")
    cells = padded.reshape(down, _CELL, across, _CELL).max(axis=(1, 3))
    around = np.pad(cells, 1, mode="edge")
    bright = np.max(
        [around[i : i + down, j : j + across] for i in range(3) for j in range(3)], axis=0
    )  # fmt: skip
    return np.kron(bright, np.ones((_CELL, _CELL), dtype=smooth.dtype))[:height, :width]
