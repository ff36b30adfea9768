"""Write invisible text on a page of a PDF without touching what it shows."""

from __future__ import annotations

from collections.abc import Sequence

import pymupdf
from pymupdf import mupdf

from ocria.document.write.pdf_font import DESCENT, Glyphless
from ocria.document.write.pdf_places import PlacedLine
from ocria.document.write.visual import visual_order

_FONT_NAME = "OcriaText"
# Along the line and upwards from it on the displayed page, whose y runs down, by how the page is turned to be read.
_ALONG = {0: (1, 0), 90: (0, -1), 180: (-1, 0), 270: (0, 1)}
_UP = {0: (0, -1), 90: (-1, 0), 180: (0, 1), 270: (1, 0)}


def add_text(pdf: pymupdf.Document, index: int, lines: Sequence[PlacedLine], font: Glyphless) -> None:
    """Put lines on page `index` (0-based), each as long and as high as its box. The text comes first in the content,
    where no state of the page's own drawing reaches it."""
    page = pdf.load_page(index)
    to_content = ~to_page(page)
    text = "\n".join(_shown(line, font, to_content) for line in lines)
    stream = pdf.get_new_xref()
    pdf.update_object(stream, "<<>>")
    pdf.update_stream(stream, f"q\nBT\n3 Tr\n{text}\nET\nQ\n".encode("ascii"))
    _put_first(pdf, page, stream)
    _name_font(pdf, page, font)


def unsaid(page: pymupdf.Page, lines: Sequence[PlacedLine]) -> list[PlacedLine]:
    """The lines that the page's own text does not say already in their place."""
    shown = page.rotation_matrix
    words = [(pymupdf.Rect(box) * shown, text) for *box, text, _, _, _ in page.get_text("words")]
    return [line for line in lines if _said(line, words) != "".join(line.text.split())]


def to_page(page: pymupdf.Page) -> pymupdf.Matrix:
    """From the coordinates of a page's content to the displayed page in points, user units included."""
    box, matrix = mupdf.FzRect(), mupdf.FzMatrix()
    mupdf.pdf_page_transform(mupdf.pdf_page_from_fz_page(page.this), box, matrix)
    return pymupdf.Matrix(matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f)


def _shown(line: PlacedLine, font: Glyphless, to_content: pymupdf.Matrix) -> str:
    """The operators that show one line."""
    x0, y0, x1, y1 = line.box
    across = line.turned in (90, 270)
    length, size = (y1 - y0, x1 - x0) if across else (x1 - x0, y1 - y0)
    (along_x, along_y), (up_x, up_y) = _ALONG[line.turned], _UP[line.turned]
    # The corner where the line begins, at its lower side.
    start_x = x0 if along_x + up_x > 0 else x1
    start_y = y0 if along_y + up_y > 0 else y1
    start_x, start_y = start_x + DESCENT * size * up_x, start_y + DESCENT * size * up_y
    natural = font.length(line.text) * size
    stretch = 100 * length / natural if natural > 0 else 100.0
    matrix = pymupdf.Matrix(along_x, along_y, up_x, up_y, start_x, start_y) * to_content
    numbers = " ".join(_number(value) for value in matrix)
    codes = font.codes(visual_order(line.text))
    return f"/{_FONT_NAME} {_number(size)} Tf {_number(stretch)} Tz {numbers} Tm <{codes}> Tj"


def _said(line: PlacedLine, words: Sequence[tuple[pymupdf.Rect, str]]) -> str:
    """What stands in the box of a line, without spaces."""
    x0, y0, x1, y1 = line.box
    inside = (
        text for box, text in words if x0 <= (box.x0 + box.x1) / 2 <= x1 and y0 <= (box.y0 + box.y1) / 2 <= y1
    )
    return "".join("".join(inside).split())


def _number(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")


def _put_first(pdf: pymupdf.Document, page: pymupdf.Page, stream: int) -> None:
    content = " ".join(f"{xref} 0 R" for xref in (stream, *page.get_contents()))
    pdf.xref_set_key(page.xref, "Contents", f"[{content}]")


def _name_font(pdf: pymupdf.Document, page: pymupdf.Page, font: Glyphless) -> None:
    """Add the font to the page's resources, which are copied first: other pages may share them."""
    file = mupdf.pdf_document_from_fz_document(pdf.this)
    this = mupdf.pdf_page_from_fz_page(page.this).obj()
    resources = _copy(file, mupdf.pdf_dict_get_inheritable(this, mupdf.PDF_ENUM_NAME_Resources))
    fonts = _copy(file, mupdf.pdf_dict_get(resources, mupdf.PDF_ENUM_NAME_Font))
    mupdf.pdf_dict_puts(fonts, _FONT_NAME, mupdf.pdf_new_indirect(file, font.xref, 0))
    mupdf.pdf_dict_put(resources, mupdf.PDF_ENUM_NAME_Font, fonts)
    mupdf.pdf_dict_put(this, mupdf.PDF_ENUM_NAME_Resources, resources)


def _copy(file: mupdf.PdfDocument, dictionary: mupdf.PdfObj) -> mupdf.PdfObj:
    return mupdf.pdf_copy_dict(dictionary) if mupdf.pdf_is_dict(dictionary) else mupdf.pdf_new_dict(file, 4)
