"""Documents out: every form they are written in, and files that appear whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ocria.document.options import ParseOptions
from ocria.document.result import Block, Document, Page
from ocria.document.write.files import check_writable, is_device, write_atomically
from ocria.document.write.pictures import figure_files, figure_targets
from ocria.document.write.store import page_from_dict, page_to_dict

FORMATS = ("md", "html", "json", "jsonl", "text", "pdf")
EXTENSIONS = {"md": ".md", "html": ".html", "json": ".json", "jsonl": ".jsonl", "text": ".txt", "pdf": ".pdf"}

__all__ = [
    "EXTENSIONS", "FORMATS", "check_writable", "figure_files", "figure_targets", "is_device", "page_from_dict",
    "page_to_dict", "render", "write_atomically",
]  # fmt: skip


def render(
    document: Document,
    kind: str,
    *,
    options: ParseOptions | None = None,
    page_markers: bool = False,
    source: Path | bytes | None = None,
    picture_target: Callable[[Page, Block], str] | None = None,
) -> str | bytes:
    """A document in one of `FORMATS`: bytes for `pdf`, else text. Nothing is written.

    Args:
        options: those of the run: what becomes of figures, headers and footers, and the password; None takes the
            defaults.
        page_markers: in Markdown and text, mark where pages begin or end.
        source: for `pdf`, the file that was parsed or its bytes; None takes the document's path.
        picture_target: for figures that are extracted, the relative name of a figure's file; None takes
            `figure_targets` of the document's name.

    Raises:
        ValueError: an unknown format.
        InputError, EncryptedError: for `pdf`, the source cannot be opened, or is no longer the file that was parsed.
    """
    options = options or ParseOptions()
    if options.images == "extract" and picture_target is None:
        picture_target = figure_targets(document, Path(document.path).stem)
    if kind == "md":
        from ocria.document.write.markdown import to_markdown

        return to_markdown(document, page_markers, options, picture_target)
    if kind == "text":
        from ocria.document.write.text import to_text

        return to_text(document, page_markers, options)
    if kind == "html":
        from ocria.document.write.html import to_html

        return to_html(document, options, picture_target)
    if kind == "json":
        from ocria.document.write.json import to_json

        return to_json(document, options, picture_target)
    if kind == "jsonl":
        from ocria.document.write.jsonl import to_jsonl

        return to_jsonl(document, options, picture_target)
    if kind == "pdf":
        from ocria.document.write.pdf import to_pdf

        return to_pdf(document, source, options.password)
    raise ValueError(f"no format is called {kind!r}")
