"""Tables as Markdown and as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from ocria.document.clean import clean_text, escape_markdown

Cells = Sequence[Sequence[str | None]]


def table_markdown(cells: Cells) -> str:
    """A pipe table; the first row is its head, as Markdown knows no table without one."""
    rows = [[escape_markdown(" ".join(cell.split())) for cell in row] for row in _filled(cells)]
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    rule = f"|{'|'.join(' --- ' for _ in rows[0])}|"
    return "\n".join([head, rule, *body])


def table_text(cells: Cells) -> str:
    """One row a line, cells parted by tabs."""
    return "\n".join("\t".join(" ".join(cell.split()) for cell in row) for row in _filled(cells))


def _filled(cells: Cells) -> list[list[str]]:
    width = max(len(row) for row in cells)
    return [[clean_text(cell or "") for cell in row] + [""] * (width - len(row)) for row in cells]
