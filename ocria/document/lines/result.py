"""What `find_lines` returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True)
class Line:
    """One text line of a page image.

    `box`: (x0, y0, x1, y1) of its ink in pixels of the page as given, float. `angle`: degrees by which it
    runs downhill to the right. `baseline`: y in page pixels at the middle of the box. `x_height`: page
    pixels. `crop`: uint8 [h, w], the line deskewed, dark on light, other ink painted out, with a margin.
    """

    box: tuple[float, float, float, float]
    angle: float
    baseline: float
    x_height: float
    crop: np.ndarray = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class LinesResult:
    """`lines` in reading order, `skew` of the page in degrees (downhill to the right), `notes` for a person."""

    lines: list[Line]
    skew: float = 0.0
    notes: list[str] = field(default_factory=list)
