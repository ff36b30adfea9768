"""A document as HTML: complete, readable in any browser, without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from ocria import __version__
from ocria.document.options import ParseOptions
from ocria.document.result import Document, Page
from ocria.document.write.choose import loss_of, loss_of_all, shown_blocks
from ocria.document.write.html_blocks import block_html, captioned
from ocria.document.write.html_lists import list_html
from ocria.document.write.pictures import Target, readable_name

_DEFAULTS = ParseOptions()


def to_html(document: Document, options: ParseOptions = _DEFAULTS, picture_target: Target | None = None) -> str:
    """The whole document: a section a page, which tells its number and status, elements by the types of blocks. No
    markup of the document itself gets through."""
    style = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    head = [
        "<!DOCTYPE html>",
        "<html>",
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta name="generator" content="ocria {__version__}">',
        f"<title>{escape(_title(document))}</title>",
        f"<style>\n{style}</style>",
        "</head>",
        "<body>",
        "<main>",
    ]
    lost = loss_of_all(document)
    body = [_loss(lost)] if lost else []
    body += [page_html(page, options, picture_target) for page in document.pages]
    return "\n".join([*head, *body, "</main>", "</body>", "</html>"]) + "\n"


def page_html(page: Page, options: ParseOptions = _DEFAULTS, picture_target: Target | None = None) -> str:
    """One page as a section."""
    loss = loss_of(page)
    parts = [
        f'<section id="page-{page.index}" aria-label="Page {page.index}" data-page="{page.index}" '
        f'data-status="{escape(page.status)}">'
    ]
    if loss:
        parts.append(_loss(loss))
    parts += _blocks(page, options, picture_target)
    return "\n".join([*parts, "</section>"])


def _blocks(page: Page, options: ParseOptions, target: Target | None) -> Iterator[str]:
    """The elements of a page: blocks of one list make one element, and so does a figure or table with its caption."""
    for group in captioned(shown_blocks(page, options.keep_headers_footers)):
        if group[0].type == "list-item":
            yield list_html(page, group)
        else:
            html = block_html(page, group, options.images, target)
            if html:
                yield html


def _loss(text: str) -> str:
    return f'<p class="loss" role="note">{escape(text[:1].upper() + text[1:])}</p>'


def _title(document: Document) -> str:
    """That of the document where it has one, else the name of its file."""
    for kinds in (("title",), ("heading",)):
        for block in document.blocks:
            if block.type in kinds and block.text.strip():
                return " ".join(block.text.split())
    return readable_name(Path(document.path).name)
