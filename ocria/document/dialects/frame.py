"""Where blocks stand: the coordinates of a model's answer on the page."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ocria.document.geometry import within
from ocria.events import Box

Size = tuple[float, float]

NORMALISED: Size = (1000.0, 1000.0)
"""Extent of boxes that run from 0 to 1000 on both axes. Sources: `data-bbox` of chandra-ocr-2 (chandra/prompts.py of
its publisher), `bbox` of Infinity-Parser2 (restore_abs_bbox_coordinates of its publisher), the grounding prompt of
LightOnOCR-3 (its model card)."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The page that a model saw, in points, and what its far corner is called in the model's own coordinates."""

    size: Size
    """Width and height of the page in points."""
    extent: Size | None
    """`NORMALISED`, or width and height of the image in pixels for a model that answers in pixels; None where nobody
    has published it: no box is made up then."""

    @property
    def whole(self) -> Box:
        return 0.0, 0.0, self.size[0], self.size[1]

    def box(self, values: object) -> Box:
        """Four numbers x0, y0, x1, y1 of the answer as a box in points, origin top left; the whole page where they are
        no box of it. Corners in the wrong order are put right."""
        if self.extent is None or not isinstance(values, (list, tuple)) or len(values) != 4:
            return self.whole
        if not all(isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in values):
            return self.whole
        (width, height), (far_x, far_y) = self.size, self.extent
        xs = sorted(values[i] / far_x * width for i in (0, 2))
        ys = sorted(values[i] / far_y * height for i in (1, 3))
        box = within((xs[0], ys[0], xs[1], ys[1]), width, height)
        return box if box[0] < box[2] and box[1] < box[3] else self.whole
