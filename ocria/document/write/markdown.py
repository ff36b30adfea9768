"""A document as Markdown."""

from __future__ import annotations

from ocria.document.result import Document


def to_markdown(document: Document, page_markers: bool = False) -> str:
    """All pages in order; `page_markers` puts a comment with number and status before each page."""
    parts = []
    for page in document.pages:
        if page_markers:
            parts.append(f"<!-- page {page.index} {page.status} -->")
        if page.markdown:
            parts.append(page.markdown)
    return "\n\n".join(parts) + "\n" if parts else ""
