"""List items as nested HTML lists."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ocria.document.result import Block, Page
from ocria.document.write.html_blocks import attributes
from ocria.document.write.inline import inline_html

_ITEM = re.compile(r"(?P<indent>[ \t]*)(?:(?P<bullet>[-*+•])|(?P<number>\d{1,9})[.)])(?:[ \t]+|$)")
_NESTED = 2
"""Columns by which an item must be indented to be part of the one above."""


@dataclass(slots=True)
class _List:
    indent: int
    tag: str
    number: int
    """That the next item of a numbered list would have by itself."""


def list_html(page: Page, blocks: list[Block]) -> str:
    """Items, and paragraphs that belong to the item before, as one or more lists. Depth and numbers are those of the
    items' Markdown."""
    parts: list[str] = []
    lists: list[_List] = []

    def close(until: int) -> None:
        while len(lists) > until:
            parts.append(f"</li>\n</{lists.pop().tag}>")

    for block in blocks:
        if block.type != "list-item":
            parts.append(f"\n<p{attributes(block)}>{inline_html(page, block, block.markdown)}</p>\n")
            continue
        match = _ITEM.match(block.markdown)
        indent = len(match["indent"].expandtabs(4)) if match else 0
        number = int(match["number"]) if match and match["number"] else None
        tag = "ul" if number is None else "ol"
        close(sum(level.indent + _NESTED <= indent for level in lists) + 1)
        current = lists[-1] if lists and lists[-1].indent + _NESTED > indent else None
        if current is not None and current.tag != tag:
            close(len(lists) - 1)
            current = None
        if current is None:
            start = f' start="{number}"' if number not in (None, 1) else ""
            parts.append(f"\n<{tag}{start}>\n" if lists else f"<{tag}{start}>\n")
            lists.append(_List(indent, tag, number or 0))
            current = lists[-1]
        else:
            parts.append("</li>\n")
        value = f' value="{number}"' if number is not None and number != current.number else ""
        current.number = (number or 0) + 1
        inner = inline_html(page, block, block.markdown[match.end() :] if match else block.markdown)
        parts.append(f"<li{value}{attributes(block)}>{inner}")
    close(0)
    return re.sub(r"\n{2,}", "\n", "".join(parts).replace("</ul><ul", "</ul>\n<ul"))
