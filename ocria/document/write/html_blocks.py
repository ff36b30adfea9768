"""Blocks of a page as HTML elements."""

from __future__ import annotations

import re
from html import escape

from ocria.document.result import Block, Cell, Page
from ocria.document.write.inline import inline_html, matching_html, may_hold_formulas, text_html
from ocria.document.write.pictures import Target, alternative_text, picture_url, words_below

_HEADING = re.compile(r"\s*#{1,6}\s+")
_QUOTE = re.compile(r"^[ \t]*>[ \t]?", re.MULTILINE)
_FOOTNOTE = re.compile(r"\s*\[\^([^\]\s]{1,32})\]:[ \t]*")
_FENCE = re.compile(r"[ \t]*(?:`{3,}|~{3,})[ \t]*([A-Za-z0-9_+#.-]{1,32})[ \t]*\n")
_LATEX = re.compile(r"(?s)\s*(?:\$\$(.*)\$\$|\\\[(.*)\\\]|(\\begin\{.*))\s*$")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_EMPTY = re.compile(r"\n\s*\n")


def captioned(blocks: list[Block]) -> list[list[Block]]:
    """Blocks in order, those together that make one element: the items of a list with the text in them, a figure or
    table with its caption above or below."""
    groups: list[list[Block]] = []
    for block in blocks:
        last = groups[-1] if groups else []
        first = last[0].type if last else ""
        in_list = first == "list-item" and (block.type == "list-item" or _continues_item(block))
        caption_below = block.type == "caption" and len(last) == 1 and first in ("picture", "table")
        body_below = block.type in ("picture", "table") and len(last) == 1 and first == "caption"
        if in_list or caption_below or body_below:
            last.append(block)
        else:
            groups.append([block])
    return groups


def block_html(page: Page, group: list[Block], images: str, target: Target | None) -> str:
    """The element of one block, or of a figure or table with its caption; empty where nothing is to be shown."""
    if len(group) == 1:
        return _element(page, group[0], images, target)
    inner = [
        f"<figcaption{attributes(block)}>{inline_html(page, block, block.markdown)}</figcaption>"
        if block.type == "caption"
        else _inside_figure(page, block, images, target)
        for block in group
    ]
    body = next(block for block in group if block.type != "caption")
    return f"<figure{attributes(body, text=False)}>\n" + "\n".join(part for part in inner if part) + "\n</figure>"


def attributes(block: Block, *, text: bool = True) -> str:
    """Where the block stands, in points of its page, and that its text may run from right to left."""
    box = " ".join(f"{value:g}" for value in block.box)
    direction = ' dir="auto"' if text and _RIGHT_TO_LEFT.search(block.text) else ""
    return f' data-box="{box}"{direction}'


def _continues_item(block: Block) -> bool:
    return block.type == "text" and block.markdown.startswith("  ")


def _element(page: Page, block: Block, images: str, target: Target | None) -> str:
    kind, told = block.type, attributes(block)
    if kind == "picture":
        inner = _inside_figure(page, block, images, target)
        return f"<figure{attributes(block, text=False)}>\n{inner}\n</figure>" if inner else ""
    if not block.text.strip():
        return ""
    if kind in ("title", "heading"):
        level = min(max(block.level or (1 if kind == "title" else 2), 1), 6)
        return f"<h{level}{told}>{inline_html(page, block, _HEADING.sub('', block.markdown, count=1))}</h{level}>"
    if kind == "table":
        return table_html(block, told)
    if kind == "code":
        language = _FENCE.match(block.markdown)
        named = f' class="language-{escape(language[1])}"' if language else ""
        # A browser drops a newline right behind <pre>.
        return f"<pre{told}><code{named}>{escape(block.text)}</code></pre>"
    if kind == "formula":
        return _formula(page, block, told)
    if kind == "page":
        parts = [f"<p>{text_html(part.strip(chr(10)))}</p>" for part in _EMPTY.split(block.text) if part.strip()]
        return f'<div class="plain"{told}>\n' + "\n".join(parts) + "\n</div>"
    return _running(page, block, told)


def _running(page: Page, block: Block, told: str) -> str:
    """Running text: paragraphs, notes, captions that stand alone, headers and footers."""
    markdown = block.markdown
    if block.type == "footnote":
        label = _FOOTNOTE.match(markdown)
        note = matching_html(page, block.text, markdown[label.end() :]) if label else None
        mark = "" if note is None else f'<sup class="label">{escape(label[1])}</sup> '
        inner = mark + (inline_html(page, block, markdown) if note is None else note)
        return f'<aside class="footnote" role="doc-footnote"{told}><p>{inner}</p></aside>'
    if block.type == "text" and markdown.lstrip().startswith(">"):
        inner = inline_html(page, block, _QUOTE.sub("", markdown))
        return f"<blockquote{told}><p>{inner}</p></blockquote>"
    inner = inline_html(page, block, markdown)
    if block.type in ("header", "footer"):
        return f"<{block.type}{told}><p>{inner}</p></{block.type}>"
    named = ' class="caption"' if block.type == "caption" else ""
    return f"<p{named}{told}>{inner}</p>"


def _formula(page: Page, block: Block, told: str) -> str:
    """LaTeX stands between the marks that renderers of formulas look for; a formula of a text layer is mere text."""
    latex = _LATEX.match(block.markdown) if may_hold_formulas(page) else None
    if latex is None:
        return f'<p class="formula"{told}>{text_html(block.text)}</p>'
    inner = next(part for part in latex.groups() if part is not None).strip()
    return f'<div class="formula math"{told}>\\[{escape(inner, quote=False)}\\]</div>'


def _inside_figure(page: Page, block: Block, images: str, target: Target | None) -> str:
    """The picture, and the words on it; a table stands in a figure because of its caption."""
    if block.type == "table":
        return table_html(block, "")
    url = picture_url(page, block, images, target)
    if url is None:
        words = block.text.strip()
        shown = f'<div class="picture">Figure on page {page.index}</div>' if images != "none" else ""
    else:
        words = words_below(block)
        shown = (
            f'<img src="{escape(url)}" alt="{escape(" ".join(alternative_text(page, block).split()))}" '
            f'width="{block.picture.width}" height="{block.picture.height}">'
        )
    parts = [shown, f'<p class="words">{text_html(words)}</p>' if words else ""]
    return "\n".join(part for part in parts if part)


def table_html(block: Block, told: str) -> str:
    """A table with its spans; rows of which all cells are headers stand in its head as long as they come first."""
    cells = block.cells
    if cells is None:
        lines = block.text.split("\n")
        cells = [Cell(r, c, 1, 1, t, False) for r, line in enumerate(lines) for c, t in enumerate(line.split("\t"))]
    rows: dict[int, list[Cell]] = {}
    for cell in cells:
        rows.setdefault(cell.row, []).append(cell)
    head = _head_rows(rows)
    parts = [f"<table{told}>"]
    open_part = ""
    for number in range(max(rows, default=-1) + 1):
        part = "thead" if number < head else "tbody"
        if part != open_part:
            parts += [f"</{open_part}>"] if open_part else []
            parts.append(f"<{part}>")
            open_part = part
        inner = "".join(_cell(cell, number < head) for cell in sorted(rows.get(number, []), key=lambda c: c.column))
        parts.append(f"<tr>{inner}</tr>")
    return "\n".join([*parts, *([f"</{open_part}>"] if open_part else []), "</table>"])


def _head_rows(rows: dict[int, list[Cell]]) -> int:
    """Rows of the head. A cell must not reach out of it, for the parts of an HTML table bound its cells."""
    count = 0
    while count in rows and all(cell.header for cell in rows[count]):
        count += 1
    while count and any(cell.row + cell.row_span > count for row in range(count) for cell in rows.get(row, [])):
        count -= 1
    return count


def _cell(cell: Cell, in_head: bool) -> str:
    tag = "th" if cell.header else "td"
    told = f' scope="{"col" if in_head else "row"}"' if cell.header else ""
    told += f' colspan="{cell.column_span}"' if cell.column_span > 1 else ""
    told += f' rowspan="{cell.row_span}"' if cell.row_span > 1 else ""
    told += ' dir="auto"' if _RIGHT_TO_LEFT.search(cell.text) else ""
    return f"<{tag}{told}>{text_html(cell.text)}</{tag}>"
