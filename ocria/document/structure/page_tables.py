"""The tables of a page: what the layout analysis takes for one, and what is drawn as one."""

from __future__ import annotations

from collections.abc import Sequence

from ocria.document.structure.cells import aligned_rows, stacked_figures
from ocria.document.structure.pieces import Piece
from ocria.document.structure.regions import Region
from ocria.document.structure.rulings import Grid
from ocria.events import Box

# Of a drawn grid that the layout analysis did not take for a table: what makes it one.
_LEAST_FILLED = 0.5
_MOST_WORDS = 60
# Share of one box in another from which they are the same thing.
_SAME = 0.6


def with_drawn_tables(regions: Sequence[Region], grids: Sequence[Grid], pieces: Sequence[Piece]) -> list[Region]:
    """The regions of a page, its tables with the cells that are drawn where any are, and tables that only the drawn
    lines tell."""
    out = list(regions)
    for grid in sorted(grids, key=lambda grid: -_area(grid.box)):
        inside = [piece for piece in pieces if _holds(grid.box, piece.middle)]
        if not inside:
            continue
        mine = [region for region in out if region.kind == "table" and _shared(region.box, grid.box) > _SAME]
        if mine:
            _take(out, mine, grid, inside)
        elif _is_table(grid, inside) and not any(_covers(region, grid.box) for region in out):
            _insert(out, Region("table", grid.box, grid, certain=True))
    return out


def _take(out: list[Region], mine: list[Region], grid: Grid, inside: list[Piece]) -> None:
    """Let the tables of the layout analysis that lie in a drawn grid be that one, unless it draws less than what they
    tell."""
    first = mine[0]
    if any(region.certain for region in mine):
        return
    rows, told = len(grid.ys) - 1, max(len(region.grid.ys) - 1 for region in mine)
    columns, told_columns = len(grid.xs) - 1, max(len(region.grid.xs) - 1 for region in mine)
    if rows < 2 or columns < 2 or 2 * columns < told_columns:
        return
    if (2 * rows < told and aligned_rows(grid, inside)) or (rows < told and stacked_figures(grid, inside)):
        return
    # What the layout analysis has beside the drawn lines, such as a column that is open, must not be lost.
    if _area(grid.box) < _SAME * max(_area(region.box) for region in mine):
        return
    place = out.index(first)
    out[:] = [region for region in out if region not in mine]
    out.insert(place, Region("table", grid.box, grid, certain=True))


def _is_table(grid: Grid, inside: Sequence[Piece]) -> bool:
    """Whether lines that cross are a table and no frame around columns of text, no form and no drawing."""
    if len(grid.ys) < 3 or len(grid.xs) < 3 or len(grid.places) < 4:
        return False
    words = [sum(_holds(place.box, piece.middle) for piece in inside) for place in grid.places]
    return sum(count > 0 for count in words) >= _LEAST_FILLED * len(words) and max(words) <= _MOST_WORDS


def _covers(region: Region, box: Box) -> bool:
    """Whether a picture or another table has the place already."""
    return region.kind in ("picture", "table") and _shared(box, region.box) > 1 - _SAME


def _insert(out: list[Region], new: Region) -> None:
    """Put a table where the first of the regions stands that it takes the text of."""
    taken = [at for at, region in enumerate(out) if _shared(region.box, new.box) > _SAME]
    if taken:
        out.insert(taken[0], new)
        return
    above = [at for at, region in enumerate(out) if region.box[3] <= new.box[1] + 3.0 and region.kind != "footer"]
    out.insert(above[-1] + 1 if above else 0, new)


def _shared(one: Box, other: Box) -> float:
    """The share of the first box that lies in the second."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, wide) * max(0.0, high) / max(_area(one), 1e-6)


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _holds(box: Box, point: tuple[float, float]) -> bool:
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]
