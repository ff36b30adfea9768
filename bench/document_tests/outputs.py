"""The readers that document tests compare: each gives one page of a file, or all of it, as Markdown or text.

Readers of images get the page drawn at 200 dpi; the time of drawing counts for them, as opening and drawing does for
ocria. Loading a model does not count for anyone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from samples import Item, image_file
from tesseract import PAGE, PeerError, Tesseract

IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")


class ReaderMissing(Exception):
    """A peer is not installed here."""


class PageFailed(Exception):
    """A page could not be read, and says so: its tests fail with that reason, not as an empty page."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a reader made of a page, in wall seconds."""

    markdown: str
    seconds: float


class MarkdownReader(Protocol):
    name: str

    def read(self, path: Path, page: int | None) -> Output | None:
        """One page from 1, or with None the whole document; None for a kind of file that the reader does not read."""


class Ocria:
    """`ocria.parse` of the file itself, in one of its modes."""

    def __init__(self, mode: str, model: str | None, batch: int, threads: int):
        from ocria.document.options import ParseOptions
        from ocria.document.reader import Reader

        self.name = f"ocria {mode}"
        self._mode = mode
        self._reader = Reader(ParseOptions(model=model, batch=batch, threads=threads))

    def read(self, path: Path, page: int | None) -> Output:
        import ocria

        start = time.perf_counter()
        document = ocria.parse(path, mode=self._mode, reader=self._reader, pages=[page] if page else None)
        seconds = time.perf_counter() - start
        failed = [one for one in document.pages if one.status in ("failed", "timeout")]
        if failed:
            raise PageFailed(f"page {failed[0].index} {failed[0].status}: {failed[0].error}")
        return Output(document.markdown, seconds)


class TesseractText:
    """Plain text of `tesseract --psm 3`."""

    name = "tesseract"

    def __init__(self, cache: Path | None, threads: int, pictures: Path):
        self._pictures = pictures
        try:
            self._tesseract = Tesseract(cache, threads)
        except PeerError as error:
            raise ReaderMissing(str(error)) from None

    def read(self, path: Path, page: int | None) -> Output:
        images, drawing = drawn(path, page, self._pictures)
        found = [self._tesseract.read(image, PAGE) for image in images]
        return Output("\n\n".join(one.text for one in found), drawing + sum(one.seconds for one in found))


class RapidOcrText:
    """Plain text of RapidOCR (its default models, which come inside its package), one line of text per box."""

    name = "rapidocr"

    def __init__(self, threads: int, pictures: Path):
        try:
            from rapidocr import RapidOCR
        except ImportError:
            raise ReaderMissing("rapidocr is not installed") from None
        self._pictures = pictures
        parameters = {
            "EngineConfig.onnxruntime.intra_op_num_threads": threads,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            "Global.log_level": "error",
        }
        self._engine = RapidOCR(params=parameters)

    def read(self, path: Path, page: int | None) -> Output:
        images, drawing = drawn(path, page, self._pictures)
        start = time.perf_counter()
        texts = ["\n".join(self._engine(str(image)).txts or ()) for image in images]
        return Output("\n\n".join(texts), drawing + time.perf_counter() - start)


class TextLayer:
    """Markdown that pymupdf4llm makes of the text layer, without OCR and without running headers and footers."""

    name = "pymupdf4llm"

    def __init__(self) -> None:
        try:
            import pymupdf4llm
        except ImportError:
            raise ReaderMissing("pymupdf4llm is not installed") from None
        self._to_markdown: Callable[..., str] = pymupdf4llm.to_markdown

    def read(self, path: Path, page: int | None) -> Output | None:
        if path.suffix.lower() in IMAGES:
            return None
        import pymupdf

        start = time.perf_counter()
        with pymupdf.open(path) as document:
            pages = [page - 1] if page else None
            text = self._to_markdown(document, pages=pages, use_ocr=False, header=False, footer=False)
        return Output(text, time.perf_counter() - start)


def drawn(path: Path, page: int | None, folder: Path) -> tuple[list[Path], float]:
    """Image files of the pages and the seconds that drawing them took, kept from the first time."""
    import pymupdf

    if path.suffix.lower() in IMAGES:
        return [path], 0.0
    with pymupdf.open(path) as document:
        numbers = [page] if page else list(range(1, document.page_count + 1))
    images, seconds = [], 0.0
    for number in numbers:
        item = Item("", f"{path.parent.name}_{path.name}#{number}", path, "", number)
        timing = folder / f"{path.parent.name}_{path.name}#{number}.seconds"
        start = time.perf_counter()
        images.append(image_file(item, folder))
        if not timing.exists():
            timing.write_text(str(time.perf_counter() - start), encoding="utf-8")
        seconds += float(timing.read_text(encoding="utf-8"))
    return images, seconds


READERS = ("auto", "model", "tesseract", "pymupdf4llm", "rapidocr")


def make_reader(
    name: str, *, model: str | None, batch: int, threads: int, cache: Path | None, pictures: Path
) -> MarkdownReader:
    """A reader by its name in READERS; `cache` keeps Tesseract's texts, `pictures` drawn pages.

    Raises ReaderMissing for a peer that is not installed.
    """
    match name:
        case "auto" | "model":
            return Ocria(name, model, batch, threads)
        case "tesseract":
            return TesseractText(cache, threads, pictures)
        case "rapidocr":
            return RapidOcrText(threads, pictures)
        case "pymupdf4llm":
            return TextLayer()
    raise ValueError(f"no reader {name!r}")
