"""Running Markdown of a block as HTML: emphasis, code, formulas, breaks and links, and no markup of the document."""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ocria.document.dialects.markdown import formula_rule
from ocria.document.result import Block, Page

_MARKS = {"em": "em", "strong": "strong", "s": "s"}
# Elements for which Markdown has no marks; models write them as HTML.
_TAG = re.compile(r"<(/?)(sub|sup|u|b|i|em|strong|s|del|code|br)\s*/?>", re.IGNORECASE)
_SAFE_LINK = re.compile(r"(?:https?|mailto):", re.IGNORECASE)
_FORMULA = re.compile(r"(?s)\$\$(.*)\$\$|\\\[(.*)\\\]|\$(.*)\$|\\\((.*)\\\)")
# Text layers have the mark of a list item in its text, page models do not.
_BULLET = re.compile(r"\A\s*(?:[-*+•◦▪▫●○■□‣⁃·–—]\s*|(?:\(?\w{1,4}[.)\]]|o)\s+)")


def inline_html(page: Page, block: Block, markdown: str) -> str:
    """The running text of a block.

    `markdown` is that of the block without the marks of its kind, such as the number signs of a heading. Where it does
    not say what the block's text says, the plain text is taken: words count, marks do not.
    """
    html = matching_html(page, block.text, markdown)
    if html is not None:
        return html
    marked = block.type == "list-item" and not may_hold_formulas(page)
    bare = _BULLET.sub("", block.text) if marked else block.text
    return matching_html(page, bare, markdown) or text_html(bare)


def matching_html(page: Page, text: str, markdown: str) -> str | None:
    """Running Markdown as HTML; None where it does not say what the text says."""
    line = "\n".join(part.strip() for part in markdown.strip().split("\n"))
    html, plain = _rendered(_parser(may_hold_formulas(page)).parseInline(line)[0].children or [])
    return html if _squeezed(plain) == _squeezed(text) else None


def text_html(text: str) -> str:
    """Plain text with its line breaks."""
    return "<br>\n".join(escape(line, quote=False) for line in text.split("\n"))


def may_hold_formulas(page: Page) -> bool:
    """Whether the Markdown is that of a page model: text of a layer or of lines has no formulas in LaTeX."""
    return page.route == "model" and not page.lines


@lru_cache(maxsize=2)
def _parser(formulas: bool) -> MarkdownIt:
    parser = MarkdownIt("commonmark")
    parser.enable(["strikethrough"])
    if formulas:
        parser.inline.ruler.before("escape", "formula", formula_rule)
    return parser


def _rendered(tokens: list[Token]) -> tuple[str, str]:
    """HTML and plain text. Every element that is opened is closed, in the right order."""
    html: list[str] = []
    plain: list[str] = []
    stack: list[str] = []

    def begin(tag: str, told: str = "") -> None:
        stack.append(tag)
        html.append(f"<{tag}{told}>")

    def end(tag: str) -> None:
        """Close `tag` and what was opened in it; an end without a beginning is none."""
        while tag in stack:
            last = stack.pop()
            html.append(f"</{last}>")
            if last == tag:
                break

    for token in tokens:
        kind = token.type
        name, _, side = kind.rpartition("_")
        if kind == "text":
            html.append(escape(token.content, quote=False))
            plain.append(token.content)
        elif kind == "softbreak":
            html.append("\n")
            plain.append("\n")
        elif kind == "hardbreak":
            html.append("<br>\n")
            plain.append("\n")
        elif kind == "code_inline":
            html.append(f"<code>{escape(token.content, quote=False)}</code>")
            plain.append(token.content)
        elif kind == "formula":
            html.append(_formula(token.content))
            plain.append(token.content)
        elif kind == "image":
            said = _rendered(token.children or [])[1]
            html.append(escape(said, quote=False))
            plain.append(said)
        elif name in _MARKS and side in ("open", "close"):
            begin(_MARKS[name]) if side == "open" else end(_MARKS[name])
        elif kind == "link_open":
            target = str(token.attrGet("href") or "")
            # An element without a target is no link and keeps the ends in step.
            begin("a", f' href="{escape(target)}"' if _SAFE_LINK.match(target) else "")
        elif kind == "link_close":
            end("a")
        elif kind == "html_inline" and (tag := _TAG.fullmatch(token.content)):
            which = tag[2].lower()
            if which == "br":
                html.append("<br>")
                plain.append("\n")
            elif tag[1]:
                end(which)
            else:
                begin(which)
        elif kind != "html_inline":  # other tags are neither shown nor text
            html.append(escape(token.content, quote=False))
            plain.append(token.content)
    while stack:
        html.append(f"</{stack.pop()}>")
    return "".join(html), "".join(plain)


def _formula(source: str) -> str:
    display_a, display_b, inline_a, inline_b = _FORMULA.fullmatch(source).groups()
    display = display_a if display_a is not None else display_b
    if display is not None:
        return f'<span class="math display">\\[{escape(display.strip(), quote=False)}\\]</span>'
    inner = inline_a if inline_a is not None else inline_b
    return f'<span class="math">\\({escape(inner.strip(), quote=False)}\\)</span>'


def _squeezed(text: str) -> str:
    return "".join(text.split())
