"""Tables that only the places of words tell: rows of figures or of short words, with no line drawn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ocria.document.structure.pieces import Line, line_text
from ocria.document.structure.rulings import Grid, plain_grid

_LEAST_ROWS = 3
_LEAST_FIGURES = 0.6
"""Of the entries of at least one column, and of all of them where only the spaces of words part them; without figures,
columns may well be prose."""
_WIDE_SPACE = 1.2
_WIDER_SPACE = 2.0
"""Between columns without figures."""
_FEW_WORDS = 3.0
"""The most words of an entry on average that are none of columns of prose."""
_ALIGNED = 0.35
"""Of the size of letters."""
_FIGURE = re.compile(r"\W*\d[\d.,:/%-]*\W*|n/?a|[-–—]+", re.IGNORECASE)


def table_grid(lines: Sequence[Line]) -> Grid | None:
    """The rows and columns of lines that are a table of figures or of short words, else None."""
    if len(lines) < _LEAST_ROWS or not all(piece.across for line in lines for piece in line):
        return None
    for wide in (True, False):
        rows = [_entries(line, _WIDE_SPACE if wide else 0.0) for line in lines]
        if len(rows[0]) >= (2 if wide else 3) and _is_table(rows, wide):
            return _grid(rows)
    rows = [_entries(line, _WIDER_SPACE) for line in lines]
    return _grid(rows) if len(rows[0]) >= 2 and _is_list_of_words(rows) else None


def _entries(line: Line, space: float) -> list[Line]:
    """The entries of a row: what spaces of `space` times the size of letters part, or every word."""
    entries: list[Line] = []
    for piece in line:
        if space and entries and piece.box[0] - entries[-1][-1].box[2] <= space * piece.size:
            entries[-1].append(piece)
        else:
            entries.append([piece])
    return entries


def _is_table(rows: list[list[Line]], wide: bool) -> bool:
    if len({len(row) for row in rows}) > 1:
        return False
    columns = list(zip(*rows, strict=True))
    figures = [sum(bool(_FIGURE.fullmatch(line_text(entry))) for entry in column) / len(column) for column in columns]
    enough = max(figures) if wide else sum(figures) / len(figures)
    return enough >= _LEAST_FIGURES and all(map(_is_aligned, columns)) and _parted(columns)


def _is_list_of_words(rows: list[list[Line]]) -> bool:
    if len({len(row) for row in rows}) > 1:
        return False
    columns = list(zip(*rows, strict=True))
    begin = all(_spread(entry[0].box[0] for entry in column) <= _ALIGNED * column[0][0].size for column in columns)
    counts = [len(line_text(entry).split()) for row in rows for entry in row]
    return begin and _parted(columns) and sum(counts) <= _FEW_WORDS * len(counts) and max(counts) <= 2 * _FEW_WORDS


def _spread(places: Iterable[float]) -> float:
    places = list(places)
    return max(places) - min(places)


def _is_aligned(column: Sequence[Line]) -> bool:
    """Whether entries begin, end or have their middle below one another."""
    spread = [
        _spread(entry[0].box[0] for entry in column),
        _spread(entry[-1].box[2] for entry in column),
        _spread((entry[0].box[0] + entry[-1].box[2]) / 2 for entry in column),
    ]
    return min(spread) <= _ALIGNED * column[0][0].size


def _parted(columns: Sequence[Sequence[Line]]) -> bool:
    """Whether no entry reaches over the next column."""
    ends = [max(entry[-1].box[2] for entry in column) for column in columns]
    starts = [min(entry[0].box[0] for entry in column) for column in columns]
    return all(end <= start for end, start in zip(ends, starts[1:], strict=False))


def _grid(rows: list[list[Line]]) -> Grid:
    columns = list(zip(*rows, strict=True))
    starts = [min(entry[0].box[0] for entry in column) for column in columns]
    ends = [max(entry[-1].box[2] for entry in column) for column in columns]
    xs = [starts[0], *((end + start) / 2 for end, start in zip(ends, starts[1:], strict=False)), ends[-1]]
    tops = [min(piece.box[1] for entry in row for piece in entry) for row in rows]
    bottoms = [max(piece.box[3] for entry in row for piece in entry) for row in rows]
    # Boxes of letters may overlap those of the next line; baselines do not.
    middles = [(bottom + top) / 2 for bottom, top in zip(bottoms, tops[1:], strict=False)]
    return plain_grid([tops[0], *middles, bottoms[-1]], xs)
