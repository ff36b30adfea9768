"""A document as plain text."""

from __future__ import annotations

from ocria.document.result import Document


def to_text(document: Document, page_markers: bool = False) -> str:
    """All pages in order, paragraphs unwrapped; `page_markers` ends each page with a form feed."""
    if page_markers:
        return "".join(f"{page.text}\n\f" for page in document.pages)
    parts = [page.text for page in document.pages if page.text]
    return "\n\n".join(parts) + "\n" if parts else ""
