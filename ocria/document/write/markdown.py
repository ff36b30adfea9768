"""A document as Markdown."""

from __future__ import annotations

import re

from ocria.document.escape import paragraph
from ocria.document.options import ParseOptions
from ocria.document.result import Block, Document, Page
from ocria.document.write.choose import loss_of, loss_of_all, shown_blocks
from ocria.document.write.pictures import Target, alternative_text, picture_url, words_below

_DEFAULTS = ParseOptions()
# What may end a description or mean something in it.
_SPECIAL = re.compile(r"[\\`*_\[\]<>&~!$|]")


def to_markdown(
    document: Document,
    page_markers: bool = False,
    options: ParseOptions = _DEFAULTS,
    picture_target: Target | None = None,
) -> str:
    """All pages in order. `page_markers` puts a comment with number and status before each page. A page that did not
    come out whole has a comment behind it in any case."""
    parts: list[tuple[str, str]] = []
    if lost := loss_of_all(document):
        parts.append(("", _comment(lost)))
    for page in document.pages:
        if page_markers:
            parts.append(("", f"<!-- page {page.index} {page.status} -->"))
        parts += _parts(page, options, picture_target)
        if loss := loss_of(page):
            parts.append(("", _comment(loss)))
    text = joined(parts)
    return text + "\n" if text else ""


def page_markdown(page: Page, options: ParseOptions = _DEFAULTS, picture_target: Target | None = None) -> str:
    """The blocks of one page."""
    return joined(_parts(page, options, picture_target))


def joined(parts: list[tuple[str, str]]) -> str:
    """Types and Markdown of blocks in order; items of one list stand on following lines, other blocks apart."""
    text = ""
    before = ""
    for kind, markdown in parts:
        if text:
            text += "\n" if kind == before == "list-item" else "\n\n"
        text += markdown
        before = kind
    return text


def _parts(page: Page, options: ParseOptions, target: Target | None) -> list[tuple[str, str]]:
    parts = []
    for block in shown_blocks(page, options.keep_headers_footers):
        markdown = _picture(page, block, options.images, target) if block.type == "picture" else block.markdown
        if markdown.strip():
            parts.append((block.type, markdown))
    return parts


def _picture(page: Page, block: Block, images: str, target: Target | None) -> str:
    """The words on a figure, or what a model said of it, stay whatever becomes of the pixels."""
    if images == "none":
        return paragraph(block.text)
    url = picture_url(page, block, images, target)
    if url is None:
        box = " ".join(f"{value:g}" for value in block.box)
        shown, words = f"<!-- picture: page {page.index}, box {box} -->", block.text.strip()
    else:
        alternative = _SPECIAL.sub(r"\\\g<0>", " ".join(alternative_text(page, block).split()))
        shown, words = f"![{alternative}]({url})", words_below(block)
    return f"{shown}\n\n{paragraph(words)}" if words else shown


def _comment(text: str) -> str:
    """A comment that the text cannot end."""
    text = " ".join(text.split())
    return f"<!-- {re.sub('-(?=-)|-$', '- ', text).replace('>', '›').strip()} -->"
