"""What only the whole document can decide, once all of its pages are there."""

from __future__ import annotations

from ocria.document.options import ParseOptions
from ocria.document.result import Document


def finish(document: Document, options: ParseOptions) -> None:
    """Bring the blocks of a document's pages in line with each other. The pages are as they were read, in order, each
    finished at most once."""
    level_headings(document)


def level_headings(document: Document) -> None:
    """Give headings of one font size the same level all over the document."""
    headings = [b for b in document.blocks if b.type in ("title", "heading") and b.font_size]
    sizes = sorted({round(b.font_size) for b in headings}, reverse=True)[:6]
    for block in headings:
        size = round(block.font_size)
        level = sizes.index(size) + 1 if size in sizes else 6
        block.level = level
        block.markdown = f"{'#' * level} {block.markdown.lstrip('#').lstrip()}"
