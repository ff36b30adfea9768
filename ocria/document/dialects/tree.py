"""HTML as models write it, as a tree: never an error, whatever is missing, wrong or cut off.

`html.parser` is not used: what it does with a tag that the text ends in differs between versions of Python, and some
declarations make it raise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import unescape

VOID = frozenset({"br", "col", "hr", "img", "input"})
HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
TABLE_PARTS = frozenset({"caption", "colgroup", "thead", "tbody", "tfoot", "tr", "td", "th"})
BLOCKS = HEADINGS | TABLE_PARTS | {
    "address", "article", "aside", "blockquote", "body", "center", "dd", "details", "div", "dl", "dt", "figcaption",
    "figure", "footer", "form", "header", "hr", "html", "li", "main", "nav", "ol", "p", "page_number", "pre", "section",
    "summary", "table", "ul", "watermark",
}  # fmt: skip
INLINE = frozenset({
    "a", "b", "big", "br", "chem", "code", "col", "del", "em", "font", "i", "img", "input", "ins", "kbd", "label",
    "mark", "math", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "var",
})  # fmt: skip
TAGS = BLOCKS | INLINE
# Elements whose end may be left out; to end in one of them is no sign of a cut.
_LOOSE = frozenset({"p", "li", "dd", "dt", "tr", "td", "th", "thead", "tbody", "tfoot", "colgroup", "html", "body"})
# A new element of the first kind ends open ones of the second, up to one of the third.
_ENDS = {
    "li": ({"li"}, {"ul", "ol", "table"}),
    "dt": ({"dt", "dd"}, {"dl", "table"}),
    "dd": ({"dt", "dd"}, {"dl", "table"}),
    "td": ({"td", "th", "caption"}, {"tr", "table"}),
    "th": ({"td", "th", "caption"}, {"tr", "table"}),
    "tr": ({"tr", "caption", "colgroup"}, {"table"}),
    "thead": ({"thead", "tbody", "tfoot", "tr", "caption", "colgroup"}, {"table"}),
    "tbody": ({"thead", "tbody", "tfoot", "tr", "caption", "colgroup"}, {"table"}),
    "tfoot": ({"thead", "tbody", "tfoot", "tr", "caption", "colgroup"}, {"table"}),
}
_DEEPEST = 60

# A quoted value holds no start of another tag: each search ends there, and a missing quote harms one tag only.
_QUOTED = r'"(?:[^"<]|<(?![A-Za-z/]))*"' + r"|'(?:[^'<]|<(?![A-Za-z/]))*'"
_TAG = re.compile(rf"<(/?)([A-Za-z][\w-]*)((?:(?=[\s/])(?:{_QUOTED}|[^\"'<>])*|(?=[\s/])[^<>]*)?)>", re.ASCII)
_ATTRIBUTE = re.compile(rf"([A-Za-z_][\w:.-]*)(?:\s*=\s*({_QUOTED}|[^\s\"'<>]+))?", re.ASCII)
_COMMENT = re.compile(r"<!--.*?-->|<![A-Za-z][^<>]*>|<\?[^<>]*>", re.DOTALL)
_TAIL = re.compile(r"<(?:/?[A-Za-z][^<]*|/|!-{0,2})?\Z")
# A name, attributes with values, and one that may be cut off: no words of a text that follow a <.
_TAIL_TAG = re.compile(
    rf"</?([A-Za-z][\w-]*)((?:\s+[\w:-]+\s*=\s*(?:{_QUOTED}|[^\s\"'=<>]+))*"
    r"(?:\s+(?:[\w:-]+\s*(?:=\s*(?:\"[^\"\n]*|'[^'\n]*|[^\s\"'<>]*))?)?)?\s*/?)",
    re.ASCII,
)
# The description of a picture is text too.
_CUT_ALT = re.compile(r"<img\b[^<]*\balt\s*=\s*([\"'])[^\"'<>]+\Z", re.ASCII | re.IGNORECASE)
_FORMULA_END = re.compile(r"</math\s*>", re.IGNORECASE)


@dataclass(slots=True)
class Node:
    """An element. `blocky`: whether it holds block elements."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node | str] = field(default_factory=list)
    blocky: bool = False

    def elements(self) -> list[Node]:
        return [child for child in self.children if isinstance(child, Node)]


def cut_tag(text: str) -> int | None:
    """Where a tag begins that the text ends in the middle of; None where there is none."""
    match = _TAIL.search(text)
    if match is None or _TAG.match(match[0]):
        return None
    if match[0].lstrip("<!-/") == "":
        return match.start()
    parts = _TAIL_TAG.fullmatch(match[0])
    if parts is None:
        return None
    word = parts[1].lower()
    known = word in TAGS if parts[2] else any(tag.startswith(word) for tag in TAGS)
    return match.start() if known else None


def parse_tree(text: str) -> tuple[Node, str | None]:
    """The tree under a root without a tag, and the element or tag that the text ends in the middle of."""
    start = cut_tag(text)
    builder = _Builder()
    if start is None:
        builder.read(text)
    else:
        alt = _CUT_ALT.match(text, start)
        builder.read(text[:start] + (f"{alt[0]}{alt[1]}>" if alt else ""))
    return builder.root, builder.unclosed() or (None if start is None else "a tag")


class _Builder:
    def __init__(self) -> None:
        self.root = Node("")
        self.stack = [self.root]

    def read(self, text: str) -> None:
        text = _COMMENT.sub("", text)
        at = 0
        while at < len(text):
            if self.stack[-1].tag == "math":
                at = self._formula(text, at)
                continue
            match = self._next_tag(text, at)
            self._text(text[at : match.start() if match else len(text)])
            if match is None:
                return
            at = match.end()
            if match[1]:
                self._end(match[2].lower())
            else:
                self._start(match[2].lower(), match[3])

    def unclosed(self) -> str | None:
        """The outermost open element that has an end of its own."""
        return next((f"<{node.tag}>" for node in self.stack[1:] if node.tag not in _LOOSE), None)

    @staticmethod
    def _next_tag(text: str, at: int) -> re.Match | None:
        """The next tag with a name of HTML; others are text, such as the <y of x <y>."""
        while match := _TAG.search(text, at):
            if match[2].lower() in TAGS:
                return match
            at = match.start() + 1
        return None

    def _formula(self, text: str, at: int) -> int:
        """LaTeX has < of its own: a formula lasts to its end tag, or to the next block where that is missing."""
        match = _FORMULA_END.search(text, at)
        stop = next((m for m in _TAG.finditer(text, at) if m[2].lower() in BLOCKS), None)
        if match and (stop is None or match.start() < stop.start()):
            self._text(text[at : match.start()])
            self.stack.pop()
            return match.end()
        end = stop.start() if stop else len(text)
        self._text(text[at:end])
        if stop:
            self.stack.pop()
        return end

    def _text(self, text: str) -> None:
        if text:
            self.stack[-1].children.append(unescape(text))

    def _start(self, tag: str, rest: str) -> None:
        attributes = {m[1].lower(): _value(m[2]) for m in _ATTRIBUTE.finditer(rest)}
        if tag == "div" and "data-bbox" in attributes:
            self._close_layout()
        self._close_implied(tag)
        if tag in BLOCKS:
            for node in self.stack:
                node.blocky = True
        node = Node(tag, attributes)
        # Deeper than any page: the element is left out, its text is kept.
        if len(self.stack) <= _DEEPEST:
            self.stack[-1].children.append(node)
            if tag not in VOID:
                self.stack.append(node)

    def _close_layout(self) -> None:
        """Layout blocks do not hold one another: a new one ends an open one, and all that is open in it."""
        for place, node in enumerate(self.stack):
            if "data-bbox" in node.attributes and node.tag == "div":
                del self.stack[place:]
                return

    def _close_implied(self, tag: str) -> None:
        if tag in BLOCKS and tag not in TABLE_PARTS and self.stack[-1].tag == "p":
            self.stack.pop()
        closes, limit = _ENDS.get(tag, ((), ()))
        for place in range(len(self.stack) - 1, 0, -1):
            if self.stack[place].tag in limit:
                return
            if self.stack[place].tag in closes:
                del self.stack[place:]
                if tag in ("td", "th", "li", "dt", "dd"):
                    return
                # A row may stand in a section that ends too.
                self._close_implied(tag)
                return

    def _end(self, tag: str) -> None:
        for place in range(len(self.stack) - 1, 0, -1):
            name = self.stack[place].tag
            if name == tag:
                del self.stack[place:]
                return
            # What a cell holds cannot end what the cell stands in.
            if name in ("td", "th") and tag not in TABLE_PARTS and tag != "table":
                return
            if name == "table" and tag in TABLE_PARTS:
                return


def _value(text: str | None) -> str:
    if text is None:
        return ""
    return unescape(text[1:-1] if text[0] in "\"'" else text)
