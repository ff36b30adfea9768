"""The cells of a table on a page: which text stands in which cell, which cells are one, which are headers."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import replace

from ocria.document.clean import join_lines
from ocria.document.result import Cell
from ocria.document.structure.list_items import marker_length
from ocria.document.structure.pieces import Line, Piece, line_text, lines_of
from ocria.document.structure.rulings import Grid, Place

_NUMBER = re.compile(r"[^\w]*[\d.,:/ ]*\d[\d.,:/ ]*[^\w]*(?:[a-zA-Z]{1,3})?[^\w]*")
# Of the size of letters: a wider space parts columns.
_WORD_SPACE = 0.6


def fill_cells(grid: Grid, pieces: Sequence[Piece], *, certain: bool) -> list[Cell]:
    """The cells of a table, row by row, every piece in one of them.

    Args:
        certain: whether the cells are known. Where they are a guess, text that runs on over the side of a column
            tells that its cells are one, and rows and columns without text are none.
    """
    if not certain:
        grid = _over_sides(grid, pieces)
    home = _finder(grid)
    inside: dict[Place, list[Piece]] = {place: [] for place in grid.places}
    for piece in pieces:
        inside[home(piece)].append(piece)
    headers = _header_rows(grid, inside)
    cells = [Cell(p.row, p.column, p.row_span, p.column_span, _text(inside[p]), p.row < headers) for p in grid.places]
    return cells if certain else _without_empty(cells)


def aligned_rows(grid: Grid, pieces: Sequence[Piece]) -> bool:
    """Whether some row holds several lines side by side in several columns: rows of a table with no lines between
    them."""
    for cells in _lines_of_rows(grid, pieces):
        counts = list(map(len, cells))
        full = [count for count in counts if count >= 3]
        if len(full) >= 2 and full.count(max(full)) >= max(2, len(counts) // 2):
            return True
    return False


def stacked_figures(grid: Grid, pieces: Sequence[Piece]) -> bool:
    """Whether some row holds as many lines in each cell, which are numbers in several of them: rows for certain."""
    for cells in _lines_of_rows(grid, pieces):
        filled = [lines for lines in cells if lines]
        figures = [lines for lines in filled if all(_NUMBER.fullmatch(line_text(line)) for line in lines)]
        if len(figures) >= 2 and {len(lines) for lines in filled} == {len(figures[0])} != {1}:
            return True
    return False


def _lines_of_rows(grid: Grid, pieces: Sequence[Piece]) -> list[list[list[Line]]]:
    """The printed lines of each cell, by rows."""
    home = _finder(grid)
    inside: dict[Place, list[Piece]] = {}
    for piece in pieces:
        inside.setdefault(home(piece), []).append(piece)
    return [
        [lines_of(inside.get(p, ())) for p in grid.places if p.row == row and p.row_span == 1]
        for row in range(len(grid.ys) - 1)
    ]


def _text(pieces: Sequence[Piece]) -> str:
    """Wrapped lines are one; items of a list in a cell are lines of their own."""
    parts: list[list[str]] = []
    for line in map(line_text, lines_of(pieces)):
        if not parts or marker_length(line, bullets_only=True):
            parts.append([])
        parts[-1].append(line)
    return "\n".join(map(join_lines, parts))


def _finder(grid: Grid) -> Callable[[Piece], Place]:
    """What tells the cell that a piece stands in; for one beside the grid, the nearest."""
    found = {}
    for place in grid.places:
        for row in range(place.row, place.row + place.row_span):
            for column in range(place.column, place.column + place.column_span):
                found[row, column] = place

    def home(piece: Piece) -> Place:
        x, y = piece.middle
        row = min(max(bisect(grid.ys, y) - 1, 0), len(grid.ys) - 2)
        column = min(max(bisect(grid.xs, x) - 1, 0), len(grid.xs) - 2)
        return found[row, column]

    return home


def _without_empty(cells: Sequence[Cell]) -> list[Cell]:
    """The cells without rows and columns that hold no text; each cell is one row high."""
    rows = sorted({cell.row for cell in cells if cell.text})
    columns = sorted({c for cell in cells if cell.text for c in range(cell.column, cell.column + cell.column_span)})
    kept = []
    for cell in cells:
        mine = [c for c in columns if cell.column <= c < cell.column + cell.column_span]
        if cell.row in rows and mine:
            row, column = rows.index(cell.row), columns.index(mine[0])
            kept.append(replace(cell, row=row, column=column, column_span=len(mine)))
    return kept


def _over_sides(grid: Grid, pieces: Sequence[Piece]) -> Grid:
    """Join cells over whose common side text runs on, where they hold nothing else."""
    home = _finder(grid)
    runs = [run for line in lines_of(pieces) for run in _word_runs(line)]
    holders: dict[Place, list[int]] = {}
    for number, run in enumerate(runs):
        for place in {home(piece) for piece in run}:
            holders.setdefault(place, []).append(number)
    rows: dict[int, list[Place]] = {}
    for place in grid.places:
        rows.setdefault(place.row, []).append(place)
    for number, run in enumerate(runs):
        row = rows[home(run[0]).row]
        covered = [place for place in row if _reach(run, place) > run[0].size]
        held = {other for place in covered[1:] for other in holders.get(place, ())}
        if len(covered) > 1 and held <= {number}:
            first, last = covered[0], covered[-1]
            box = (first.box[0], first.box[1], last.box[2], first.box[3])
            wide = last.column + last.column_span - first.column
            if _is_row_of_numbers(run, covered):
                continue
            joined = replace(first, column_span=wide, box=box)
            holders[joined] = [*holders.get(first, ()), number]
            row[row.index(first)] = joined
            row[:] = [place for place in row if place not in covered[1:]]
    return Grid(grid.ys, grid.xs, [place for row in rows.values() for place in row])


def _is_row_of_numbers(run: Line, covered: Sequence[Place]) -> bool:
    """Whether a run is a number over each of the cells, which wide numbers leave no more than a space between."""
    if len(run) != len(covered) or not all(_NUMBER.fullmatch(piece.text) for piece in run):
        return False
    return all(place.box[0] <= piece.middle[0] <= place.box[2] for piece, place in zip(run, covered, strict=True))


def _reach(run: Line, place: Place) -> float:
    """How much of a run stands over a cell, across."""
    x0, _, x1, _ = place.box
    return min(x1, run[-1].box[2]) - max(x0, run[0].box[0])


def _word_runs(line: Line) -> list[Line]:
    """Parts of a line with nothing but the spaces of words in them."""
    runs: list[Line] = []
    for piece in line:
        if runs and piece.box[0] - runs[-1][-1].box[2] <= _WORD_SPACE * piece.size and piece.across:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return runs


def _header_rows(grid: Grid, inside: dict[Place, list[Piece]]) -> int:
    """How many rows at the top name the columns: they are bold where the next one is not, or words over numbers."""
    rows: dict[int, list[Place]] = {}
    for place in grid.places:
        rows.setdefault(place.row, []).append(place)

    def bold(row: int) -> bool:
        found = [piece.style.bold for place in rows[row] for piece in inside[place]]
        return bool(found) and all(found)

    count = 0
    while count in rows and bold(count):
        count += 1
    if 0 < count < len(rows):
        return _closed(rows, count)
    texts = [[_text(inside[place]) for place in rows.get(row, ())] for row in range(len(rows))]
    first = [text for text in texts[0] if text]
    if len(rows) < 2 or len(first) < 2 or any(_NUMBER.fullmatch(text) for text in first):
        return 0
    below = [text for row in texts[1:] for text in row if text]
    return 1 if 4 * sum(bool(_NUMBER.fullmatch(text)) for text in below) >= len(below) > 0 else 0


def _closed(rows: dict[int, list[Place]], count: int) -> int:
    """The head with all rows that its cells reach into."""
    reach = max((place.row + place.row_span for row in range(count) for place in rows[row]), default=count)
    return reach if reach < len(rows) else count
