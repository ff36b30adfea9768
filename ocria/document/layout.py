"""The layout of a page with text: blocks in reading order, through PyMuPDF's layout analysis.

No OCR engine is ever started here: pymupdf4llm's own use of one is switched off.
"""

from __future__ import annotations

import re

import pymupdf
from pymupdf4llm.helpers.document_layout import LayoutBox, ParsedDocument, parse_document
from pymupdf4llm.ocr import OCRMode

from ocria.document.clean import clean_text, escape_markdown, join_lines
from ocria.document.geometry import turn_back, within
from ocria.document.mupdf import quiet_stdout, serial
from ocria.document.result import Block, Layout
from ocria.document.table import table_markdown, table_text

# Points; more than any sheet of paper has (A0 is 3370 long).
_LONGEST_SIDE = 5000.0

# A heading is bold by being one.
_BOLD_HEADING = re.compile(r"^(#+ )\*\*(.*?)\*\*$")

_TYPES = {
    "section-header": "heading",
    "page-header": "header",
    "page-footer": "footer",
    "title": "title",
    "text": "text",
    "list-item": "list-item",
    "table": "table",
    "picture": "picture",
    "formula": "formula",
    "caption": "caption",
    "footnote": "footnote",
}


@serial
def lay_out(pdf: pymupdf.Document, index: int) -> Layout:
    """Lay out page `index` (0-based) of a PDF by its text layer; the PDF is left as it is."""
    copy = pymupdf.open()
    # Copying form fields walks over all pages of the source: only where there are some.
    copy.insert_pdf(pdf, from_page=index, to_page=index, links=False, widgets=bool(pdf.is_form_pdf))
    page = copy[0]
    width, height = page.rect.width, page.rect.height
    left, top = _crop_if_huge(page)
    crop_width, crop_height = page.rect.width, page.rect.height
    turned = _turn_to_upright(page)
    page.set_rotation((page.rotation + turned) % 360)
    with quiet_stdout():
        parsed = parse_document(copy, pages=[0], use_ocr=OCRMode.NEVER, force_text=True)
    boxes = [box for box in parsed.pages[0].boxes if box.boxclass != "table" or box.table["extract"]]
    blocks = []
    for box in boxes:
        block = _block(parsed, box, len(blocks))
        if block is not None:
            x0, y0, x1, y1 = turn_back(block.box, turned, crop_width, crop_height)
            block.box = within((x0 + left, y0 + top, x1 + left, y1 + top), width, height)
            blocks.append(block)
    copy.close()
    return Layout(blocks, turned)


def _block(parsed: ParsedDocument, box: LayoutBox, order: int) -> Block | None:
    """The block of one layout box, or None where it holds nothing to show."""
    kind = _TYPES.get(box.boxclass, "text")
    place = (box.x0, box.y0, box.x1, box.y1)
    if kind == "table":
        cells = box.table["extract"]
        return Block(kind, place, table_text(cells), table_markdown(cells), order)
    lines = _clean_lines(box)
    if kind == "picture" and not lines:
        return Block(kind, place, "", "", order)
    if not lines:
        return None
    texts = ["".join(span["text"] for span in line["spans"]) for line in lines]
    if kind == "picture":
        # Words on a chart or a photo: a line each, for they are no running text.
        return Block(kind, place, "\n".join(texts), "\\\n".join(map(escape_markdown, texts)), order)
    code = _is_code(lines)
    text = "\n".join(texts) if code else join_lines(texts)
    size = max(span["size"] for line in lines for span in line["spans"])
    _escape(lines, code)
    box.textlines = lines
    markdown = "\n".join(line.rstrip() for line in _markdown(parsed, box).strip().splitlines())
    if kind in ("title", "heading"):
        markdown = _BOLD_HEADING.sub(r"\1\2", markdown)
    return Block("code" if code else kind, place, text, markdown, order, font_size=round(size, 1))


def _markdown(parsed: ParsedDocument, box: LayoutBox) -> str:
    """pymupdf4llm's own Markdown of one box."""
    page = parsed.pages[0]
    boxes, page.boxes = page.boxes, [box]
    try:
        return parsed.to_markdown()
    finally:
        page.boxes = boxes


def _clean_lines(box: LayoutBox) -> list[dict]:
    lines = []
    for line in box.textlines or []:
        for span in line["spans"]:
            span["text"] = clean_text(span["text"])
        spans = [span for span in line["spans"] if span["text"].strip()]
        if spans:
            lines.append({"bbox": line["bbox"], "spans": spans})
    return lines


def _escape(lines: list[dict], code: bool) -> None:
    """Escape Markdown's own characters, except in code, which is fenced or quoted."""
    if code:
        return
    for line in lines:
        for span in line["spans"]:
            if not span["flags"] & pymupdf.TEXT_FONT_MONOSPACED:
                span["text"] = escape_markdown(span["text"])


def _is_code(lines: list[dict]) -> bool:
    return all(span["flags"] & pymupdf.TEXT_FONT_MONOSPACED for line in lines for span in line["spans"])


def _turn_to_upright(page: pymupdf.Page) -> int:
    """Degrees clockwise, a multiple of 90, by which to turn the displayed page so that most of its text
    reads from left to right."""
    weight = {0: 0, 90: 0, 180: 0, 270: 0}
    for block in page.get_text("dict")["blocks"]:
        for line in block.get("lines", ()):
            across, down = pymupdf.Point(line["dir"]) * _linear(page.rotation_matrix)
            letters = sum(len(span["text"].strip()) for span in line["spans"])
            if abs(across) >= abs(down):
                weight[0 if across > 0 else 180] += letters
            else:
                weight[270 if down > 0 else 90] += letters
    return max(weight, key=weight.__getitem__)


def _crop_if_huge(page: pymupdf.Page) -> tuple[float, float]:
    """Crop a page of absurd size to its text, for the layout analysis draws it; returns the crop's origin on
    the displayed page."""
    if max(page.rect.width, page.rect.height) <= _LONGEST_SIDE:
        return 0.0, 0.0
    text = pymupdf.Rect()
    for block in page.get_text("blocks"):
        text |= pymupdf.Rect(block[:4]) * page.rotation_matrix
    margin = pymupdf.Rect(-36, -36, 36, 36)
    shown = (text + margin) & page.rect
    if text.is_empty or max(shown.width, shown.height) > _LONGEST_SIDE:
        return 0.0, 0.0
    page.set_cropbox(shown * page.derotation_matrix + _origin(page))
    return shown.x0, shown.y0


def _origin(page: pymupdf.Page) -> pymupdf.Rect:
    """Where the displayed page begins in the coordinates of `set_cropbox`."""
    x, y = page.cropbox_position
    return pymupdf.Rect(x, y, x, y)


def _linear(matrix: pymupdf.Matrix) -> pymupdf.Matrix:
    return pymupdf.Matrix(matrix.a, matrix.b, matrix.c, matrix.d, 0, 0)
