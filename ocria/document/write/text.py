"""A document as plain text."""

from __future__ import annotations

from ocria.document.options import ParseOptions
from ocria.document.result import Document, Page
from ocria.document.write.choose import loss_of, loss_of_all, shown_blocks

_DEFAULTS = ParseOptions()


def to_text(document: Document, page_markers: bool = False, options: ParseOptions = _DEFAULTS) -> str:
    """All pages in order, paragraphs unwrapped, cells of tables parted by tabs; `page_markers` ends each page with a
    form feed. What is missing of a page is told in brackets behind it."""
    if lost := loss_of_all(document):
        return f"[{lost}]\n"
    pages = [_page(page, options) for page in document.pages]
    if page_markers:
        return "".join(f"{text}\n\f" for text in pages)
    parts = [text for text in pages if text]
    return "\n\n".join(parts) + "\n" if parts else ""


def page_text(page: Page, options: ParseOptions = _DEFAULTS) -> str:
    """The blocks of one page; items of a list stand on following lines."""
    text = ""
    before = ""
    for block in shown_blocks(page, options.keep_headers_footers):
        if not block.text.strip():
            continue
        if text:
            text += "\n" if block.type == before == "list-item" else "\n\n"
        text += block.text
        before = block.type
    return text


def _page(page: Page, options: ParseOptions) -> str:
    text, loss = page_text(page, options), loss_of(page)
    return "\n\n".join(part for part in (text, loss and f"[{loss}]") if part)
