"""Markdown as lines of a terminal, with the HTML tables and line breaks that ocria writes into it."""

from __future__ import annotations

import io
from typing import ClassVar

from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, ImageItem, Markdown, MarkdownContext, MarkdownElement
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text, TextType
from rich.theme import Theme

from ocria.document.dialects.inline import plain_text
from ocria.document.dialects.table import table_cells
from ocria.document.dialects.tree import Node, parse_tree
from ocria.document.table import cells_rows
from ocria.progress.lines import printable
from ocria_tui.theme import Palette

WIDEST = 100
"""Cells of a line of text; longer ones are hard to read."""
_TAIL = 1000
"""So many characters at the end of growing Markdown are laid out each time: some milliseconds."""


def markdown_lines(text: str, width: int, palette: Palette) -> list[list[Segment]]:
    """The text as it is meant, each line at most so many cells."""
    console = _console(width, palette)
    code = "ansi_dark" if palette.dark else "ansi_light"
    return console.render_lines(_Markdown(harmless(text), code_theme=code, hyperlinks=False), pad=False)


class GrowingMarkdown:
    """Markdown that is appended to. What lies far behind its end is laid out once, up to where a block ends. There a
    list begins anew and an empty line may be too many, until all of it is laid out together."""

    def __init__(self, width: int, palette: Palette):
        self._width, self._palette = width, palette
        self._settled = ""
        self._lines: list[list[Segment]] = []

    def lines(self, text: str) -> list[list[Segment]]:
        """Of the text so far; its beginning is that of the last time."""
        if not text.startswith(self._settled):
            self._settled, self._lines = "", []
        rest = text[len(self._settled) :]
        if len(rest) > 2 * _TAIL:
            end = _block_end(rest, len(rest) - _TAIL)
            if end:
                self._lines += [*markdown_lines(rest[:end], self._width, self._palette), []]
                self._settled, rest = self._settled + rest[:end], rest[end:]
        return self._lines + markdown_lines(rest, self._width, self._palette)


def _block_end(text: str, before: int) -> int:
    """The last place before another where nothing is open, behind an empty line; 0 where there is none."""
    end = text.rfind("\n\n", 0, before)
    while end > 0:
        head = text[:end]
        if head.count("```") % 2 == 0 and head.count("<table") == head.count("</table"):
            return end + 2
        end = text.rfind("\n\n", 0, end)
    return 0


def plain_lines(text: str, width: int, style: Style) -> list[list[Segment]]:
    """The text as it is written, wrapped."""
    console = Console(width=width, file=io.StringIO(), legacy_windows=False)
    lines: list[list[Segment]] = []
    for line in harmless(text).split("\n"):
        parts = Text(line).wrap(console, width) if line else [Text()]
        lines.extend([Segment(part.plain.rstrip("\n"), style)] for part in parts)
    return lines


def harmless(text: str) -> str:
    """The text with control characters spelt out, which a terminal would obey, and without tabs."""
    return "\n".join(printable(line.expandtabs(4)) for line in text.split("\n"))


class _Heading(Heading):
    """At the left, without the box of the first level."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Html(MarkdownElement):
    """A block of HTML: a table as one, the words of everything else. Comments say nothing."""

    def on_text(self, context: MarkdownContext, text: TextType) -> None:
        self.nodes = parse_tree(str(text))[0].children

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for node in self.nodes:
            if isinstance(node, Node) and node.tag == "table":
                yield _table(node)
            else:
                words = node.strip() if isinstance(node, str) else " ".join(plain_text(node).split())
                if words:
                    yield Text(words)


class _Image(ImageItem):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        words = self.text.plain or self.destination.rsplit("/", 1)[-1]
        yield Text(f"[image: {words}]", style="markdown.image", end="")


class _Markdown(Markdown):
    elements: ClassVar = {**Markdown.elements, "html_block": _Html, "heading_open": _Heading, "image": _Image}

    def __init__(self, markup: str, **options: object):
        super().__init__(markup, **options)
        _break_lines(self.parsed)


def _break_lines(tokens: list[Token]) -> None:
    """Take `<br>`, which cells of tables have, for the break of a line that it is."""
    for token in tokens:
        if token.type == "html_inline" and token.content.lower().replace(" ", "").replace("/", "") == "<br>":
            token.type, token.tag = "hardbreak", "br"
        _break_lines(token.children or [])


def _table(node: Node) -> Table:
    cells = table_cells(node)
    rows = cells_rows(cells)
    table = Table(show_header=False, show_lines=True, pad_edge=False)
    for _ in range(max(map(len, rows), default=0)):
        table.add_column(overflow="fold")
    heads = {(cell.row, cell.column) for cell in cells if cell.header}
    for y, row in enumerate(rows):
        table.add_row(*(Text(text, style="bold" if (y, x) in heads else "") for x, text in enumerate(row)))
    return table


def _console(width: int, palette: Palette) -> Console:
    theme = Theme({
        "markdown.h1": palette.title + Style(underline=True),
        "markdown.h2": palette.title,
        **{f"markdown.h{level}": Style(bold=True) for level in (3, 4, 5, 6)},
        "markdown.code": palette.bright,
        "markdown.code_block": palette.text,
        "markdown.item.bullet": palette.live,
        "markdown.item.number": palette.live,
        "markdown.block_quote": palette.muted,
        "markdown.hr": palette.muted,
        "markdown.link": palette.live + Style(underline=True),
        "markdown.link_url": palette.muted,
        "markdown.image": palette.muted,
        "markdown.table.border": palette.muted,
        "markdown.table.header": Style(bold=True),
    })  # fmt: skip
    return Console(
        width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor", legacy_windows=False,
        theme=theme, emoji=False, highlight=False, markup=False, _environ={},
    )  # fmt: skip
