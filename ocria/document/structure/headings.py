"""Levels of headings over a document."""

from __future__ import annotations

import re

from ocria.document.escape import heading
from ocria.document.result import Block, Document

_NUMBERED = re.compile(r"(\d{1,3}(?:\.\d{1,3})*)\.?\s+\S")
_DEEPEST = 6
# Sizes this near to each other are the same: what is measured on a scan varies.
_SAME_SIZE = 0.03
_SAME_SIZE_OF_LINES = 0.12


def level_headings(document: Document) -> None:
    """Give headings of one font size the same level all over the document; where their numbers tell that one is part
    of another, it is deeper. Levels that a page model gave stay."""
    headings = [block for block in document.blocks if block.type in ("title", "heading") and block.font_size]
    tolerance = _SAME_SIZE_OF_LINES if any(page.lines for page in document.pages) else _SAME_SIZE
    sizes = _classes([block.font_size for block in headings], tolerance)
    depths = {id(block): _depth(block) for block in headings}
    least: dict[int, int] = {}
    for block in headings:
        if depth := depths[id(block)]:
            size = sizes[block.font_size]
            least[size] = min(least.get(size, depth), depth)
    ranks = {}
    for block in headings:
        size = sizes[block.font_size]
        ranks[id(block)] = size, depths[id(block)] or least.get(size, 1)
    order = sorted(set(ranks.values()))
    for block in headings:
        level = min(order.index(ranks[id(block)]) + 1, _DEEPEST)
        block.level = level
        block.markdown = heading(block.markdown.lstrip("#"), level)


def _classes(sizes: list[float], tolerance: float) -> dict[float, int]:
    """Of each size the number of its class, from the largest."""
    classes: dict[float, int] = {}
    number, largest = -1, float("inf")
    for size in sorted(set(sizes), reverse=True):
        if size < largest * (1 - tolerance):
            number, largest = number + 1, size
        classes[size] = number
    return classes


def _depth(block: Block) -> int:
    match = _NUMBERED.match(block.text)
    return match[1].count(".") + 1 if match else 0
