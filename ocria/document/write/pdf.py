"""A document as a searchable PDF: the file that was parsed, with what was read as invisible text."""

from __future__ import annotations

from pathlib import Path

from ocria.document.result import Document
from ocria.errors import UsageError


def to_pdf(document: Document, source: Path | bytes | None, password: str | None) -> bytes:
    """The bytes of the PDF."""
    raise UsageError("searchable PDFs cannot be written yet")
