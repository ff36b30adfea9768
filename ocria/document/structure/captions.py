"""Captions: text that names a figure or a table beside it."""

from __future__ import annotations

import re

from ocria.document.escape import escape_starts
from ocria.document.result import Block, Document, Page
from ocria.document.structure.upright import upright_box

_NAMES = (
    "fig", "figs", "figure", "figures", "table", "tab", "tabelle", "tableau", "tabla", "tabella", "abb", "abbildung",
    "figura", "chart", "plate", "scheme", "exhibit", "listing", "algorithm", "рис", "рисунок", "таблица", "табл",
)  # fmt: skip
_CAPTION = re.compile(
    rf"(?:(?:{'|'.join(_NAMES)})\b\.?\s*|[图表図])(?:[A-Z]{{1,2}}[-.]?)?(?:\d+(?:[.-]\d+)*[a-z]?|[IVX]+)\s*(?:[.:—–|]|$)",
    re.IGNORECASE,
)
_NEAR = 3.0
"""Lines between a caption and what it names."""


def type_captions(document: Document) -> None:
    """Give captions that the layout analysis or a model took for text or a heading their type."""
    for page in document.pages:
        for at, block in enumerate(page.blocks):
            if block.type in ("text", "heading") and _CAPTION.match(block.text) and _names_something(page, at):
                if block.type == "heading":
                    block.markdown = escape_starts(block.markdown.lstrip("#").strip())
                block.type, block.level = "caption", None


def _names_something(page: Page, at: int) -> bool:
    """Whether a figure or a table comes right before or after, or stands near."""
    blocks = page.blocks
    if any(other.type in ("picture", "table") for other in blocks[max(0, at - 1) : at] + blocks[at + 1 : at + 2]):
        return True
    return any(other.type in ("picture", "table") and _is_near(page, blocks[at], other) for other in blocks)


def _is_near(page: Page, caption: Block, other: Block) -> bool:
    whole = (0.0, 0.0, page.width, page.height)
    if whole in (caption.box, other.box):
        return False
    one, two = upright_box(page, caption.box), upright_box(page, other.box)
    line = caption.font_size or 12.0
    apart = max(one[1] - two[3], two[1] - one[3])
    return apart <= _NEAR * line and min(one[2], two[2]) > max(one[0], two[0])
