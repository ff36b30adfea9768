"""What the accuracy bench compares: ocria, Tesseract, and Tesseract on the lines that ocria found.

Each reader turns an item into a Reading. The third one is a diagnosis: where it does well and ocria
does badly, the model misreads; where both do badly, the line finder has cut, merged or missed lines.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image
from report import Reading
from samples import GROUPS, Item, image_file
from tesseract import PAGE, RAW_LINE, Tesseract


class ReaderUnderTest(Protocol):
    """Reads all items of one group."""

    name: str

    def read(self, items: list[Item]) -> list[Reading]: ...


def grey_image(path: Path) -> np.ndarray:
    """An image file as uint8 `[H, W]`; transparent parts are paper."""
    with Image.open(path) as image:
        if image.mode in ("RGBA", "LA", "P"):
            image = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
        return np.array(image.convert("L"))


class Peer:
    """Tesseract on the item's own image: whole pages `--psm 3`, line images `--psm 13`."""

    name = "tesseract"

    def __init__(self, tesseract: Tesseract, cache: Path):
        self._tesseract, self._cache = tesseract, cache

    def read(self, items: list[Item]) -> list[Reading]:
        readings = []
        for item in items:
            mode = RAW_LINE if GROUPS[item.group].unit == "line" else PAGE
            found = self._tesseract.read(image_file(item, self._cache), mode)
            readings.append(Reading(item.group, item.name, item.truth, found.text, found.seconds))
        return readings


class FoundLines:
    """Tesseract `--psm 7` on the crops that ocria's line finder makes of a page."""

    name = "tesseract-lines"

    def __init__(self, tesseract: Tesseract, cache: Path):
        self._tesseract, self._cache = tesseract, cache

    def read(self, items: list[Item]) -> list[Reading]:
        return [self._read_one(item) for item in items]

    def _read_one(self, item: Item) -> Reading:
        from ocria.document.lines import find_lines
        from ocria.model.line import crop_to_ink

        gray = grey_image(image_file(item, self._cache))
        start = time.perf_counter()
        if GROUPS[item.group].unit == "line":
            crops = [crop_to_ink(gray)]
        else:
            found = find_lines(gray)
            crops = [line.crop for line in found.lines]
        # Some paper around the ink: Tesseract reads tight crops badly.
        padded = [np.pad(crop, max(4, crop.shape[0] // 5), constant_values=255) for crop in crops]
        text = "\n".join(self._tesseract.read_crops(padded, dpi=300))
        return Reading(item.group, item.name, item.truth, text, time.perf_counter() - start)


class Ocria:
    """ocria itself: whole pages through `ocria.parse(mode="model")`, line images through its line reader."""

    name = "ocria"

    def __init__(self, model: str | None, cache: Path, batch: int, threads: int):
        from ocria.document.options import ParseOptions
        from ocria.document.reader import Reader

        self._cache = cache
        self._reader = Reader(ParseOptions(model=model, batch=batch, threads=threads))

    def read(self, items: list[Item]) -> list[Reading]:
        if not items:
            return []
        if GROUPS[items[0].group].unit == "line":
            return self._read_lines(items)
        return [self._read_page(item) for item in items]

    def _read_lines(self, items: list[Item]) -> list[Reading]:
        from ocria.model.line import crop_to_ink

        start = time.perf_counter()
        crops = [crop_to_ink(grey_image(item.path)) for item in items]
        found = self._reader.read_lines(crops)
        share = (time.perf_counter() - start) / len(items)
        return [
            Reading(item.group, item.name, item.truth, line.text, share, line.status)
            for item, line in zip(items, found, strict=True)
        ]

    def _read_page(self, item: Item) -> Reading:
        import ocria

        start = time.perf_counter()
        document = ocria.parse(image_file(item, self._cache), mode="model", reader=self._reader)
        seconds = time.perf_counter() - start
        return Reading(item.group, item.name, item.truth, document.text, seconds, document.status)
