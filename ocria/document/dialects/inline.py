"""Running text of an HTML tree, as plain text and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable

from ocria.document.dialects.tree import BLOCKS, Node
from ocria.document.escape import escape_label, escape_markdown

_MARKS = {"b": "**", "strong": "**", "i": "*", "em": "*", "del": "~~", "s": "~~", "strike": "~~"}
Escape = Callable[[str], str]
_BREAK = "\x00"
"""Stands for a line break while white space is folded; no text holds it."""


def plain_text(*nodes: Node | str) -> str:
    """Without markup: white space folded, a line each for blocks and line breaks, formulas verbatim."""
    return _folded("".join(map(_plain, nodes)), "\n")


def inline_markdown(*nodes: Node | str, escape: Escape) -> str:
    """As Markdown, with HTML for what Markdown has no marks for. `escape`: what makes a text of the tree Markdown."""
    return _folded("".join(_markdown(node, escape) for node in nodes), "\\\n")


def escape_text(text: str) -> str:
    """For text where formulas have a tag of their own: no dollar sign begins one."""
    return escape_markdown(text, whole=False).replace("\\$", "$").replace("$", "\\$")


def is_picture(node: Node | str) -> bool:
    return isinstance(node, Node) and node.tag == "img"


def formula_of(node: Node) -> str:
    """The LaTeX of a formula, verbatim but for white space around it."""
    return "".join(child if isinstance(child, str) else _raw(child) for child in node.children).strip()


def display_formula(latex: str) -> str:
    """Markdown of a formula on lines of its own; delimiters that are there already are kept."""
    if latex.startswith(("$", "\\[", "\\begin{equation", "\\begin{align")):
        return latex
    return f"$$\n{latex}\n$$"


def raw_text(node: Node | str) -> str:
    """With its white space, as in code."""
    return node if isinstance(node, str) else _raw(node)


def _raw(node: Node) -> str:
    return "\n" if node.tag == "br" else "".join(map(raw_text, node.children))


def _folded(text: str, line_break: str) -> str:
    lines = [" ".join(line.split()) for line in text.split(_BREAK)]
    return line_break.join(line for line in lines if line)


def _plain(node: Node | str) -> str:
    if isinstance(node, str):
        return node
    if node.tag in ("br", "hr"):
        return _BREAK
    if node.tag == "math":
        return _delimited(node)
    if node.tag == "img":
        return node.attributes.get("alt", "")
    if node.tag == "input":
        return _input(node)
    inner = "".join(map(_plain, node.children))
    if node.tag in ("td", "th"):
        return f"{inner} "
    return f"{_BREAK}{inner}{_BREAK}" if node.tag in BLOCKS else inner


def _markdown(node: Node | str, escape: Escape) -> str:
    if isinstance(node, str):
        return escape(node)
    if node.tag in ("br", "hr"):
        return _BREAK
    if node.tag == "math":
        return _delimited(node)
    if node.tag == "img":
        alt = escape_label(node.attributes.get("alt", ""))
        source = node.attributes.get("src", "")
        return f"![{alt}]({_target(source)})"
    if node.tag == "input":
        return escape_markdown(_input(node))
    if node.tag in ("code", "kbd", "tt"):
        return _code(_raw(node))
    inner = "".join(_markdown(child, escape) for child in node.children)
    if node.tag in _MARKS:
        return _marked(inner, _MARKS[node.tag])
    if node.tag in ("sub", "sup", "u") and inner.strip():
        return f"<{node.tag}>{inner}</{node.tag}>"
    if node.tag == "a" and (target := node.attributes.get("href")) and inner.strip():
        return f"[{inner}]({_target(target)})"
    if node.tag in ("td", "th"):
        return f"{inner} "
    return f"{_BREAK}{inner}{_BREAK}" if node.tag in BLOCKS else inner


def _marked(inner: str, mark: str) -> str:
    """Marks stand at the words: spaces next to them would leave them without effect."""
    words = inner.strip()
    if not words or _BREAK in words:
        return inner
    start = inner.index(words)
    return f"{inner[:start]}{mark}{words}{mark}{inner[start + len(words) :]}"


def _code(text: str) -> str:
    text = " ".join(text.split())
    if not text:
        return ""
    ticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{ticks} {text} {ticks}" if len(ticks) > 1 else f"`{text}`"


def _target(url: str) -> str:
    url = re.sub(r"[\s<>]+", lambda match: "%20" if match[0].isspace() else "", url.strip())
    return f"<{url}>" if re.search(r"[()]", url) else url


def _delimited(node: Node) -> str:
    latex = formula_of(node)
    if not latex or latex.startswith(("$", "\\(", "\\[")):
        return latex
    return f"$${latex}$$" if node.attributes.get("display") == "block" else f"${latex}$"


def _input(node: Node) -> str:
    if node.attributes.get("type", "").lower() in ("checkbox", "radio"):
        return "[x]" if "checked" in node.attributes else "[ ]"
    return node.attributes.get("value", "")
