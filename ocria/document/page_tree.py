"""The page tree of a damaged PDF, made to count the pages that are there.

Readers believe the `Count` of its nodes: where that is wrong, pages at the end vanish, or the file cannot be opened at
all. What stands in a list of pages keeps its place and its number, even if it is no page.
"""

from __future__ import annotations

import pymupdf
from pymupdf import mupdf

from ocria.document.mupdf import FAULTS

_DEEPEST = 64


def mend_page_tree(pdf: pymupdf.Document) -> tuple[list[int], bool]:
    """Correct the tree in memory.

    Returns:
        the object number of each page, 0 for one that has none; and whether the tree was damaged.

    Raises:
        Exception: one of `ocria.document.mupdf.FAULTS`, where MuPDF cannot count the pages.
    """
    try:
        return _mend(pdf)
    except FAULTS:  # what MuPDF makes of it counts then
        return [0] * pdf.page_count, False


def is_page(page: pymupdf.Page) -> bool:
    """Whether an entry of the page tree is a page at all; MuPDF shows an empty sheet for anything."""
    pdf, number = page.parent, page.xref
    if not 0 < number < pdf.xref_length():
        return False
    kind = _kind(pdf, number)
    if kind is not None:
        return kind in ("/Page", "/Template")
    return any(pdf.xref_get_key(number, key)[0] != "null" for key in ("Contents", "MediaBox", "Resources", "Parent"))


def mend_crop(page: pymupdf.Page) -> bool:
    """Let a page whose crop box shows nothing of it be shown whole; MuPDF takes an empty sheet for it. Returns whether
    the page must be loaded again."""
    entries = mupdf.pdf_page_from_fz_page(page.this).obj()
    media, crop = (mupdf.pdf_dict_gets_inheritable(entries, name) for name in ("MediaBox", "CropBox"))
    if not (mupdf.pdf_is_array(media) and mupdf.pdf_is_array(crop)):
        return False
    whole, shown = (pymupdf.Rect(mupdf.pdf_to_rect(box)) for box in (media, crop))
    if whole.is_empty or not (whole & shown).is_empty:
        return False
    page.parent.xref_set_key(page.xref, "CropBox", "[" + " ".join(f"{value:f}" for value in whole) + "]")
    return True


def _mend(pdf: pymupdf.Document) -> tuple[list[int], bool]:
    document = mupdf.pdf_document_from_fz_document(pdf.this)
    root = mupdf.pdf_dict_gets(mupdf.pdf_dict_gets(mupdf.pdf_trailer(document), "Root"), "Pages")
    leaves: list[int] = []
    sound = _walk(root, leaves, {mupdf.pdf_to_num(root)})
    if not leaves:
        # No list leads to them: in the order of their numbers.
        leaves = [number for number in range(1, pdf.xref_length()) if _kind(pdf, number) == "/Page"]
        sound = not leaves
    if not sound and pdf.pdf_catalog():
        tree = pdf.get_new_xref()
        kids = " ".join(f"{number} 0 R" if number else "null" for number in leaves)
        pdf.update_object(tree, f"<</Type/Pages/Kids[{kids}]/Count {len(leaves)}>>")
        pdf.xref_set_key(pdf.pdf_catalog(), "Pages", f"{tree} 0 R")
    return leaves, not sound


def _walk(node: mupdf.PdfObj, leaves: list[int], above: set[int]) -> bool:
    """Add the pages below a node; returns whether all is as it should be."""
    kids = mupdf.pdf_dict_gets(node, "Kids")
    before, sound = len(leaves), True
    for place in range(mupdf.pdf_array_len(kids)):
        kid = mupdf.pdf_array_get(kids, place)
        number = mupdf.pdf_to_num(kid)
        if not mupdf.pdf_is_array(mupdf.pdf_dict_gets(kid, "Kids")):
            leaves.append(number)
        elif (number and number in above) or len(above) > _DEEPEST:
            leaves.append(0)
            sound = False
        else:
            sound &= _walk(kid, leaves, above | {number})
    return sound and mupdf.pdf_to_int(mupdf.pdf_dict_gets(node, "Count")) == len(leaves) - before


def _kind(pdf: pymupdf.Document, number: int) -> str | None:
    kind, value = pdf.xref_get_key(number, "Type")
    return value if kind == "name" else None
