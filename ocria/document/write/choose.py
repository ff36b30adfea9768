"""What of a page is written."""

from __future__ import annotations

from ocria.document.result import BLANK, OK, Block, Document, Page

RUNNING = ("header", "footer")


def shown_blocks(page: Page, keep_headers_footers: bool) -> list[Block]:
    """The blocks of a page in reading order, running headers and footers only on request. What is all that a page has
    is more than a running header."""
    body = [block for block in page.blocks if block.type not in RUNNING]
    return page.blocks if keep_headers_footers or not any(_says_something(block) for block in body) else body


def loss_of(page: Page) -> str | None:
    """What a reader must know of a page that did not come out whole, in a sentence; None of others."""
    if page.status in (OK, BLANK):
        return None
    what = "is incomplete" if page.blocks else "is missing"
    return f"page {page.index} {what} ({page.status}): {page.error or 'no reason is known'}"


def loss_of_all(document: Document) -> str | None:
    """What a reader must know of a document that could not be read at all; None of others."""
    return None if document.error is None else f"the document could not be read: {document.error.message}"


def _says_something(block: Block) -> bool:
    # A part of a table that is told on an earlier page is what its own page has to say.
    return bool(block.text.strip()) or block.type == "picture" or block.continues is not None
