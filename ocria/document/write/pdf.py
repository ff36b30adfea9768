"""A document as a searchable PDF: the file that was parsed, with what the model read as invisible text."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pymupdf
from pymupdf import mupdf

from ocria.document.kind import PDF
from ocria.document.mupdf import serial, take_warnings
from ocria.document.result import Document
from ocria.document.source import open_readable, readable
from ocria.document.write.pdf_font import Glyphless
from ocria.document.write.pdf_hidden import drop_hidden_text
from ocria.document.write.pdf_images import images_as_pdf
from ocria.document.write.pdf_page import add_text, unsaid
from ocria.document.write.pdf_places import PlacedLine, placed_lines
from ocria.errors import EncryptedError, InputError


@serial
def to_pdf(document: Document, source: Path | bytes | None = None, password: str | None = None) -> bytes:
    """All pages of the file, also those that were not parsed, as they look. Those that the model read get its text,
    invisible, in place of an older invisible layer; all others are left alone. The result is not encrypted.

    Args:
        source: the file that was parsed, or its bytes; None takes the document's path.

    Raises:
        InputError: the file cannot be read, or is no longer the one that was parsed.
        EncryptedError: the password is missing or wrong.
    """
    path, content = _content(document, source)
    file = readable(path, content)
    if file.kind == PDF:
        pdf = _open(path, file.content, password)
    else:
        images = open_readable(path, file, document.sha256, password)
        try:
            pdf = images_as_pdf(images, file, document)
        finally:
            images.close()
    with pdf:
        try:
            _add_layers(pdf, document)
            return pdf.tobytes(garbage=1, deflate=True, no_new_id=True, encryption=pymupdf.PDF_ENCRYPT_NONE)
        except (RuntimeError, ValueError, mupdf.FzErrorBase) as error:
            raise InputError(
                f"too damaged to be made a searchable PDF ({error})", path=path, cure="Choose another format"
            ) from error


def _add_layers(pdf: pymupdf.Document, document: Document) -> None:
    lines: dict[int, list[PlacedLine]] = {}
    for page in document.pages:
        placed = placed_lines(document, page) if page.route == "model" else []
        if placed and page.index <= pdf.page_count:
            drop_hidden_text(pdf, page.index - 1)
            lines[page.index] = unsaid(pdf.load_page(page.index - 1), placed)
    font = Glyphless(pdf, (line.text for placed in lines.values() for line in placed))
    for index, placed in lines.items():
        if placed:
            add_text(pdf, index - 1, placed, font)


def _content(document: Document, source: Path | bytes | None) -> tuple[str, bytes]:
    """The file's name and bytes."""
    if isinstance(source, bytes):
        content = source
    else:
        path = Path(document.path if source is None else source)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot be read again for its PDF: {error.strerror}", path=path) from error
    if hashlib.sha256(content).hexdigest() != document.sha256:
        raise InputError("has changed since it was parsed", path=document.path, cure="Parse it again")
    return document.path, content


def _open(path: str, content: bytes, password: str | None) -> pymupdf.Document:
    take_warnings()
    try:
        pdf = pymupdf.open(stream=content, filetype="pdf")
    except (RuntimeError, ValueError) as error:
        raise InputError(f"not a readable PDF ({error})", path=path) from error
    if pdf.needs_pass and not (password is not None and pdf.authenticate(password)):
        raise EncryptedError("the PDF is encrypted", path=path, cure="Give its password with --password")
    return pdf
