"""HTML answers: layout blocks with boxes, as chandra-ocr-2 writes them, and HTML inside Markdown and JSON.

Source of the labels: chandra/prompts.py of the publisher, and the prompt of its second version.
"""

from __future__ import annotations

import re

from ocria.document.clean import clean_text
from ocria.document.dialects.frame import Frame
from ocria.document.dialects.inline import (
    Escape,
    display_formula,
    escape_text,
    formula_of,
    inline_markdown,
    is_picture,
    plain_text,
    raw_text,
)
from ocria.document.dialects.table import stray_nodes, table_cells, table_html
from ocria.document.dialects.tree import BLOCKS, HEADINGS, Node, parse_tree
from ocria.document.escape import escape_starts
from ocria.document.result import Block
from ocria.document.table import cells_text
from ocria.events import Box

# Labels that are not here, such as Complex-Block, Form or Bibliography, are told by what they hold.
_LABELS = {
    "caption": "caption",
    "footnote": "footnote",
    "equation-block": "formula",
    "page-header": "header",
    "page-footer": "footer",
    "image": "picture",
    "figure": "picture",
    "diagram": "picture",
    "section-header": "heading",
    "code-block": "code",
}
# Elements that say what they hold, also where they stand in no layout block.
_TAGS = {"header": "header", "footer": "footer", "page_number": "footer", "figcaption": "caption", "caption": "caption"}
# Kinds whose content is one block, whatever it is made of.
_WHOLE = frozenset({"caption", "footnote", "header", "footer", "heading"})


def parse_html(text: str, frame: Frame) -> tuple[list[Block], str | None]:
    """The blocks in the order of the answer, and what the answer ends in the middle of."""
    root, unclosed = parse_tree(text)
    return blocks_of(root.children, frame.whole, frame), unclosed


def blocks_of(nodes: list[Node | str], box: Box, frame: Frame, escape: Escape = escape_text) -> list[Block]:
    """The blocks of some nodes; `box` is theirs where no layout block among them has its own. `escape`: what makes
    their text Markdown."""
    flow = _Flow(frame, escape)
    flow.read(nodes, box, "text")
    return flow.blocks


class _Flow:
    def __init__(self, frame: Frame, escape: Escape):
        self.frame, self.escape = frame, escape
        self.blocks: list[Block] = []

    def read(self, nodes: list[Node | str], box: Box, kind: str, indent: str = "") -> None:
        """Add the blocks of nodes that follow one another; `indent` is that of a list in them."""
        run: list[Node | str] = []
        for node in nodes:
            if isinstance(node, str) or not self._is_block(node):
                run.append(node)
                continue
            self._run(run, box, kind)
            run = []
            self._block(node, box, kind, indent)
        self._run(run, box, kind)

    @staticmethod
    def _is_block(node: Node) -> bool:
        return node.tag in BLOCKS or node.blocky or (node.tag == "math" and node.attributes.get("display") == "block")

    def _block(self, node: Node, box: Box, kind: str, indent: str) -> None:
        if "data-bbox" in node.attributes and node.tag == "div":
            self._layout(node)
        elif node.tag in HEADINGS:
            self._add("heading" if kind == "text" else kind, box, [node], level=int(node.tag[1]))
        elif node.tag == "table":
            self._table(node, box, kind, indent)
        elif node.tag in ("ul", "ol"):
            self._list(node, box, kind, indent)
        elif node.tag == "pre":
            self._code(node, box)
        elif node.tag == "math":
            self._formula(node, box)
        elif kind == "formula" and node.tag == "p":
            self._run(node.children, box, kind)
        else:
            self.read(node.children, box, "picture" if node.tag == "figure" else _TAGS.get(node.tag, kind), indent)

    def _layout(self, node: Node) -> None:
        box = self.frame.box([_number(part) for part in re.findall(r"[^\s,\[\]]+", node.attributes["data-bbox"])])
        kind = _LABELS.get(node.attributes.get("data-label", "").strip().lower(), "text")
        if kind in _WHOLE:
            level = next((int(n.tag[1]) for n in node.elements() if n.tag in HEADINGS), None)
            self._add(kind, box, node.children, level=level if kind == "heading" else None)
        elif kind == "code" and not any(child.tag == "pre" for child in node.elements()):
            self._code(node, box)
        else:
            before = len(self.blocks)
            self.read(node.children, box, kind)
            if kind == "picture" and len(self.blocks) == before:
                self.blocks.append(Block("picture", box, "", "", 0))

    def _run(self, nodes: list[Node | str], box: Box, kind: str) -> None:
        """Running text, or pictures or a formula that stand alone."""
        shown = [node for node in nodes if not isinstance(node, str) or node.strip()]
        if not shown:
            return
        if kind == "text" and all(map(is_picture, shown)):
            for node in shown:
                self._add("picture", box, [node])
        elif kind == "formula" and len(shown) == 1 and isinstance(shown[0], Node) and shown[0].tag == "math":
            self._formula(shown[0], box)
        elif kind == "formula" and all(isinstance(node, str) for node in shown):
            latex = "".join(shown).strip()
            self.blocks.append(Block("formula", box, latex, display_formula(latex), 0))
        else:
            self._add("text" if kind in ("formula", "code") else kind, box, nodes)

    def _add(self, kind: str, box: Box, nodes: list[Node | str], level: int | None = None) -> None:
        text = clean_text(plain_text(*nodes)).strip()
        markdown = clean_text(inline_markdown(*nodes, escape=self.escape)).strip()
        if self.escape is escape_text and kind != "heading":
            markdown = escape_starts(markdown)
        if kind == "heading":
            level = level or 2
            text, markdown = " ".join(text.split()), f"{'#' * level} {markdown.replace(chr(92) + chr(10), ' ')}"
        if text or kind == "picture":
            self.blocks.append(Block(kind, box, text, markdown, 0, level=level if kind == "heading" else None))

    def _table(self, node: Node, box: Box, kind: str, indent: str) -> None:
        self.read(stray_nodes(node), box, kind, indent)
        cells = table_cells(node)
        if any(cell.text for cell in cells):
            self.blocks.append(Block("table", box, cells_text(cells), table_html(node), 0, cells=cells))

    def _list(self, node: Node, box: Box, kind: str, indent: str) -> None:
        start = re.match(r"\s*(\d{1,9})", node.attributes.get("start", ""), re.ASCII)
        number = int(start[1]) if start else 1
        for child in node.children:
            if isinstance(child, str) or child.tag != "li":
                self.read([child], box, kind, indent)
                continue
            mark = f"{number}." if node.tag == "ol" else "-"
            number += 1
            before = len(self.blocks)
            hang = " " * (len(mark) + 1)
            self.read(child.children, box, "text", indent + hang)
            for place, block in enumerate(self.blocks[before:]):
                if block.type == "list-item":
                    continue
                if place == 0 and block.type == "text":
                    block.type = "list-item"
                    block.markdown = _indented(f"{mark} {block.markdown}", indent, indent + hang)
                else:
                    block.markdown = _indented(block.markdown, indent + hang, indent + hang)

    def _code(self, node: Node, box: Box) -> None:
        lines = clean_text(raw_text(node)).strip("\n").rstrip().splitlines()
        if any(line.strip() for line in lines):
            text = "\n".join(lines)
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
            self.blocks.append(Block("code", box, text, f"{fence}\n{text}\n{fence}", 0))

    def _formula(self, node: Node, box: Box) -> None:
        latex = clean_text(formula_of(node))
        if latex:
            self.blocks.append(Block("formula", box, latex, display_formula(latex), 0))


def _indented(markdown: str, first: str, others: str) -> str:
    lines = markdown.split("\n")
    return "\n".join([first + lines[0], *(others + line if line else line for line in lines[1:])])


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
