"""The glyphs that a page's content draws, and a page without some of them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pymupdf
from pymupdf import mupdf

from ocria.document.page_copy import content_to_page, to_displayed
from ocria.events import Box

_NO_GLYPH = -1
"""What MuPDF gives for the second and later characters of one glyph, such as a ligature."""
# Parts of a point within which two reports of one origin agree.
_GRID = 20


@dataclass(slots=True)
class Glyph:
    """One drawn glyph, on the displayed page in points, origin top left."""

    text: str
    """Its characters: several for a ligature."""
    origin: tuple[float, float]
    box: Box
    """From the font's ascender to its descender, as wide as the glyph advances."""
    run: int
    """Which run of the trace it belongs to."""
    number: int
    """Of the glyph in its font; 0 where the font at hand has none: what other programs show is not known."""


@dataclass(frozen=True, slots=True)
class Run:
    """What the glyphs of one run share."""

    kind: int
    """0 filled, 1 stroked, 3 neither."""
    color: tuple[float, ...]
    opacity: float
    size: float
    """Points on the page."""
    direction: tuple[float, float]
    """Of the line, on the displayed page."""
    order: int
    """When it is drawn, in the count of `Page.get_bboxlog`."""
    font: str


def trace(page: pymupdf.Page) -> tuple[list[Glyph], list[Run]]:
    """All glyphs of a page in the order they are drawn, and their runs; layers that are off have none."""
    shown, turned = to_displayed(page), page.rotation != 0
    turn = pymupdf.Matrix(shown.a, shown.b, shown.c, shown.d, 0, 0)
    glyphs: list[Glyph] = []
    runs: list[Run] = []
    for span in page.get_texttrace():
        direction = tuple(pymupdf.Point(span["dir"]) * turn)
        runs.append(
            Run(
                span["type"], tuple(span["color"] or ()), span["opacity"], span["size"], direction,
                span["seqno"], span["font"],
            )
        )  # fmt: skip
        last = None
        for code, glyph, origin, box in span["chars"]:
            if glyph == _NO_GLYPH and last is not None and _same(origin, last):
                glyphs[-1].text += chr(code)
                continue
            last = origin
            at = tuple(pymupdf.Point(origin) * shown) if turned else origin
            where = tuple(pymupdf.Rect(box) * shown) if turned else box
            glyphs.append(Glyph(chr(code), at, where, len(runs) - 1, glyph))
    return glyphs, runs


def drop_glyphs(page: pymupdf.Page, glyphs: Sequence[Glyph], doomed: Iterable[int]) -> pymupdf.Page:
    """The page without the glyphs at these indices of its own `trace`; its content is written anew, and `page` and
    its like must not be used again.

    Only where a glyph stands and the order of drawing tell which it is, so that two at one place are told apart.
    """
    gone = set(doomed)
    verdicts: dict[tuple[int, int], deque[bool]] = defaultdict(deque)
    for index, glyph in enumerate(glyphs):
        verdicts[_place(*glyph.origin)].append(index in gone)
    options = mupdf.PdfFilterOptions()
    options.recurse = 1
    options.instance_forms = 1
    factory = _FilterFactory(_GlyphFilter(content_to_page(page), verdicts))
    options.add_factory(factory.internal())
    document = page.parent
    number = page.number
    pdf = mupdf.pdf_document_from_fz_document(document.this)
    mupdf.pdf_filter_page_contents(pdf, mupdf.pdf_page_from_fz_page(page.this), options)
    return document.load_page(number)


def _same(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return abs(one[0] - other[0]) < 0.01 and abs(one[1] - other[1]) < 0.01


def _place(x: float, y: float) -> tuple[int, int]:
    return round(x * _GRID), round(y * _GRID)


class _GlyphFilter(mupdf.PdfSanitizeFilterOptions2):
    """Asks of every glyph of a content stream whether it goes."""

    def __init__(self, to_page: pymupdf.Matrix, verdicts: dict[tuple[int, int], deque[bool]]):
        super().__init__()
        self.use_virtual_text_filter()
        self._to_page = to_page
        self._verdicts = verdicts

    def text_filter(self, ctx, codes, count, glyph, state, *rest):
        x = glyph.e * state.a + glyph.f * state.c + state.e
        y = glyph.e * state.b + glyph.f * state.d + state.f
        to = self._to_page
        column, row = _place(x * to.a + y * to.c + to.e, x * to.b + y * to.d + to.f)
        for place in _around(column, row):
            waiting = self._verdicts.get(place)
            if waiting:
                return int(waiting.popleft())
        return 0


def _around(column: int, row: int) -> Iterable[tuple[int, int]]:
    """A cell and then its neighbours, for rounding may have parted two reports of one place."""
    yield column, row
    for x in (-1, 0, 1):
        for y in (-1, 0, 1):
            if x or y:
                yield column + x, row + y


class _FilterFactory(mupdf.PdfFilterFactory2):
    def __init__(self, glyph_filter: _GlyphFilter):
        super().__init__()
        self.use_virtual_filter()
        self._filter = glyph_filter

    def filter(self, ctx, document, chain, parents, transform, options):
        return mupdf.ll_pdf_new_sanitize_filter(
            document, chain, parents, transform, options, self._filter.internal()
        )
