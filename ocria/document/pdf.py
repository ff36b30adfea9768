"""PDF files as a source of pages."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

import numpy as np
import pymupdf

from ocria.document.facts import PageFacts
from ocria.document.geometry import LinePlace
from ocria.document.guess import Word
from ocria.document.ink import is_blank
from ocria.document.look import look_at_pdf_page
from ocria.document.look_pixels import LOOK_DPI
from ocria.document.mupdf import FAULTS, serial, take_warnings
from ocria.document.page_copy import to_displayed
from ocria.document.page_tree import is_page, mend_crop, mend_page_tree
from ocria.document.result import Block, Layout
from ocria.errors import EncryptedError, InputError

_DEFAULT_DPI = 300
_SCAN_DPI = (150, 400)
_MOST_PIXELS = 40_000_000
_LONGEST_SIDE = 20_000
_P = ParamSpec("_P")
_R = TypeVar("_R")
_NO_SIZE = "a page of this size cannot be drawn"


class PdfSource:
    """An open PDF.

    Raises:
        InputError: no page can be read.
        EncryptedError: the password is missing or wrong.
    """

    parallel = 0

    @serial
    def __init__(
        self,
        path: str,
        content: bytes,
        sha256: str,
        password: str | None = None,
        converted_from: str | None = None,
    ):
        self.path = path
        self.sha256 = sha256
        self.converted_from = converted_from
        take_warnings()
        try:
            self.pdf = pymupdf.open(stream=content, filetype="pdf")
        except FAULTS as error:
            raise InputError(f"not a readable PDF ({error})", path=path) from error
        if not self.pdf.is_pdf:
            raise InputError("not a readable PDF", path=path)
        self._unlock(password)
        self._pages, mended = self._find_pages()
        self.page_count = len(self._pages)
        self.repaired = self.pdf.is_repaired or mended

    def page(self, number: int) -> PdfPage:
        return PdfPage(self, number)

    @serial
    def close(self) -> None:
        self.pdf.close()

    def _unlock(self, password: str | None) -> None:
        if not self.pdf.needs_pass:
            return
        if password is None:
            raise EncryptedError(
                "the PDF is encrypted", path=self.path, cure="Give its password with --password"
            )
        if not self.pdf.authenticate(password):
            raise EncryptedError("the password is wrong", path=self.path)

    def load(self, number: int) -> pymupdf.Page:
        """Page `number`, from 1. Raises InputError for one that is not there."""
        try:
            page = self.pdf.load_page(number - 1)
        except FAULTS as error:
            raise InputError(f"the page cannot be found ({error})", path=self.path) from error
        if self._pages[number - 1] not in (0, page.xref):
            raise InputError("the page was lost when the damaged file was repaired", path=self.path)
        if not is_page(page):
            raise InputError("what stands for the page in the file is no page", path=self.path)
        return self.pdf.load_page(number - 1) if mend_crop(page) else page

    def _find_pages(self) -> tuple[list[int], bool]:
        try:
            numbers, mended = mend_page_tree(self.pdf)
            count = self.pdf.page_count
        except FAULTS as error:
            raise InputError(f"the page tree is corrupt ({error})", path=self.path) from error
        if count < 1 or count != len(numbers):
            why = "; ".join(take_warnings()[:2])
            raise InputError(f"no page can be read{f' ({why})' if why else ''}", path=self.path)
        return numbers, mended


def _told_as(what: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Let a method of a page raise InputError with these words where MuPDF fails."""

    def decorate(method: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(method)
        def told(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            try:
                return method(*args, **kwargs)
            except FAULTS as error:
                raise InputError(f"{what} ({error})", path=args[0].source.path) from error

        return told

    return decorate


class PdfPage:
    """One page of a PDF."""

    def __init__(self, source: PdfSource, number: int):
        self.source = source
        self.number = number

    @serial
    def look(self) -> PageFacts:
        take_warnings()
        page = self.source.load(self.number)
        gray, dpi = _pixels(page, LOOK_DPI, gray=True)
        try:
            return look_at_pdf_page(page, gray[..., 0], dpi)
        except FAULTS as error:  # its pixels are there all the same
            warnings = [*take_warnings(), f"the text layer cannot be read ({error})"]
            blank = is_blank(gray[..., 0])
            return PageFacts(page.rect.width, page.rect.height, blank, distrust=warnings[-1], warnings=warnings)

    @serial
    @_told_as("the page cannot be drawn")
    def render(self, dpi: int | None) -> np.ndarray:
        page = self.source.load(self.number)
        return _pixels(page, dpi or _scan_dpi(page), gray=False)[0]

    @serial
    @_told_as("the text layer cannot be read")
    def words(self) -> list[Word]:
        page = self.source.load(self.number)
        shown = to_displayed(page)
        return [
            Word(text, tuple(pymupdf.Rect(box) * shown), (block, line))
            for *box, text, block, line, _ in page.get_text("words")
        ]

    @serial
    @_told_as("the text layer cannot be laid out")
    def lay_out(self) -> Layout:
        # The layout analysis loads a model of its own, which files without a text layer do not need.
        from ocria.document.layout import lay_out

        self.source.load(self.number)
        return lay_out(self.source.pdf, self.number - 1)

    def lay_out_lines(self, width: float, height: float, lines: Sequence[tuple[str, LinePlace]]) -> list[Block]:
        from ocria.document.place import lay_out_lines

        return lay_out_lines(width, height, lines)


def _pixels(page: pymupdf.Page, dpi: float, gray: bool) -> tuple[np.ndarray, float]:
    """The displayed page as uint8 [H, W, C], and the resolution it was rendered at.

    Huge pages are rendered more coarsely instead of failing.
    """
    width, height = page.rect.width / 72, page.rect.height / 72
    if not (0 < width < math.inf and 0 < height < math.inf):
        raise InputError(_NO_SIZE)
    dpi = min(dpi, (_MOST_PIXELS / (width * height)) ** 0.5, _LONGEST_SIDE / max(width, height))
    space = pymupdf.csGRAY if gray else pymupdf.csRGB
    pixmap = page.get_pixmap(matrix=pymupdf.Matrix(dpi / 72, dpi / 72), colorspace=space, alpha=False)
    if not (pixmap.width and pixmap.height):
        raise InputError(_NO_SIZE)
    pixels = np.frombuffer(pixmap.samples_mv, dtype=np.uint8)
    return pixels.reshape(pixmap.height, pixmap.stride)[:, : pixmap.width * pixmap.n].reshape(
        pixmap.height, pixmap.width, pixmap.n
    ).copy(), dpi  # fmt: skip


def _scan_dpi(page: pymupdf.Page) -> float:
    """The resolution of the image that fills most of the page, within sensible bounds, or the default."""
    best, found = 0.0, float(_DEFAULT_DPI)
    for image in page.get_image_info():
        box = pymupdf.Rect(image["bbox"]) * to_displayed(page)
        cover = abs(box & page.rect) / abs(page.rect)
        if cover > max(best, 0.5) and box.width > 0 and box.height > 0:
            # A turned image has its sides exchanged on the page: areas compare either way.
            density = (image["width"] * image["height"] / abs(box)) ** 0.5
            best, found = cover, density * 72
    return min(max(found, _SCAN_DPI[0]), _SCAN_DPI[1])
