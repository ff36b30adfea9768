"""Tables of an HTML tree: their cells with spans, and HTML that is whole and holds nothing but a table."""

from __future__ import annotations

import re
from html import escape

from ocria.document.clean import clean_text
from ocria.document.dialects.inline import plain_text
from ocria.document.dialects.tree import Node
from ocria.document.result import Cell

_MOST_COLUMNS = 1000
"""Of one cell. Source: the HTML standard's limit of colspan."""
_KEPT = frozenset({
    "b", "code", "del", "em", "i", "ins", "li", "ol", "p", "s", "small", "strong", "sub", "sup", "table", "tbody", "td",
    "tfoot", "th", "thead", "tr", "u", "ul",
})  # fmt: skip


def table_cells(table: Node) -> list[Cell]:
    """The cells in reading order. Columns that a cell of a row above reaches into are skipped, as browsers do."""
    rows = _rows(table)
    cells: list[Cell] = []
    busy: dict[int, int] = {}
    for row, (nodes, in_head) in enumerate(rows):
        column = 0
        for node in nodes:
            while busy.get(column, 0) > row:
                column += 1
            wide = min(_span(node, "colspan"), _MOST_COLUMNS)
            high = min(_span(node, "rowspan"), len(rows) - row)
            header = in_head or node.tag == "th"
            cells.append(Cell(row, column, high, wide, clean_text(plain_text(node)).strip(), header))
            for reached in range(column, column + wide):
                busy[reached] = row + high
            column += wide
    return cells


def table_html(table: Node) -> str:
    """The table as HTML with all ends and without attributes but spans; its caption is left out."""
    rows = _rows(table)
    parts = ["<table>"]
    for nodes, in_head in rows:
        parts.append("<tr>")
        for node in nodes:
            tag = "th" if in_head or node.tag == "th" else "td"
            spans = "".join(
                f' {name}="{_span(node, name)}"' for name in ("colspan", "rowspan") if _span(node, name) > 1
            )
            inner = "".join(map(_html, node.children))
            parts.append(f"<{tag}{spans}>{' '.join(clean_text(inner).split())}</{tag}>")
        parts.append("</tr>\n")
    return "".join(parts).replace("<table><tr>", "<table>\n<tr>") + "</table>"


def stray_nodes(table: Node) -> list[Node | str]:
    """What stands in the table but in no cell, such as its caption, in order."""
    found: list[Node | str] = []
    for child in table.children:
        if isinstance(child, str):
            if child.strip():
                found.append(child)
        elif child.tag in ("thead", "tbody", "tfoot", "tr", "colgroup"):
            found += stray_nodes(child)
        elif child.tag not in ("td", "th", "col"):
            found.append(child)
    return found


def _rows(node: Node, in_head: bool = False) -> list[tuple[list[Node], bool]]:
    """The cells of each row, and whether it is one of the head."""
    rows: list[tuple[list[Node], bool]] = []
    loose: list[Node] | None = None
    for child in node.elements():
        if child.tag in ("td", "th"):
            # Cells without a row make one.
            if loose is None:
                loose = []
                rows.append((loose, in_head))
            loose.append(child)
            continue
        loose = None
        if child.tag == "tr":
            rows.append(([cell for cell in child.elements() if cell.tag in ("td", "th")], in_head))
        elif child.tag in ("thead", "tbody", "tfoot"):
            rows += _rows(child, child.tag == "thead")
    return [row for row in rows if row[0]]


def _span(node: Node, name: str) -> int:
    digits = re.match(r"\s*([0-9]{1,9})", node.attributes.get(name, ""))
    return max(1, int(digits[1])) if digits else 1


def _html(node: Node | str) -> str:
    if isinstance(node, str):
        return escape(node, quote=False)
    if node.tag == "br":
        return "<br>"
    if node.tag in ("math", "img", "input"):
        return escape(plain_text(node), quote=False)
    inner = "".join(map(_html, node.children))
    if node.tag not in _KEPT:
        return f" {inner} " if node.blocky or node.tag == "div" else inner
    return f"<{node.tag}>{inner}</{node.tag}>"
