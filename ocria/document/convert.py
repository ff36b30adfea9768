"""Books, office files and plain text as PDFs, through MuPDF, which lays them out on pages."""

from __future__ import annotations

import pymupdf

from ocria.document.mupdf import FAULTS, serial, take_warnings
from ocria.errors import InputError

_A4 = (595, 842)
_FONT_SIZE = 11
# The encodings that plain text is written in, surest first; the last one takes any bytes.
_ENCODINGS = ("utf-8-sig", "cp1252", "latin-1")
_MARKS = (b"\xff\xfe", b"\xfe\xff")


@serial
def as_pdf(path: str, content: bytes, kind: str) -> bytes:
    """The PDF that MuPDF makes of a file. What has no pages of its own is laid out on A4 sheets.

    Args:
        kind: as `ocria.document.kind.kind_of` says it.

    Raises:
        InputError: MuPDF cannot open it, or finds no page.
    """
    if kind in ("txt", "md"):
        content = _as_utf8(path, content)
    take_warnings()
    try:
        with pymupdf.open(stream=content, filetype=kind) as document:
            if document.is_reflowable:
                document.layout(width=_A4[0], height=_A4[1], fontsize=_FONT_SIZE)
            if document.page_count < 1:
                raise ValueError("no page")
            return document.convert_to_pdf()
    except FAULTS as error:
        why = "; ".join(take_warnings()[:2]) or error
        raise InputError(f"not a readable {kind} file ({why})", path=path, cure="Print it to a PDF") from error


def _as_utf8(path: str, content: bytes) -> bytes:
    if content.startswith(_MARKS):
        return content.decode("utf-16", "replace").encode()
    if b"\0" in content:
        raise InputError("not a text file", path=path)
    for encoding in _ENCODINGS:
        try:
            return content.decode(encoding).encode()
        except UnicodeDecodeError:
            continue
    raise AssertionError("latin-1 takes any bytes")
