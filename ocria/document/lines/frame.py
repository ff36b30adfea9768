"""The deskewed analysis frame of a page and the way back to the page's own pixels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from PIL import Image


@dataclass(frozen=True, slots=True)
class Frame:
    """`factor`: page pixels per analysis pixel. `skew`: degrees taken out. `page`, `size`: (width, height) of
    the page in its pixels and of the deskewed frame in analysis pixels. `origin`: of a patch of the frame."""

    factor: int
    skew: float
    page: tuple[int, int]
    size: tuple[int, int]
    origin: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, page: tuple[int, int], factor: int, skew: float) -> Frame:
        width, height = page
        if skew == 0.0:
            return cls(factor, 0.0, page, (-(-width // factor), -(-height // factor)))
        c, s = abs(np.cos(np.radians(skew))), abs(np.sin(np.radians(skew)))
        size = (
            int(np.ceil((c * width + s * height) / factor)),
            int(np.ceil((s * width + c * height) / factor)),
        )
        return cls(factor, skew, page, size)

    def patch(self, x0: int, y0: int) -> Frame:
        """The same frame with coordinates counted from (x0, y0)."""
        return replace(self, origin=(self.origin[0] + x0, self.origin[1] + y0))

    def to_page(self, x: np.ndarray | float, y: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """Page pixels of a point of the frame."""
        a, b, c, d, e, f = self.affine()
        x, y = np.asarray(x, float), np.asarray(y, float)
        return a * x + b * y + c, d * x + e * y + f

    def affine(self) -> tuple[float, float, float, float, float, float]:
        """(a, b, c, d, e, f): page x = a x + b y + c, page y = d x + e y + f."""
        k = float(self.factor)
        ox, oy = self.origin
        if self.skew == 0.0:
            return k, 0.0, k * ox, 0.0, k, k * oy
        cos, sin = np.cos(np.radians(self.skew)), np.sin(np.radians(self.skew))
        a, b, d, e = k * cos, -k * sin, k * sin, k * cos
        cx, cy = self.size[0] / 2 - ox, self.size[1] / 2 - oy
        return a, b, self.page[0] / 2 - a * cx - b * cy, d, e, self.page[1] / 2 - d * cx - e * cy

    def analysis(self, gray: np.ndarray) -> np.ndarray:
        """The page uint8 [H, W] deskewed and reduced to the frame's size."""
        image = Image.fromarray(gray)
        if self.factor > 1:
            image = image.reduce(self.factor)
        if self.skew == 0.0:
            return np.asarray(image)
        a, b, c, d, e, f = self.affine()
        k = self.factor
        return np.asarray(
            image.transform(
                self.size,
                Image.AFFINE,
                (a / k, b / k, c / k, d / k, e / k, f / k),
                Image.BILINEAR,
                fillcolor=255,
            )
        )
