"""Pages of random text drawn line by line, so that a test knows every line's ink to the pixel."""

from dataclasses import dataclass, field

import numpy as np
import pymupdf

WORDS = "abcdefghijklmnopqrstuvwxyz"


@dataclass
class Drawn:
    """`gray`: the page uint8 [H, W]. `boxes`: ink of each line (x0, y0, x1, y1). `layers`: each line alone."""

    gray: np.ndarray
    boxes: list = field(default_factory=list)
    layers: list = field(default_factory=list)


def random_text(rng: np.random.Generator, length: int) -> str:
    """About `length` characters of words, some capitalised, some with punctuation, dots and quotes."""
    text = ""
    while len(text) < length:
        word = "".join(rng.choice(list(WORDS), rng.integers(2, 9)))
        mark = rng.choice(["", "", "", "", ",", ".", ";", "’", "é", "i", "!"])
        text += (word.capitalize() if rng.random() < 0.2 else word) + mark + " "
    return text.strip()


def draw(lines: list[tuple], size: tuple[int, int], dpi: int = 200) -> Drawn:
    """Draw (x, baseline, text, face, size) in points on a page of (width, height) points."""
    scale = dpi / 72
    drawn = None
    for x, y, text, face, points in lines:
        with pymupdf.open() as document:
            page = document.new_page(width=size[0], height=size[1])
            page.insert_text((x, y), text, fontname=face, fontsize=points)
            pixels = page.get_pixmap(dpi=dpi, colorspace=pymupdf.csGRAY)
        layer = np.frombuffer(pixels.samples, np.uint8).reshape(pixels.height, pixels.width)
        if drawn is None:
            drawn = Drawn(np.full_like(layer, 255))
        ys, xs = np.nonzero(layer < 128)
        drawn.boxes.append((xs.min(), ys.min(), xs.max() + 1, ys.max() + 1))
        top = max(0, int((y - 2 * points) * scale))
        drawn.layers.append((top, layer[top : int((y + points) * scale)]))
        drawn.gray = np.minimum(drawn.gray, layer)
    return drawn


def column(rng, x: float, y: float, count: int, characters: int, face: str, points: float) -> list[tuple]:
    """`count` lines under each other for `draw`."""
    lead = points * rng.uniform(1.15, 1.5)
    return [(x, y + k * lead, random_text(rng, characters), face, points) for k in range(count)]


def corners(line) -> np.ndarray:
    """The four corners [4, 2] of a found line's ink: its crop has known margins, its angle says the rest."""
    height = line.crop.shape[0] / 1.2
    width = line.crop.shape[1] - 0.6 * height
    centre = np.array([(line.box[0] + line.box[2]) / 2, (line.box[1] + line.box[3]) / 2])
    along = np.array([np.cos(np.radians(line.angle)), np.sin(np.radians(line.angle))]) * width / 2
    across = np.array([-along[1], along[0]]) / width * height
    return centre + np.array([along + across, along - across, -along - across, -along + across])


def close(found: tuple, truth: tuple, tolerance: float) -> bool:
    return bool(np.abs(np.array(found) - np.array(truth)).max() <= tolerance)


def assert_each_found_once(lines: list, boxes: list, tolerance: float) -> None:
    """Every drawn line is one found line with the same ink box, and nothing else was found."""
    lost = [box for box in boxes if not any(close(line.box, box, tolerance) for line in lines)]
    odd = [line.box for line in lines if not any(close(line.box, box, tolerance) for box in boxes)]
    assert not lost, f"not found as drawn: {lost}\nfound instead: {odd}"
    assert not odd, f"found though not drawn: {odd}"
