"""What only the whole document can decide, once all of its pages are there."""

from __future__ import annotations

from ocria.document.options import ParseOptions
from ocria.document.result import Document
from ocria.document.structure.captions import type_captions
from ocria.document.structure.headings import level_headings
from ocria.document.structure.running import type_running
from ocria.document.structure.tables_over_pages import merge_tables
from ocria.document.table import cells_markdown


def finish(document: Document, options: ParseOptions) -> None:
    """Bring the blocks of a document's pages in line with each other. The pages are as they were read, in order, each
    finished at most once."""
    type_running(document)
    type_captions(document)
    if options.merge_tables:
        merge_tables(document)
    level_headings(document)
    format_tables(document, options.table_format)


def format_tables(document: Document, table_format: str) -> None:
    """Write the tables of a document in Markdown. With `auto` those of a page model stay as it wrote them, unless they
    were merged."""
    for page in document.pages:
        own = page.route == "model" and not page.lines
        for block in page.blocks:
            if block.type != "table" or not block.cells:
                continue
            if table_format == "auto" and own and block.row_pages is None:
                continue
            wrote_html = own and table_format == "auto" and block.markdown.startswith("<table")
            block.markdown = cells_markdown(block.cells, "html" if wrote_html else table_format)
