"""The cells of a table as Markdown, HTML, CSV and plain text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from html import escape

from ocria.document.escape import escape_markdown
from ocria.document.result import Cell

_PIPE = re.compile(r"\|")


def cells_markdown(cells: Sequence[Cell], table_format: str) -> str:
    """A table in Markdown, empty where no cell has text.

    Args:
        table_format: `md` for a pipe table, `html`, `csv` for a block of code, `auto` for a pipe table where it can
            hold the cells, else HTML.
    """
    if not any(cell.text.strip() for cell in cells):
        return ""
    if table_format == "csv":
        text = cells_csv(cells)
        fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
        return f"{fence}csv\n{text}{fence}"
    if table_format == "html" or (table_format == "auto" and not fits_pipes(cells)):
        return cells_html(cells)
    return cells_pipes(cells)


def fits_pipes(cells: Sequence[Cell]) -> bool:
    """Whether a pipe table says all that the cells do: it knows no spans and no lines within a cell."""
    return not any(c.row_span > 1 or c.column_span > 1 or "\n" in c.text.strip() for c in cells)


def cells_pipes(cells: Sequence[Cell]) -> str:
    """A pipe table; the first row is its head, as Markdown knows no table without one. What a cell spans is empty."""
    head, *body = [f"| {' | '.join(map(_pipe_cell, row))} |" for row in cells_rows(cells)]
    rule = f"|{' --- |' * _width(cells)}"
    return "\n".join([head, rule, *body])


def cells_html(cells: Sequence[Cell]) -> str:
    """An HTML table with spans, a row a line."""
    rows: list[list[str]] = [[] for _ in range(_height(cells))]
    for cell in cells:
        tag = "th" if cell.header else "td"
        spans = f' colspan="{cell.column_span}"' if cell.column_span > 1 else ""
        spans += f' rowspan="{cell.row_span}"' if cell.row_span > 1 else ""
        # An empty line would end the table for Markdown.
        lines = [escape(line, quote=False) for line in cell.text.split("\n")]
        rows[cell.row].append(f"<{tag}{spans}>{'<br>'.join(lines)}</{tag}>")
    return "\n".join(["<table>", *(f"<tr>{''.join(row)}</tr>" for row in rows), "</table>"])


def cells_csv(cells: Sequence[Cell]) -> str:
    """Rows of comma-separated values, each ended by a newline. What a cell spans is empty."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(cells_rows(cells))
    return out.getvalue()


def cells_text(cells: Sequence[Cell]) -> str:
    """One row a line, cells parted by tabs; what a cell spans is empty but for its first place."""
    ends = [0] * _height(cells)
    for cell in cells:
        ends[cell.row] = max(ends[cell.row], cell.column + 1)
    rows = zip(cells_rows(cells), ends, strict=True)
    return "\n".join("\t".join(" ".join(text.split()) for text in row[:end]) for row, end in rows)


def cells_rows(cells: Sequence[Cell]) -> list[list[str]]:
    """The texts of all places, equally many in each row."""
    rows = [[""] * _width(cells) for _ in range(_height(cells))]
    for cell in cells:
        rows[cell.row][cell.column] = cell.text
    return rows


def _height(cells: Sequence[Cell]) -> int:
    return max((cell.row + cell.row_span for cell in cells), default=0)


def _width(cells: Sequence[Cell]) -> int:
    return max((cell.column + cell.column_span for cell in cells), default=0)


def _pipe_cell(text: str) -> str:
    lines = [" ".join(line.split()) for line in text.split("\n")]
    escaped = escape_markdown("\n".join(line for line in lines if line))
    return _PIPE.sub(r"\\|", escaped.replace("\n", "<br>"))
