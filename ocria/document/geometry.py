"""Where things stand on a page, and boxes on turned pages."""

from __future__ import annotations

from dataclasses import dataclass

from ocria.events import Box


@dataclass(frozen=True, slots=True)
class LinePlace:
    """Where a line stands, in points of the displayed page."""

    box: Box
    baseline: float
    """y in the middle of the line."""
    x_height: float


def turn_back(box: Box, turned: int, width: float, height: float) -> Box:
    """A box on a page that was turned clockwise by `turned` degrees, as a box on the displayed page.

    Args:
        turned: 0, 90, 180 or 270.
        width: of the displayed page, before turning.
        height: likewise.
    """
    x0, y0, x1, y1 = box
    if turned == 90:
        return y0, height - x1, y1, height - x0
    if turned == 180:
        return width - x1, height - y1, width - x0, height - y0
    if turned == 270:
        return width - y1, x0, width - y0, x1
    return box


def within(box: Box, width: float, height: float) -> Box:
    """The box clipped to the page and rounded to hundredths of a point."""
    x0, y0, x1, y1 = box
    return (
        round(min(max(x0, 0.0), width), 2),
        round(min(max(y0, 0.0), height), 2),
        round(min(max(x1, 0.0), width), 2),
        round(min(max(y1, 0.0), height), 2),
    )
