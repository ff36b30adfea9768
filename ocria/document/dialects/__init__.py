"""The dialects in which page models answer, read into the blocks of a page."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ocria.document.dialects.frame import NORMALISED, Frame, Size
from ocria.document.dialects.loose_json import NO_JSON
from ocria.document.dialects.wrappers import unwrap
from ocria.document.result import Block

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff\ufffe\uffff]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page model said of a page."""

    blocks: list[Block]
    """In the order of the answer, with boxes in points of the page as the model saw it."""
    fault: str | None
    """Why the answer is not whole, for people, such as `the answer ends inside <table>`; None for a whole one. The
    blocks hold all that came before."""


def parse_answer(text: str, dialect: str, size: Size, extent: Size | None = NORMALISED) -> Answer:
    """Read an answer. Never raises for what a model may write: what is open is closed, what is no markup is text.

    Args:
        dialect: `markdown` (with HTML tables), `html` (with layout blocks or without), `json` or `text`.
        size: width and height of the page in points, turned as the model saw it.
        extent: what the far corner of the page is in the coordinates of the answer: `NORMALISED` for boxes from 0 to
            1000, width and height of the image for a model that answers in pixels. None where it is not known: all
            blocks take the whole page then.

    Raises:
        ValueError: an unknown dialect.
    """
    frame = Frame(size, extent)
    if dialect not in ("markdown", "html", "json", "text"):
        raise ValueError(f"no dialect is called {dialect!r}")
    text, unclosed = unwrap(_tidy(text), dialect)
    if dialect == "text":
        text = text.strip()
        return Answer([Block("page", frame.whole, text, text, 0)] if text else [], _fault(unclosed))
    if dialect == "html":
        from ocria.document.dialects.html import parse_html as parse
    elif dialect == "json":
        from ocria.document.dialects.json import parse_json as parse
    else:
        from ocria.document.dialects.markdown import parse_markdown as parse
    blocks, left_open = parse(text, frame)
    for block in blocks:
        block.text, block.markdown = _tidy(block.text), _tidy(block.markdown)
    blocks = [block for block in blocks if block.text.strip() or block.type == "picture"]  # marks alone are no block
    for order, block in enumerate(blocks):
        block.order = order
    return Answer(blocks, _fault(unclosed or left_open))


def _fault(unclosed: str | None) -> str | None:
    if unclosed == NO_JSON:
        return "the answer holds no JSON; it was read as Markdown"
    return unclosed and f"the answer ends inside {unclosed}"


def _tidy(text: str) -> str:
    """Line ends as newlines, without control characters; halves of characters become what stands for unknown ones."""
    if _SURROGATES.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
