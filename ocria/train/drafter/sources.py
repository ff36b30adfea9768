"""Where the images come from: synthetic lines for ocria-nano, or a folder of pages."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image

IMAGES = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp"})


def synthetic_lines(seed: int, size: int, split: str = "train", max_chars: int = 140):
    """A source of shards of `size` lines as ocria-nano was trained on, with their texts."""

    def shard(number: int) -> Iterator[tuple[np.ndarray, str | None]]:
        from ocria.train.batches import usable
        from ocria.train.lines import LineStream

        stream = LineStream(seed * 100_000 + number, split, max_chars)
        lines = ((usable(sample.image, sample.text), sample.text) for sample in stream)
        yield from islice(((image, text) for image, text in lines if image is not None), size)

    return shard


def page_images(paths: list[Path], unit: str, size: int, dpi: int = 300):
    """A source of shards from image files and PDFs, or folders of them; `size` pages each, cut into lines where that is
    what the target reads. Their texts are not known."""
    files = sorted(file for path in paths for file in ([path] if path.is_file() else path.rglob("*")))
    files = [file for file in files if file.suffix.lower() in {*IMAGES, ".pdf"}]
    pages = [page for file in files for page in _pages(file, dpi)]

    def shard(number: int) -> Iterator[tuple[np.ndarray, str | None]] | None:
        part = pages[number * size : (number + 1) * size]
        return ((image, None) for page in part for image in images(page())) if part else None

    def images(page: np.ndarray) -> list[np.ndarray]:
        return line_images(page) if unit == "line" else [page]

    return shard


def line_images(page: np.ndarray) -> list[np.ndarray]:
    """The lines of a page uint8 `[H, W]` or `[H, W, 3]`, as the reader cuts them: uint8 `[40, W]` each."""
    from ocria.document.lines import find_lines

    gray = page if page.ndim == 2 else np.asarray(Image.fromarray(page).convert("L"))
    return [piece for line in find_lines(gray).lines for piece in pieces(line.crop)]


def pieces(crop: np.ndarray) -> list[np.ndarray]:
    """The line images of one crop: as many as its width needs."""
    from ocria.document.reader import _LONGEST_LINE
    from ocria.document.split import split_wide
    from ocria.model.line import line_image, scaled_width

    height, width = crop.shape
    most = width * _LONGEST_LINE // max(_LONGEST_LINE, scaled_width(height, width))
    return [line_image(piece) for piece in split_wide(crop, max(1, most))]


def _pages(file: Path, dpi: int) -> list[Callable[[], np.ndarray]]:
    """What renders each page of a file, uint8 `[H, W, 3]`."""
    import pymupdf

    if file.suffix.lower() != ".pdf":
        return [partial(_image, file)]
    with pymupdf.open(file) as document:
        return [partial(_pdf_page, file, number, dpi) for number in range(document.page_count)]


def _image(file: Path) -> np.ndarray:
    from ocria.document.decode import on_white

    with Image.open(file) as image:
        return np.asarray(on_white(image).convert("RGB"))


def _pdf_page(file: Path, number: int, dpi: int) -> np.ndarray:
    import pymupdf

    with pymupdf.open(file) as document:
        pixels = document[number].get_pixmap(dpi=dpi)
    return np.frombuffer(pixels.samples, np.uint8).reshape(pixels.height, pixels.width, 3)
