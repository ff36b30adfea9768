"""A page as coloured cells: its image in half cells, or a map of its lines in characters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from ocria.events import Box
from ocria_tui.theme import Palette

WAITS, READ, FRESH = 0, 1, 2
"""How far a line is: not read, read, being read."""
_STRENGTH = {WAITS: 0.25, READ: 0.4, FRESH: 0.7}
"""How much of a box's colour lies over the image."""
_MAP = {WAITS: "░", READ: "▓", FRESH: "█"}
_MAP_ASCII = {WAITS: ".", READ: "#", FRESH: "@"}


@dataclass(frozen=True, slots=True)
class Mark:
    """A box over the page and how far it is."""

    box: Box
    state: int


def fit(width: float, height: float, columns: int, rows: int, cell: tuple[int, int] = (1, 2)) -> tuple[int, int]:
    """Columns and rows of the largest picture of that shape that fits. cell: width and height of a cell in pixels."""
    scale = min(columns * cell[0] / width, rows * cell[1] / height)
    across, down = round(width * scale / cell[0]), round(height * scale / cell[1])
    return max(1, min(columns, across)), max(1, min(rows, down))


def load(file: str) -> Image.Image:
    """The drawn page. Raises OSError where it cannot be read."""
    with Image.open(file) as image:
        return image.convert("RGB")


def scaled(image: Image.Image, width: int, height: int) -> np.ndarray:
    """The image as uint8 [height, width, 3]."""
    return np.asarray(image.resize((width, height), Image.Resampling.BOX))


def tinted(pixels: np.ndarray, size: tuple[float, float], marks: list[Mark], palette: Palette) -> np.ndarray:
    """A copy of pixels [H, W, 3] with the boxes over it. size: of the page in points."""
    out = pixels.copy()
    high, wide = pixels.shape[:2]
    colours = {state: np.array(rgb(_style(state, palette)), np.float32) for state in _STRENGTH}
    for mark in marks:
        x0, y0, x1, y1 = _pixels(mark.box, size, wide, high)
        share = _STRENGTH[mark.state]
        out[y0:y1, x0:x1] = np.rint((1 - share) * pixels[y0:y1, x0:x1] + share * colours[mark.state])
    return out


def cells(pixels: np.ndarray) -> list[list[Segment]]:
    """Rows of half cells of pixels [2 * rows, columns, 3]; neighbours of the same colours are one segment."""
    rows = []
    for upper, lower in zip(pixels[0::2].tolist(), pixels[1::2].tolist(), strict=True):
        row: list[Segment] = []
        begin = 0
        for column in range(1, len(upper) + 1):
            if column == len(upper) or upper[column] != upper[begin] or lower[column] != lower[begin]:
                style = Style(color=Color.from_rgb(*upper[begin]), bgcolor=Color.from_rgb(*lower[begin]))
                row.append(Segment("▀" * (column - begin), style))
                begin = column
        rows.append(row)
    return rows


def page_map(
    columns: int, rows: int, size: tuple[float, float], marks: list[Mark], palette: Palette, ascii_only: bool
) -> list[list[Segment]]:
    """The lines of a page as characters: dim where they wait, dense where they are read, bright while they are."""
    grid = np.full((rows, columns), -1, np.int8)
    for mark in marks:
        x0, y0, x1, y1 = _pixels(mark.box, size, columns, rows)
        grid[y0:y1, x0:x1] = np.maximum(grid[y0:y1, x0:x1], mark.state)
    signs = _MAP_ASCII if ascii_only else _MAP
    lines = []
    for row in grid.tolist():
        line: list[Segment] = []
        begin = 0
        for column in range(1, columns + 1):
            if column == columns or row[column] != row[begin]:
                state = row[begin]
                sign, style = (" ", palette.muted) if state < 0 else (signs[state], _style(state, palette))
                line.append(Segment(sign * (column - begin), style))
                begin = column
        lines.append(line)
    return lines


def rgb(style: Style) -> tuple[int, int, int]:
    return tuple(style.color.get_truecolor()) if style.color is not None else (255, 255, 255)


def _style(state: int, palette: Palette) -> Style:
    return {WAITS: palette.muted, READ: palette.good, FRESH: palette.bright}[state]


def _pixels(box: Box, size: tuple[float, float], wide: int, high: int) -> tuple[int, int, int, int]:
    """Where a box lies on a picture of that many pixels: at least one of them, within the picture."""
    x0, y0, x1, y1 = box[0] / size[0] * wide, box[1] / size[1] * high, box[2] / size[0] * wide, box[3] / size[1] * high
    left, top = min(wide - 1, max(0, round(x0))), min(high - 1, max(0, round(y0)))
    return left, top, max(left + 1, min(wide, round(x1))), max(top + 1, min(high, round(y1)))
