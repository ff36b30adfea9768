"""Figures in outputs: the names of their files, how links and data URLs spell them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from urllib.parse import quote

from ocria.document.result import Block, Document, Page

Target = Callable[[Page, Block], str]
_EXTENSIONS = {"image/png": ".png", "image/jpeg": ".jpg"}


def figure_files(document: Document, stem: str) -> dict[str, bytes]:
    """The figures of a document by the relative names of their files, `STEM.images/p3-1.png` for the first one of
    page 3. Names are relative to the folder of the output whose name without its extension is `stem`."""
    target = figure_targets(document, stem)
    return {
        target(page, block): block.picture.data
        for page in document.pages
        for block in page.blocks
        if block.picture is not None
    }


def figure_targets(document: Document, stem: str) -> Target:
    """A function that gives the relative name of a figure's file, as in `figure_files`."""
    names: dict[int, str] = {}
    for page in document.pages:
        blocks = [block for block in page.blocks if block.picture is not None]
        for number, block in enumerate(blocks, 1):
            extension = _EXTENSIONS[block.picture.media_type]
            names[id(block)] = f"{stem}.images/p{page.index}-{number}{extension}"
    return lambda page, block: names[id(block)]


def picture_url(page: Page, block: Block, images: str, target: Target | None) -> str | None:
    """Where a figure's pixels are found: a data URL or a relative one; None where they are not wanted or not there."""
    if block.picture is None or images not in ("embed", "extract"):
        return None
    if images == "embed":
        return f"data:{block.picture.media_type};base64,{base64.b64encode(block.picture.data).decode('ascii')}"
    return file_url(target(page, block))


def file_url(name: str) -> str:
    """A relative URL of a file, safe in Markdown and HTML whatever the name holds."""
    return quote(name.encode("utf-8", "surrogateescape"), safe="/")


def readable_name(path: str) -> str:
    """The name of a file as its author wrote it, also under a locale that cannot spell it."""
    try:
        return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # halves of characters, which Windows allows in names
        return path


def alternative_text(page: Page, block: Block) -> str:
    """What stands for a figure where it cannot be seen: what a model said of it, which is one line; the words on a
    figure are many, and stand below it."""
    said = block.text.strip()
    return said if said and "\n" not in said else f"Figure on page {page.index}"


def words_below(block: Block) -> str:
    """The words on a figure, a line each, where they are not its alternative text."""
    said = block.text.strip()
    return said if "\n" in said else ""
