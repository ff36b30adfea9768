"""What a parsed document is: pages of blocks, with status and statistics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ocria.errors import OcriaError
from ocria.events import Box

OK = "ok"
BLANK = "blank"
FAILED = "failed"
TRUNCATED = "truncated"
DEGENERATE = "degenerate"
TIMEOUT = "timeout"
CANCELLED = "cancelled"
STATUSES = (OK, BLANK, FAILED, TRUNCATED, DEGENERATE, TIMEOUT, CANCELLED)

BLOCK_TYPES = (
    "title", "heading", "text", "list-item", "code", "table", "picture", "formula", "caption", "footnote",
    "header", "footer", "page",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table."""

    row: int
    """From 0, as are columns; of a cell that spans several the first one."""
    column: int
    row_span: int
    column_span: int
    text: str
    """Plain text."""
    header: bool
    """Whether it names a row or a column."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The pixels of a figure, cut out of its page."""

    data: bytes
    """An encoded image."""
    media_type: str
    """`image/png` or `image/jpeg`."""
    width: int
    """Pixels."""
    height: int


@dataclass(slots=True)
class Block:
    """One block of a page, such as a paragraph or a table."""

    type: str
    """One of `BLOCK_TYPES`; `page` is the whole output of a page model that writes plain text."""
    box: Box
    """`(x0, y0, x1, y1)` in points of the displayed page, origin top left; the whole page where a page model told
    none."""
    text: str
    """Plain text; rows of a table are lines, its cells are parted by tabs."""
    markdown: str
    order: int
    """Place in the reading order of the page, from 0."""
    confidence: float | None = None
    """Mean confidence in [0, 1] of the lines read by the model, of the whole page for a page model; None for a text
    layer."""
    font_size: float | None = None
    """Points; of headings, to find their level across the document."""
    level: int | None = None
    """Of headings, from 1; of list items how deep they are nested, from 1, where their places tell."""
    cells: list[Cell] | None = None
    """Of tables, row by row; what a cell spans holds no other. None where only the text is known."""
    picture: Picture | None = None
    """Of figures, where the options ask for them."""
    row_pages: list[int] | None = None
    """Of a table over several pages, which stands on the first of them: the page of each of its rows."""
    continues: int | None = None
    """Of the place of a table that goes on from an earlier page: the page where the whole table stands. It has neither
    text nor cells of its own."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Blocks in reading order and the degrees clockwise by which the page was turned to lay it out."""

    blocks: list[Block]
    turned: int


@dataclass(frozen=True, slots=True)
class LineText:
    """One text line as a line model read it."""

    box: Box
    """`(x0, y0, x1, y1)` in points of the displayed page, origin top left."""
    text: str
    confidence: float | None
    """Mean probability of its tokens, in [0, 1]; None where nothing was read."""
    status: str
    """`ok`, `truncated`, `degenerate`, `timeout` or `failed`."""


@dataclass(slots=True)
class Page:
    """One page with its blocks in reading order."""

    index: int
    """1-based physical number."""
    status: str
    """One of `STATUSES`; a page that was cancelled has no text."""
    width: float
    """Points, as displayed."""
    height: float
    rotation: int
    """Degrees clockwise by which the displayed page was turned to read it upright, beyond its own entry."""
    route: str
    """`blank`, `text` or `model`."""
    reason: str
    """Why this route was taken."""
    blocks: list[Block] = field(default_factory=list)
    lines: list[LineText] = field(default_factory=list)
    """What a line model read, in the order of the lines on the page; empty for every other route."""
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    confidence: float | None = None
    error: str | None = None
    """What went wrong where `status` is not `ok` or `blank`."""
    acceptance: dict[str, Any] | None = None
    """What became of the drafts of its requests, as in the JSON form; None without drafts."""

    @property
    def markdown(self) -> str:
        """As the document's Markdown has this page, without its running headers and footers."""
        from ocria.document.write.markdown import page_markdown

        return page_markdown(self)

    @property
    def text(self) -> str:
        """As the document's text has this page, without its running headers and footers."""
        from ocria.document.write.text import page_text

        return page_text(self)

    @property
    def html(self) -> str:
        """As a section of HTML."""
        from ocria.document.write.html import page_html

        return page_html(self)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Which checkpoint read the pixels."""

    name: str
    version: str | None
    """The hub revision, or the start of the weights' SHA-256."""


@dataclass(slots=True)
class Document:
    """A parsed document."""

    path: str
    page_count: int
    """Pages of the file; `pages` holds those that were read."""
    sha256: str
    """Of the file's bytes."""
    pages: list[Page] = field(default_factory=list)
    model: ModelInfo | None = None
    """None when no page was read from its pixels."""
    seconds: float = 0.0
    interrupted: bool = False
    converted_from: str | None = None
    """The kind of file that a PDF was made of to read it, such as `epub`; None where it was read as it is."""
    error: OcriaError | None = None
    """Why the document could not be read at all; only in batches, where one file's fault does not end the run."""

    @property
    def status(self) -> str:
        """`ok`, `partial` (some pages did not come out whole), `failed` (none did) or `interrupted`."""
        if self.interrupted:
            return "interrupted"
        if self.error is not None:
            return "failed"
        bad = sum(page.status not in (OK, BLANK) for page in self.pages)
        lost = sum(page.status in (FAILED, TIMEOUT) for page in self.pages)
        if self.pages and lost == len(self.pages):
            return "failed"
        return "partial" if bad else "ok"

    @property
    def blocks(self) -> list[Block]:
        """The blocks of all pages in reading order."""
        return [block for page in self.pages for block in page.blocks]

    @property
    def markdown(self) -> str:
        from ocria.document.write.markdown import to_markdown

        return to_markdown(self)

    @property
    def text(self) -> str:
        from ocria.document.write.text import to_text

        return to_text(self)

    @property
    def html(self) -> str:
        """A whole HTML document."""
        from ocria.document.write.html import to_html

        return to_html(self)

    def to_json(self) -> str:
        """The JSON form, described by `ocria/document/write/schema.json`."""
        from ocria.document.write.json import to_json

        return to_json(self)
