"""Open a file, bytes or a stream as a source of pages. File faults become typed errors here."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np

from ocria.document.facts import PageFacts
from ocria.document.guess import Word
from ocria.document.kind import COMIC, IMAGE, PDF, kind_of
from ocria.document.result import Layout
from ocria.errors import InputError, UsageError

STDIN_NAME = "<stdin>"


class SourcePage(Protocol):
    """A page to look at and to render."""

    number: int

    def look(self) -> PageFacts:
        """Size, ink and text layer of the page."""

    def render(self, dpi: int | None) -> np.ndarray:
        """The displayed page as uint8 [H, W, 3]; None renders at the resolution that suits the page."""

    def words(self) -> list[Word]:
        """The words of the text layer, hidden ones too, in the order of the file."""

    def lay_out(self) -> Layout:
        """The blocks of the text layer in reading order; none where there is no text layer."""


class Source(Protocol):
    """An open document."""

    path: str
    sha256: str
    page_count: int
    repaired: bool

    def page(self, number: int) -> SourcePage:
        """The page with this 1-based number."""

    def close(self) -> None: ...


def open_source(data: str | os.PathLike[str] | bytes | BinaryIO, password: str | None = None) -> Source:
    """Open a PDF, an image file, or what MuPDF makes a PDF of: books, office files and plain text.

    Args:
        data: a path, the bytes of a file, or a binary stream.
        password: for an encrypted PDF.

    Raises:
        InputError: missing, unreadable, corrupt or unsupported.
        EncryptedError: a password is needed, or another one.
    """
    path, content = _read(data)
    if not content:
        raise InputError("the file is empty", path=path)
    sha256 = hashlib.sha256(content).hexdigest()
    kind = kind_of(path, content)
    if kind == COMIC:
        from ocria.document.comic import ComicSource

        return ComicSource(path, content, sha256)
    if kind == IMAGE:
        from ocria.document.image import ImageSource

        return ImageSource(path, content, sha256)
    if kind != PDF:
        from ocria.document.convert import as_pdf

        content = as_pdf(path, content, kind)
    from ocria.document.pdf import PdfSource

    return PdfSource(path, content, sha256, password)


def _read(data: str | os.PathLike[str] | bytes | BinaryIO) -> tuple[str, bytes]:
    if isinstance(data, (bytes, bytearray, memoryview)):
        return "<bytes>", bytes(data)
    if hasattr(data, "read"):
        content = data.read()
        if isinstance(content, str):
            raise UsageError("a text stream holds no document", cure="Open the file in binary mode")
        return str(getattr(data, "name", STDIN_NAME)), content
    path = Path(data)
    try:
        return str(path), path.read_bytes()
    except FileNotFoundError:
        raise InputError("no such file", path=path) from None
    except IsADirectoryError:
        raise InputError("this is a folder, not a file", path=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
