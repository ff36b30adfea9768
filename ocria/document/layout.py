"""The layout of a page with text: blocks in reading order, through PyMuPDF's layout analysis.

No OCR engine is ever started here: pymupdf4llm's own use of one is switched off.
"""

from __future__ import annotations

import pymupdf
from pymupdf4llm.helpers.document_layout import LayoutBox, parse_document
from pymupdf4llm.ocr import OCRMode

from ocria.document.geometry import turn_back, within
from ocria.document.hidden import without_hidden_text
from ocria.document.mupdf import quiet_stdout, serial
from ocria.document.page_copy import copy_page, lay_flat
from ocria.document.result import Block, Layout
from ocria.document.structure.column_order import in_columns
from ocria.document.structure.page_tables import with_drawn_tables
from ocria.document.structure.pieces import page_pieces
from ocria.document.structure.regions import Region, share_out
from ocria.document.structure.rulings import drawn_grids, plain_grid
from ocria.document.structure.text_blocks import Flow, page_type

# Points; more than any sheet of paper has (A0 is 3370 long).
_LONGEST_SIDE = 5000.0

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
def lay_out(pdf: pymupdf.Document, index: int, *, all_shows: bool = False) -> Layout:
    """Lay out page `index` (0-based) of a PDF by what shows of its text layer, or by all of it; the PDF is left as
    it is."""
    copy = copy_page(pdf, index)
    page, shows = (copy[0], True) if all_shows else without_hidden_text(copy[0])
    width, height = page.rect.width, page.rect.height
    left, top = _crop_if_huge(page)
    crop_width, crop_height = page.rect.width, page.rect.height
    turned = _turn_to_upright(page)
    page.set_rotation(turned)
    page = lay_flat(page)
    blocks = _blocks(page, shows)
    for order, block in enumerate(blocks):
        x0, y0, x1, y1 = turn_back(block.box, turned, crop_width, crop_height)
        block.box = within((x0 + left, y0 + top, x1 + left, y1 + top), width, height)
        block.order = order
    copy.close()
    return Layout(blocks, turned)


def _blocks(page: pymupdf.Page, shows: bool) -> list[Block]:
    """The blocks of a page without rotation, in reading order; `shows` as for `page_pieces`."""
    pieces = page_pieces(page, shows)
    grids = drawn_grids(page)
    with quiet_stdout():
        parsed = parse_document(page.parent, pages=[page.number], use_ocr=OCRMode.NEVER, force_text=True)
    regions = in_columns(share_out(with_drawn_tables(list(map(_region, parsed.pages[0].boxes)), grids, pieces), pieces))
    flow = Flow(page_type(pieces, page.rect.height))
    for region in regions:
        if region.grid is None:
            flow.add(region)
        else:
            flow.add_table(region)
    return flow.blocks


def _region(box: LayoutBox) -> Region:
    """A box of the layout analysis; a table without rows is text."""
    kind = _TYPES.get(box.boxclass, "text")
    place = (float(box.x0), float(box.y0), float(box.x1), float(box.y1))
    if kind != "table":
        return Region(kind, place)
    cells = box.table["cells"]
    if not cells or len(cells[0]) < 2:
        return Region("text", place)
    ys = [row[0][1] for row in cells] + [cells[-1][0][3]]
    xs = [cell[0] for cell in cells[0]] + [cells[0][-1][2]]
    return Region(kind, place, plain_grid(ys, xs))


def _turn_to_upright(page: pymupdf.Page) -> int:
    """Degrees clockwise, a multiple of 90, by which to turn the displayed page so that most of its text
    reads from left to right."""
    weight = {0: 0, 90: 0, 180: 0, 270: 0}
    for block in page.get_text("dict")["blocks"]:
        for line in block.get("lines", ()):
            across, down = line["dir"]
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
        text |= pymupdf.Rect(block[:4])
    margin = pymupdf.Rect(-36, -36, 36, 36)
    shown = (text + margin) & page.rect
    if text.is_empty or max(shown.width, shown.height) > _LONGEST_SIDE:
        return 0.0, 0.0
    page.set_cropbox(shown)
    return shown.x0, shown.y0
