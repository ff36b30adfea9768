"""JSON answers: a list of blocks with box, category and text, as Infinity-Parser2 writes them.

Source of the categories: infinity_parser2/prompts.py of the publisher. A table's text is HTML, a formula's LaTeX, that
of all others Markdown.
"""

from __future__ import annotations

import re
from typing import Any

from ocria.document.dialects.frame import Frame
from ocria.document.dialects.html import parse_html
from ocria.document.dialects.inline import display_formula
from ocria.document.dialects.loose_json import NO_JSON, read_json, restored
from ocria.document.dialects.markdown import inline_text, parse_markdown
from ocria.document.result import Block
from ocria.events import Box

_CATEGORIES = {
    "header": "header",
    "footer": "footer",
    "title": "heading",
    "figure": "picture",
    "table": "table",
    "formula": "formula",
    "figure_caption": "caption",
    "table_caption": "caption",
    "formula_caption": "caption",
    "figure_footnote": "footnote",
    "table_footnote": "footnote",
    "page_footnote": "footnote",
}
_KEYS = ("bbox", "category", "text")
_HASHES = re.compile(r"[ \t]*(#{1,6})[ \t]+")
_DEEPEST = 20


def parse_json(text: str, frame: Frame) -> tuple[list[Block], str | None]:
    """The blocks in the order of the answer, and what the answer ends in the middle of.

    An answer without any JSON in it is read as Markdown, and said to be what it is.
    """
    value, cut = read_json(text)
    if value is None:
        blocks, _ = parse_markdown(text, frame)
        return blocks, NO_JSON if blocks else None
    blocks = [block for item in _items(value) for block in _blocks(item, frame)]
    return blocks, cut


def _items(value: Any, depth: int = 0) -> list[dict[str, Any]]:
    """The objects that describe blocks, wherever the answer has them; bare texts among them are blocks too."""
    if depth > _DEEPEST:
        return []
    if isinstance(value, str):
        return [{"text": value}]
    if isinstance(value, list):
        return [item for inner in value for item in _items(inner, depth + 1)]
    if not isinstance(value, dict):
        return []
    nested = [inner for inner in value.values() if isinstance(inner, (list, dict))]
    if any(key in value for key in _KEYS) or not nested:
        return [value]
    return [item for inner in nested for item in _items(inner, depth + 1)]


def _blocks(item: dict[str, Any], frame: Frame) -> list[Block]:
    box = frame.box(item.get("bbox"))
    category = item.get("category")
    kind = _CATEGORIES.get(category.strip().lower(), "text") if isinstance(category, str) else "text"
    text = _text(item["text"] if "text" in item else _unnamed(item)).strip()
    if kind == "picture":
        return [Block("picture", box, inline_text(text), text, 0)]
    if not text:
        return []
    if kind == "formula":
        return [Block("formula", box, text, display_formula(text), 0)]
    if kind == "heading":
        return _heading(text, box)
    if kind == "table" or re.match(r"\s*<table\b", text, re.IGNORECASE):
        return _table(text, box, frame)
    if kind == "text":
        return parse_markdown(text, frame, box)[0]
    return [Block(kind, box, inline_text(text) or text, text, 0)]


def _unnamed(item: dict[str, Any]) -> list[str]:
    """What may be the text of a block where its key is misspelt."""
    return [value for key, value in item.items() if key not in _KEYS and isinstance(value, str)]


def _heading(text: str, box: Box) -> list[Block]:
    """A heading without a level in its Markdown is of the first."""
    hashes = _HASHES.match(text)
    level = len(hashes[1]) if hashes else 1
    words = " ".join(text[hashes.end() if hashes else 0 :].split())
    if not words:
        return []
    return [Block("heading", box, inline_text(words) or words, f"{'#' * level} {words}", 0, level=level)]


def _table(text: str, box: Box, frame: Frame) -> list[Block]:
    if "<" not in text:
        return parse_markdown(text, frame, box)[0]
    blocks, _ = parse_html(text, frame)
    for block in blocks:
        block.box = box
    return blocks


def _text(value: Any) -> str:
    """Models put lines into a list, or numbers where text should be."""
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None or isinstance(value, (dict, bool)) else _clean(restored(str(value)))


def _clean(text: str) -> str:
    return text.replace("\x00", "").replace("\r\n", "\n")
