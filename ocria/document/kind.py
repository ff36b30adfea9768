"""What kind of file some bytes are: by their beginning, and by the name only where that is all there is."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import PurePath

from ocria.errors import EncryptionUnsupportedError, InputError

PDF, IMAGE, COMIC = "pdf", "image", "cbz"
CONVERTED = ("epub", "xps", "mobi", "fb2", "svg", "txt", "html", "md", "docx", "pptx", "xlsx")

# Plain text has no beginning that tells it from rubbish.
_BY_NAME = {".txt": "txt", ".text": "txt", ".md": "md", ".markdown": "md", ".html": "html", ".htm": "html"}
_HTML_NAMES = ("", ".html", ".htm", ".xhtml", ".xht")
IMAGE_NAMES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".tif", ".tiff", ".bmp", ".jp2", ".avif")
_OFFICE = "Print it to a PDF, or run `soffice --headless --convert-to pdf FILE`"
_COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_UNSUPPORTED = (
    (_COMPOUND, "an office file of the old kind (doc, xls, ppt)", _OFFICE),
    (b"{\\rtf", "an RTF file", _OFFICE),
    (b"%!PS", "a PostScript file", "Make a PDF of it with `ps2pdf FILE`"),
    (b"AT&TFORM", "a DjVu file", "Make a PDF of it with `ddjvu -format=pdf FILE FILE.pdf`"),
    (b"\x1f\x8b", "a gzip archive", "Unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "Unpack it first"),
    (b"Rar!\x1a\x07", "a RAR archive", "Unpack it first"),
)
_OFFICE_PARTS = (("word/document.xml", "docx"), ("xl/workbook.xml", "xlsx"), ("ppt/presentation.xml", "pptx"))
# Books and slides with many pictures stay far below; what is more is made to fill the memory.
_MOST_UNPACKED = 1 << 30  # bytes
_MARKUP = re.compile(rb"<(?:\w+:)?(svg|FictionBook|html|!doctype html)\b", re.IGNORECASE)


def kind_of(path: str, content: bytes) -> str:
    """`pdf`, `image`, `cbz` or one of `CONVERTED`; what is not known counts as an image, whose reader looks closer.

    Raises:
        InputError: of a kind that cannot be read, or an archive that is corrupt or unpacks to too much.
        EncryptionUnsupportedError: an office file with a password.
    """
    if content.startswith(_COMPOUND) and "EncryptedPackage".encode("utf-16-le") in content:
        raise EncryptionUnsupportedError("an encrypted office file", path=path, cure="Save it without a password")
    for start, what, cure in _UNSUPPORTED:
        if content.startswith(start):
            raise InputError(f"{what} is not supported", path=path, cure=cure)
    if content.startswith(b"PK\x03\x04"):
        return _kind_of_archive(path, content)
    suffix = PurePath(path).suffix.lower()
    named = _BY_NAME.get(suffix)
    if named is not None and not content.startswith(b"%PDF"):
        return named
    if _looks_like_pdf(content):
        return PDF
    if content[60:68] == b"BOOKMOBI":
        return "mobi"
    head = content[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    markup = _MARKUP.search(head) if head.startswith(b"<") else None
    if markup is None:
        return IMAGE
    kind = {b"svg": "svg", b"fictionbook": "fb2"}.get(markup[1].lower(), "html")
    if kind == "html" and suffix not in _HTML_NAMES:
        # What a server answers instead of the document.
        raise InputError("a web page, whatever its name says", path=path, cure="Load it again, or name it .html")
    return kind


def _looks_like_pdf(content: bytes) -> bool:
    """Readers have always allowed rubbish before the header, and files with a damaged header exist: those are
    known by their end."""
    return b"%PDF" in content[:1024] or b"%%EOF" in content[-1024:]


def _kind_of_archive(path: str, content: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            sizes = {e.filename: e.file_size for e in archive.infolist() if not e.filename.endswith("/")}
            _refuse_absurd(path, max(sizes.values(), default=0))
            mimetype = archive.read("mimetype") if sizes.get("mimetype", 1000) < 1000 else b""
            kind = next((kind for part, kind in _OFFICE_PARTS if part in sizes), None)
            if kind == "xlsx" and _has_text_in_place(archive, sizes):
                raise InputError("a sheet that keeps texts in its cells is not supported", path=path, cure=_OFFICE)
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, zlib.error) as error:
        raise InputError(f"a corrupt or encrypted archive ({error})", path=path) from error
    if kind is None:
        kind = _kind_by_names(path, sizes, mimetype)
    if kind != COMIC:  # whose images are unpacked one by one
        _refuse_absurd(path, sum(sizes.values()))
    return kind


def _kind_by_names(path: str, names: Iterable[str], mimetype: bytes) -> str:
    if mimetype.startswith(b"application/epub+zip") or "META-INF/container.xml" in names:
        return "epub"
    if any(name.endswith(".fpage") for name in names):
        return "xps"
    if mimetype.startswith(b"application/vnd.oasis.opendocument"):
        raise InputError("an OpenDocument file is not supported", path=path, cure=_OFFICE)
    if any(name.lower().endswith(IMAGE_NAMES) for name in names):
        return COMIC
    raise InputError("an archive without pages", path=path, cure="Unpack it and give the documents in it")


def _has_text_in_place(archive: zipfile.ZipFile, names: Iterable[str]) -> bool:
    """MuPDF loses the texts that some programs write into the cells instead of the table of strings."""
    return any(b'"inlineStr"' in archive.read(name) for name in names if name.startswith("xl/worksheets/"))


def _refuse_absurd(path: str, size: int) -> None:
    if size > _MOST_UNPACKED:
        raise InputError("the archive unpacks to more than 1 GiB", path=path)
