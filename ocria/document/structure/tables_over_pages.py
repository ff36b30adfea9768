"""Tables that go on over pages, as one table with every drawn row once.

The whole table stands on its first page. On the others an empty block keeps the place and tells where its rows are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ocria.document.result import Block, Cell, Document, Page
from ocria.document.structure.upright import upright_box, upright_size
from ocria.document.table import cells_rows, cells_text

# What may stand between the parts of a table: nothing of this is part of the text.
_AROUND = ("header", "footer", "footnote")
_GOES_ON = re.compile(
    r"\W*(?:table|tab\.|tabelle|tableau|tabla)?[\s\d.]*\W*(?:continued|cont(?:'d|d|\.)|fortsetzung|suite)(?!\w)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\W*[\d.,:/ ]*\d[\d.,:/ ]*\W*\w{0,3}\W*")
_SAME_WIDTH = 0.08
# A table that goes on ends low on its page and begins high on the next one.
_LOW, _HIGH = 0.5, 0.4


def merge_tables(document: Document) -> None:
    """Merge every table that ends a page with the one that begins the next page, where their columns agree."""
    whole: dict[int, tuple[Page, Block]] = {}
    for page, following in zip(document.pages, document.pages[1:], strict=False):
        if following.index != page.index + 1:
            continue
        last, first = _last_table(page), _first_table(following)
        if last is None or first is None:
            continue
        home, body = whole.get(id(last), (page, last))
        dropped = _repeated_rows(body, first)
        if dropped is None or not _fit(page, last, following, first):
            continue
        _append(home, body, following, first, dropped)
        whole[id(first)] = home, body


def _last_table(page: Page) -> Block | None:
    blocks = [block for block in page.blocks if block.type not in _AROUND]
    return blocks[-1] if blocks and _is_table(blocks[-1]) else None


def _first_table(page: Page) -> Block | None:
    blocks = [block for block in page.blocks if block.type not in _AROUND and not _says_it_goes_on(block)]
    return blocks[0] if blocks and _is_table(blocks[0]) and blocks[0].cells else None


def _says_it_goes_on(block: Block) -> bool:
    return block.type in ("caption", "text", "heading") and len(block.text) < 120 and bool(_GOES_ON.match(block.text))


def _is_table(block: Block) -> bool:
    return block.type == "table" and (bool(block.cells) or block.continues is not None)


def _fit(page: Page, last: Block, following: Page, first: Block) -> bool:
    """Whether the places of two tables are those of parts of one."""
    if _whole(page) in (last.box,) or _whole(following) in (first.box,):
        return True
    one, two = upright_box(page, last.box), upright_box(following, first.box)
    wide = max(one[2] - one[0], two[2] - two[0])
    same = abs((one[2] - one[0]) - (two[2] - two[0])) <= _SAME_WIDTH * wide
    low = one[3] >= _LOW * upright_size(page)[1]
    return same and low and two[1] <= _HIGH * upright_size(following)[1]


def _whole(page: Page) -> tuple[float, float, float, float]:
    return 0.0, 0.0, page.width, page.height


def _repeated_rows(body: Block, first: Block) -> int | None:
    """How many rows at the top of the second table repeat the head of the first; None where they are two tables."""
    rows, more = cells_rows(body.cells), cells_rows(first.cells)
    if len(rows[0]) != len(more[0]):
        return None
    head, other = _head(body.cells), _head(first.cells)
    if head and more[:head] == rows[:head] and len(more) > head:
        return head
    if other:
        return None
    same = more[0] == rows[0] and len(more) > 1
    words = [text for text in rows[0] if text]
    # Without any mark of a head, only a row of words that comes just once is one.
    if same and words and not any(map(_NUMBER.fullmatch, words)) and rows.count(rows[0]) == more.count(rows[0]) == 1:
        return 1
    return 0


def _head(cells: list[Cell]) -> int:
    """How many rows at the top hold headers only."""
    height = max(cell.row + cell.row_span for cell in cells)
    for row in range(height):
        if not all(cell.header for cell in cells if cell.row <= row < cell.row + cell.row_span):
            return row
    return 0 if height == 1 else height


def _append(home: Page, body: Block, page: Page, part: Block, dropped: int) -> None:
    """Move the rows of a part to the table that they go on from."""
    before = len(cells_rows(body.cells))
    count = len(cells_rows(part.cells)) - dropped
    if body.row_pages is None:
        body.row_pages = [home.index] * before
    body.cells = [*body.cells, *_shifted(part.cells, before - dropped, dropped)]
    body.row_pages = [*body.row_pages, *[page.index] * count]
    body.text = cells_text(body.cells)
    part.continues, part.cells, part.text, part.markdown = home.index, [], "", ""


def _shifted(cells: list[Cell], by: int, dropped: int) -> Iterator[Cell]:
    for cell in cells:
        if cell.row >= dropped:
            yield replace(cell, row=cell.row + by)
