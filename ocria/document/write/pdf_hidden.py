"""Take the old invisible text off a page that was read anew, so that no word is found twice."""

from __future__ import annotations

import pymupdf
from pymupdf import mupdf

from ocria.document.glyphs import drop_glyphs
from ocria.document.hidden import text_layer
from ocria.document.page_copy import copy_page

_CHECK_DPI = 100.0
_MOST_PIXELS = 16_000_000


def drop_hidden_text(pdf: pymupdf.Document, index: int) -> bool:
    """Drop the glyphs of page `index` (0-based) that nobody can see, and tell whether there were any. A page that
    would look different without them keeps them, which is tried out on a copy."""
    page = pdf.load_page(index)
    layer = text_layer(page)
    hidden = [i for i, shows in enumerate(layer.shows) if not shows]
    if not hidden:
        return False
    with copy_page(pdf, index) as copy:
        try:
            same = _pixels(copy[0]) == _pixels(drop_glyphs(copy[0], layer.glyphs, hidden))
        except mupdf.FzErrorBase:  # content too damaged to be written anew
            return False
    if same:
        drop_glyphs(page, layer.glyphs, hidden)
    return same


def _pixels(page: pymupdf.Page) -> bytes:
    dpi = min(_CHECK_DPI, 72 * (_MOST_PIXELS / max(1.0, page.rect.width * page.rect.height)) ** 0.5)
    return page.get_pixmap(matrix=pymupdf.Matrix(dpi / 72, dpi / 72), alpha=False).samples
