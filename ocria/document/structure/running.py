"""Running headers and footers: what stands at the edge of page after page, and page numbers.

Writers leave them out, so that there must be evidence: the same words in the same place on pages near each other, or
numbers that count the pages. A heading that begins chapter after chapter, and the only title of a document, are none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from statistics import median

from ocria.document.escape import escape_starts, heading
from ocria.document.result import Block, Document, Page
from ocria.document.structure.upright import upright_box, upright_size

_ZONE = 0.14
"""Of the height of a page, at its top and its foot."""
_MOST_CHARACTERS = 200
_SAME_PLACE = 0.015
_NEAR_PAGES = 2
"""Left and right pages may have headers of their own."""
_CHAIN = 2
_CHAIN_OF_HEADINGS = 3
_ALIKE = 0.8
"""Of the letters of two readings of the same words."""
_LARGE = 1.2
_RUNNING = ("header", "footer")
_TEXTS = ("title", "heading", "text", "list-item", "caption", "footnote", *_RUNNING)
_NUMBER = re.compile(r"\d+|\b[ivxlc]+\b", re.IGNORECASE)
_PAGE_NUMBER = re.compile(
    r"\W*(?:(?:page|p\.|pg\.|seite|s\.|página|pagina|стр\.)\s*|\w{1,3}[-–.])?#\W*(?:(?:/|of|von|de|sur|di|из)\s*#)?\W*",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Edge:
    """A block at the top or the foot of a page."""

    block: Block
    page: Page
    rank: int
    """Which of the pages that were read."""
    top: bool
    distance: float
    """From the edge of the page, as a share of its height."""
    gap: float
    """To the next block towards the middle, in heights of a line."""
    key: str
    numbers: list[int]


def type_running(document: Document) -> None:
    """Give running headers and footers their types, and take those from blocks that only look like one."""
    edges = [edge for rank, page in enumerate(document.pages) for edge in _edges(page, rank)]
    large = _LARGE * _usual_size(document)
    found: dict[int, _Edge] = {}
    for group in _groups(edges):
        for edge in _running(_one_a_page(group), large):
            found[id(edge.block)] = edge
    for edge in _page_numbers(edges):
        found[id(edge.block)] = edge
    for edge in found.values():
        _retype(edge.block, "header" if edge.top else "footer")
    _take_back(document, edges, found, large)


def _edges(page: Page, rank: int) -> Iterable[_Edge]:
    """The blocks with nothing but their like between them and the edge of the page."""
    whole = (0.0, 0.0, page.width, page.height)
    if page.height <= 0 or all(block.box == whole for block in page.blocks):
        return
    height = upright_size(page)[1]
    placed = sorted(((upright_box(page, b.box), b) for b in page.blocks if b.box != whole), key=lambda item: item[0][1])
    for top in (True, False):
        ordered = placed if top else sorted(placed, key=lambda item: -item[0][3])
        for at, (box, block) in enumerate(ordered):
            distance = (box[1] if top else height - box[3]) / height
            inner = (box[3] if top else height - box[1]) / height
            if block.type not in _TEXTS or inner > _ZONE or len(block.text) > _MOST_CHARACTERS:
                break
            line = block.font_size or (box[3] - box[1])
            beyond = [other[1] - box[3] if top else box[1] - other[3] for other, _ in ordered[at + 1 :]]
            gap = min((value for value in beyond if value > -0.5 * line), default=height) / max(line, 1.0)
            text = " ".join(block.text.casefold().split())
            numbers = [_value(match[0]) for match in _NUMBER.finditer(text)]
            yield _Edge(block, page, rank, top, distance, gap, _NUMBER.sub("#", text), numbers)


def _groups(edges: Sequence[_Edge]) -> list[list[_Edge]]:
    """Edges that say the same in the same place, but for numbers, on pages near one another."""
    groups: list[list[_Edge]] = []
    recent: list[list[_Edge]] = []
    for edge in edges:
        recent = [group for group in recent if edge.rank - group[-1].rank <= _NEAR_PAGES]
        for group in recent:
            last = group[-1]
            if last.top == edge.top and abs(last.distance - edge.distance) <= _SAME_PLACE and _alike(last, edge):
                group.append(edge)
                break
        else:
            groups.append([edge])
            recent.append(groups[-1])
    return groups


def _alike(one: _Edge, other: _Edge) -> bool:
    if one.key == other.key:
        return True
    if not (one.page.lines and other.page.lines) or min(len(one.key), len(other.key)) < 6:
        return False
    return SequenceMatcher(None, one.key, other.key, autojunk=False).ratio() >= _ALIKE


def _one_a_page(group: list[_Edge]) -> list[_Edge]:
    return [edge for at, edge in enumerate(group) if at == 0 or edge.rank != group[at - 1].rank]


def _running(chain: list[_Edge], large: float) -> list[_Edge]:
    """Those of a chain that are running headers or footers."""
    chain = _that_count(chain)
    labelled = any(edge.block.type in _RUNNING for edge in chain)
    headings = not labelled and any(
        edge.block.type in ("title", "heading") or (edge.block.font_size or 0.0) > large for edge in chain
    )
    if len(chain) < (_CHAIN_OF_HEADINGS if headings else _CHAIN):
        return []
    if not labelled and not chain[0].numbers and median(edge.gap for edge in chain) < 0.6:
        # Right above the text it belongs to it, such as the names of columns.
        return []
    return chain[1:] if headings else chain


def _that_count(chain: list[_Edge]) -> list[_Edge]:
    """Those whose numbers are the same, or count as the pages do."""
    if not any(edge.numbers for edge in chain):
        return chain
    width = Counter(len(edge.numbers) for edge in chain).most_common(1)[0][0]
    # A letter that was misread as a digit is no number.
    misread = [edge for edge in chain if len(edge.numbers) != width and edge.page.lines]
    kept = [edge for edge in chain if len(edge.numbers) == width]
    for slot in range(width):
        steady = Counter(edge.numbers[slot] for edge in kept).most_common(1)
        counting = Counter(edge.numbers[slot] - edge.page.index for edge in kept).most_common(1)
        if steady and steady[0][1] >= counting[0][1]:
            kept = [edge for edge in kept if edge.numbers[slot] == steady[0][0]]
        elif counting:
            kept = [edge for edge in kept if edge.numbers[slot] - edge.page.index == counting[0][0]]
    return sorted([*kept, *misread], key=lambda edge: edge.rank)


def _page_numbers(edges: Sequence[_Edge]) -> list[_Edge]:
    """Numbers of pages, wherever at the edge they stand: the difference to the count of the pages is the same."""
    numbers = [edge for edge in edges if edge.numbers and _PAGE_NUMBER.fullmatch(edge.key)]
    shifts = Counter(edge.numbers[0] - edge.page.index for edge in numbers)
    told = {shift for shift, count in shifts.items() if count >= 2}
    return [edge for edge in numbers if edge.numbers[0] - edge.page.index in told]


def _take_back(document: Document, edges: Sequence[_Edge], found: dict[int, _Edge], large: float) -> None:
    """Blocks that the layout analysis took for headers or footers with nothing else to say so are text."""
    by_block = {id(edge.block): edge for edge in edges}
    only_part = len(document.pages) == 1 < document.page_count
    for page in document.pages:
        if (page.route == "model" and not page.lines) or only_part:
            # A page model reads what a block is; of one page out of many there is no more evidence.
            continue
        for block in page.blocks:
            edge = by_block.get(id(block))
            if block.type not in _RUNNING or id(block) in found:
                continue
            if edge is not None and (_PAGE_NUMBER.fullmatch(edge.key) or _has_company(edge, edges)):
                continue
            if (block.font_size or 0.0) > large and len(block.text.split()) <= 25:
                block.type, block.level, block.markdown = "heading", 1, heading(block.markdown, 1)
            else:
                block.type = "text"


def _has_company(edge: _Edge, edges: Sequence[_Edge]) -> bool:
    """Whether a page nearby has another header or footer at the same height."""
    return any(
        other.rank != edge.rank
        and abs(other.rank - edge.rank) <= _NEAR_PAGES
        and other.top == edge.top
        and other.block.type in _RUNNING
        and abs(other.distance - edge.distance) <= _SAME_PLACE / 3
        for other in edges
    )


def _retype(block: Block, kind: str) -> None:
    if block.type in ("title", "heading"):
        block.markdown = escape_starts(block.markdown.lstrip("#").strip())
    block.type, block.level = kind, None


def _usual_size(document: Document) -> float:
    sizes = [block.font_size for block in document.blocks if block.type == "text" and block.font_size]
    return median(sizes) if sizes else float("inf")


def _value(text: str) -> int:
    if text.isdecimal():
        return int(text[:9])
    values = [{"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}[letter] for letter in text]
    return sum(-v if v < max(values[at:], default=0) else v for at, v in enumerate(values))
