"""Markdown answers with tables in HTML, as OCRia-1, LightOnOCR-3 and OvisOCR2 write them.

Each block keeps the Markdown that the model wrote. Formulas and HTML are cut out first, line by line: to a Markdown
parser the lines of a formula may be a list or a heading, and HTML ends at an empty line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from ocria.document.clean import clean_text
from ocria.document.dialects.frame import Frame
from ocria.document.dialects.html import blocks_of
from ocria.document.dialects.inline import plain_text
from ocria.document.dialects.tree import BLOCKS, cut_tag, parse_tree
from ocria.document.result import Block, Cell
from ocria.document.table import cells_text
from ocria.events import Box

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})([^`]*)$")
# Elements that are read as HTML; others in running text are left to Markdown.
_HTML = (
    "table", "figure", "figcaption", "div", "ul", "ol", "pre", "header", "footer", "page_number", "center", "h[1-6]",
    "p",
)  # fmt: skip
_OPEN = re.compile(rf"<({'|'.join(_HTML)})(?=[\s>/])[^<>]*>", re.IGNORECASE)
# Wrappers whose content is Markdown, such as <div align="center">; those with a box are layout.
_WRAPPER = re.compile(r"</?(?:div|center|p)(?=[\s>/])(?![^<>]*data-bbox)[^<>]*>", re.IGNORECASE)
_FORMULAS = (("$$", "$$"), ("\\[", "\\]"))
_FOOTNOTE = re.compile(r"\[\^[^\]\s]{1,32}\]:[ \t]*")
_IMAGE = re.compile(r"!\[((?:\\.|[^\[\]\\])*)\]\([^()\s]*(?:[ \t]+\"[^\"]*\")?\)|<img\b[^<>]*>", re.IGNORECASE)
_QUOTE = re.compile(r"^[ \t]*>[ \t]?", re.MULTILINE)
_INLINE_FORMULA = re.compile(
    r"\$\$[^$]+\$\$|\$(?!\s)[^$\n]{1,500}(?<![\s\\])\$(?!\d)|\\\(.{1,2000}?\\\)|\\\[.{1,2000}?\\\]", re.DOTALL
)
_DEEPEST_LIST = 60


def parse_markdown(text: str, frame: Frame, box: Box | None = None) -> tuple[list[Block], str | None]:
    """The blocks in the order of the answer, and what the answer ends in the middle of.

    `box`: where all of it stands; the whole page where that is not told, for Markdown has no boxes.
    """
    box = frame.whole if box is None else box
    blocks: list[Block] = []
    unclosed = None
    for kind, part, whole in _parts(text):
        if not whole:
            unclosed = {"code": "a code block", "formula": "a formula"}.get(kind, "a tag")
        if kind == "code":
            blocks += _code(part, box)
        elif kind == "formula":
            latex = part.strip()
            blocks.append(Block("formula", box, latex, latex, 0))
        elif kind == "html":
            root, left_open = parse_tree(part)
            unclosed = unclosed or left_open
            blocks += blocks_of(root.children, box, frame, escape=str)
        else:
            blocks += _prose(part, box)
    return blocks, unclosed


def inline_text(markdown: str) -> str:
    """Running Markdown without its marks; formulas verbatim, a line each for line breaks."""
    return clean_text(_plain(_parser().parseInline(markdown)[0].children or [])).strip()


def _parts(text: str) -> Iterator[tuple[str, str, bool]]:
    """`code`, `formula`, `html` and `prose` in order, and whether each of them comes to its end."""
    prose: list[str] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        opened = _FENCE.match(line)
        formula = next((pair for pair in _FORMULAS if _opens(line, pair)), None)
        shown = _without_code(line)
        html, wrapper = _OPEN.search(shown), _WRAPPER.search(shown)
        if opened or formula:
            end, whole = _fence_end(lines, at, opened[1]) if opened else _formula_end(lines, at, formula)
        elif wrapper and (html is None or wrapper.start() <= html.start()):
            prose += [line[: wrapper.start()], ""]
            lines[at] = line[wrapper.end() :]
            continue
        elif html:
            prose.append(line[: html.start()])
            end = at
        else:
            prose.append(line)
            at += 1
            continue
        yield "prose", "\n".join(prose), True
        prose = []
        if html and not opened and not formula:
            rest = "\n".join([line[html.start() :], *lines[at + 1 :]])
            length = _html_length(rest, html[1])
            yield "html", rest[:length], True
            lines, at = rest[length:].split("\n"), 0
            continue
        yield "code" if opened else "formula", "\n".join(lines[at:end]), whole
        at = end
    tail = "\n".join(prose)
    cut = cut_tag(tail)
    # One letter behind a < may well be text.
    if cut is not None and len(tail) - cut < 3:
        cut = None
    yield "prose", tail[:cut], cut is None


def _without_code(line: str) -> str:
    """The line with code quoted in it blanked, so that its tags are none."""
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", lambda match: " " * len(match[0]), line)


def _fence_end(lines: list[str], at: int, mark: str) -> tuple[int, bool]:
    closing = re.compile(rf"[ \t]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$")
    for end in range(at + 1, len(lines)):
        if closing.match(lines[end]):
            return end + 1, True
    return len(lines), False


def _opens(line: str, pair: tuple[str, str]) -> bool:
    """Whether a formula begins the line and does not end before the end of a line."""
    start, end = pair
    line = line.strip()
    if not line.startswith(start):
        return False
    return end not in line[2:] or (line.endswith(end) and line.find(end, 2) == len(line) - 2)


def _formula_end(lines: list[str], at: int, pair: tuple[str, str]) -> tuple[int, bool]:
    """To the line that ends the formula. One that never ends lasts to the next empty line: the rest is text."""
    if lines[at].strip().find(pair[1], 2) >= 0:
        return at + 1, True
    empty = None
    for end in range(at + 1, len(lines)):
        if lines[end].rstrip().endswith(pair[1]):
            return end + 1, True
        if empty is None and not lines[end].strip():
            empty = end
    return (empty, True) if empty is not None else (len(lines), False)


def _html_length(text: str, tag: str) -> int:
    """How much of the text an element takes; all where it does not end, but a paragraph to the next empty line."""
    depth = 0
    for match in re.finditer(rf"<(/?){re.escape(tag)}(?=[\s>/])[^<>]*>", text, re.IGNORECASE):
        depth += -1 if match[1] else 1
        if depth == 0:
            return match.end()
    if tag.lower() in ("table", "figure", "ul", "ol", "pre"):
        return len(text)
    empty = text.find("\n\n")
    return len(text) if empty < 0 else empty


def _code(part: str, box: Box) -> list[Block]:
    lines = part.split("\n")
    mark = _FENCE.match(lines[0])[1]
    closed = len(lines) > 1 and re.fullmatch(rf"[ \t]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*", lines[-1])
    body = lines[1:-1] if closed else lines[1:]
    if not any(line.strip() for line in body):
        return []
    return [Block("code", box, "\n".join(body), "\n".join(lines if closed else [*lines, mark]), 0)]


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    """CommonMark with pipe tables, less what printed pages do not mean: text under a rule is no heading, indented
    text is no code, and > is left to us. HTML is cut out before."""
    parser = MarkdownIt("commonmark", {"maxNesting": 4 * _DEEPEST_LIST})
    parser.enable(["table", "strikethrough"])
    parser.disable(["lheading", "code", "blockquote", "reference", "html_block", "fence"])
    parser.inline.ruler.before("escape", "formula", formula_rule)
    return parser


def formula_rule(state: StateInline, silent: bool) -> bool:
    """A formula in running text: its characters are no marks."""
    if state.src[state.pos] not in "$\\":
        return False
    match = _INLINE_FORMULA.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        state.push("formula", "", 0).content = match[0]
    state.pos = match.end()
    return True


def _prose(text: str, box: Box) -> list[Block]:
    if not text.strip():
        return []
    lines = text.split("\n")
    tokens = _parser().parse(text)
    blocks: list[Block] = []
    at = 0
    items: list[int] = []
    while at < len(tokens):
        token = tokens[at]
        if token.type == "table_open":
            close = next(i for i in range(at, len(tokens)) if tokens[i].type == "table_close")
            blocks += _pipe_table(tokens[at:close], _slice(lines, token), box)
            at = close + 1
            continue
        if token.type == "list_item_open":
            items.append(token.map[0])
        elif token.type == "list_item_close":
            items.pop()
        elif token.type == "heading_open":
            level = int(token.tag[1])
            content = tokens[at + 1]
            words = _plain(content.children or []).strip()
            if words:
                blocks.append(Block("heading", box, words, _slice(lines, token).strip(), 0, level=level))
        elif token.type == "paragraph_open":
            first = bool(items) and token.map[0] == items[-1]
            blocks += _paragraph(_slice(lines, token), tokens[at + 1], box, bool(items), first)
        at += 1
    return blocks


def _slice(lines: list[str], token: Token) -> str:
    start, end = token.map
    return "\n".join(line.rstrip() for line in lines[start:end]).strip("\n")


def _paragraph(source: str, content: Token, box: Box, in_list: bool, first: bool) -> list[Block]:
    """The text of a list item that comes first in it bears the item's mark in its source."""
    text = _plain(content.children or []).strip()
    if in_list:
        return [Block("list-item" if first else "text", box, text, source, 0)] if text else []
    source = source.strip()
    if source.startswith(">"):
        return [Block("text", box, inline_text(_QUOTE.sub("", source)), source, 0)] if source.strip("> \t\n") else []
    if footnote := _FOOTNOTE.match(source):
        return [Block("footnote", box, inline_text(source[footnote.end() :]), source, 0)]
    pictures = list(_IMAGE.finditer(source))
    if pictures and not _IMAGE.sub("", source).strip():
        return [Block("picture", box, inline_text(match[0]), match[0], 0) for match in pictures]
    return [Block("text", box, text, source, 0)] if text else []


def _pipe_table(tokens: list[Token], source: str, box: Box) -> list[Block]:
    cells: list[Cell] = []
    row, column = -1, 0
    for place, token in enumerate(tokens):
        if token.type == "tr_open":
            row, column = row + 1, 0
        elif token.type in ("th_open", "td_open"):
            text = clean_text(_plain(tokens[place + 1].children or [])).strip()
            cells.append(Cell(row, column, 1, 1, text, token.type == "th_open"))
            column += 1
    if not any(cell.text for cell in cells):
        return []
    return [Block("table", box, cells_text(cells), source, 0, cells=cells)]


def _plain(tokens: list[Token]) -> str:
    """What the tokens of running text say. Lines of the source are joined, for only a marked break is one."""
    parts = []
    for token in tokens:
        if token.type == "softbreak":
            parts.append(" ")
        elif token.type == "hardbreak":
            parts.append("\n")
        elif token.type == "image":
            parts.append(_plain(token.children or []))
        elif token.type == "html_inline":
            parts.append(_tag_text(token.content))
        else:
            parts.append(token.content)
    return clean_text("".join(parts))


def _tag_text(tag: str) -> str:
    if re.match(r"<br\b", tag, re.IGNORECASE):
        return "\n"
    if tag.lower().startswith(("<img", "<input")):
        return plain_text(*parse_tree(tag)[0].children)
    name = re.match(r"</?([A-Za-z]\w*)", tag)
    # Cells of a table that never began are not one word.
    return " " if name and name[1].lower() in BLOCKS else ""
