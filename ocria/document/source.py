"""Open a file, bytes or a stream as a source of pages. File faults become typed errors here."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

import numpy as np

from ocria.document.control import Deadline
from ocria.document.facts import PageFacts
from ocria.document.geometry import LinePlace
from ocria.document.guess import Word
from ocria.document.kind import COMIC, IMAGE, PDF, kind_of
from ocria.document.result import Block, Layout
from ocria.errors import InputError, UsageError

if TYPE_CHECKING:
    from ocria.document.workers import Workers

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

    def lay_out_lines(self, width: float, height: float, lines: Sequence[tuple[str, LinePlace]]) -> list[Block]:
        """The blocks of a page of `width` x `height` points, in reading order, from lines that were read on it."""


class Source(Protocol):
    """An open document."""

    path: str
    sha256: str
    page_count: int
    repaired: bool
    converted_from: str | None
    """The kind of file that a PDF was made of, such as `epub`; None where it was read as it is."""
    parallel: int
    """How many of its pages other processes can work on; 0 where that happens in this one."""

    def page(self, number: int) -> SourcePage:
        """The page with this 1-based number."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Readable:
    """A file in a form that has pages."""

    content: bytes = field(repr=False)
    kind: str
    """`pdf`, `image` or `cbz`."""
    converted_from: str | None = None
    """What kind it was, where a PDF was made of it."""


def open_source(
    data: str | os.PathLike[str] | bytes | BinaryIO,
    password: str | None = None,
    workers: Workers | None = None,
    *,
    page_timeout: float | None = None,
    until: Deadline | None = None,
) -> Source:
    """Open a PDF, an image file, or what MuPDF makes a PDF of: books, office files and plain text.

    Args:
        data: a path, the bytes of a file, or a binary stream.
        password: for an encrypted PDF.
        workers: processes that open and draw it; None does it in this one, where nothing limits its time.
        page_timeout: seconds that a worker may take for a page.
        until: when workers stop.

    Raises:
        InputError: missing, unreadable, corrupt or unsupported.
        EncryptedError: a password is needed, or another one.
        TimeoutExceeded: it could not be opened in time.
    """
    path, content = _read(data)
    if not content:
        raise InputError("the file is empty", path=path)
    sha256 = hashlib.sha256(content).hexdigest()
    if workers is None:
        return open_readable(path, readable(path, content), sha256, password)
    from ocria.document.workers.source import WorkerSource
    from ocria.document.workers.wire import Opening

    file = os.path.abspath(path) if isinstance(data, (str, os.PathLike)) and os.path.isfile(path) else None
    opening = Opening(path, sha256, password, file, None if file else content)
    return WorkerSource(workers, opening, page_timeout, until)


def readable(path: str, content: bytes) -> Readable:
    """Make a PDF of a file of another kind, unless it is an image or holds some. Raises InputError."""
    kind = kind_of(path, content)
    if kind in (PDF, IMAGE, COMIC):
        return Readable(content, kind)
    from ocria.document.convert import as_pdf

    return Readable(as_pdf(path, content, kind), PDF, kind)


def open_readable(path: str, file: Readable, sha256: str, password: str | None = None) -> Source:
    """Open it in this process. `sha256`: of the file as it was. Raises InputError or EncryptedError."""
    if file.kind == COMIC:
        from ocria.document.comic import ComicSource

        return ComicSource(path, file.content, sha256)
    if file.kind == IMAGE:
        from ocria.document.image import ImageSource

        return ImageSource(path, file.content, sha256)
    from ocria.document.pdf import PdfSource

    return PdfSource(path, file.content, sha256, password, file.converted_from)


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
