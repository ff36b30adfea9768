"""Tables that are drawn: their lines, and the cells that these bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pymupdf

from ocria.events import Box

# Points.
_STRAIGHT = 1.0
_THIN = 3.0
_NEAR = 3.0
_SHORTEST = 4.0
# Drawings beyond this are maps and plans, not tables.
_MOST_PATHS = 20_000
_MOST_LINES = 2_000
_LEAST_COVER = 0.7
"""Share of the side of a cell that a line must cover to bound it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A cell of a grid."""

    row: int
    column: int
    row_span: int
    column_span: int
    box: Box


@dataclass(frozen=True, slots=True)
class Grid:
    """Where the rows and columns of a table lie."""

    ys: list[float]
    """From the top of the first row to the bottom of the last."""
    xs: list[float]
    places: list[Place]
    """Its cells row by row, without gaps and overlaps."""

    @property
    def box(self) -> Box:
        return self.xs[0], self.ys[0], self.xs[-1], self.ys[-1]


@dataclass(slots=True)
class _Segment:
    at: float
    """y of a line that runs across, x of one that runs down."""
    start: float
    end: float


def drawn_grids(page: pymupdf.Page) -> list[Grid]:
    """The grids of at least two cells that are drawn on a page without rotation."""
    across, down = _segments(page)
    if len(across) < 2 or not down or len(across) + len(down) > _MOST_LINES:
        return []
    grids = []
    for h, v in _networks(across, down):
        ys, xs = _levels(h), _columns(h, v)
        if len(ys) >= 2 and len(xs) >= 2 and (len(ys) - 1) * (len(xs) - 1) >= 2:
            grids.append(Grid(ys, xs, _places(ys, xs, h, v)))
    return [grid for grid in grids if len(grid.places) >= 2]


def plain_grid(ys: Sequence[float], xs: Sequence[float]) -> Grid:
    """A grid without spans."""
    places = [
        Place(r, c, 1, 1, (xs[c], ys[r], xs[c + 1], ys[r + 1])) for r in range(len(ys) - 1) for c in range(len(xs) - 1)
    ]
    return Grid(list(ys), list(xs), places)


def _segments(page: pymupdf.Page) -> tuple[list[_Segment], list[_Segment]]:
    """Straight lines across and down, pieces of one line joined."""
    across: list[_Segment] = []
    down: list[_Segment] = []

    def add(x0: float, y0: float, x1: float, y1: float) -> None:
        if abs(y1 - y0) <= _STRAIGHT and abs(x1 - x0) >= _SHORTEST:
            across.append(_Segment((y0 + y1) / 2, min(x0, x1), max(x0, x1)))
        elif abs(x1 - x0) <= _STRAIGHT and abs(y1 - y0) >= _SHORTEST:
            down.append(_Segment((x0 + x1) / 2, min(y0, y1), max(y0, y1)))

    drawings = page.get_cdrawings()
    if len(drawings) > _MOST_PATHS:
        return [], []
    for path in drawings:
        stroked = "s" in path.get("type", "")
        for item in path.get("items", ()):
            if item[0] == "l" and stroked:
                add(*item[1], *item[2])
            elif item[0] in ("re", "qu"):
                x0, y0, x1, y1 = pymupdf.Rect(item[1]) if item[0] == "re" else pymupdf.Quad(item[1]).rect
                if y1 - y0 <= _THIN < x1 - x0:
                    add(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2)
                elif x1 - x0 <= _THIN < y1 - y0:
                    add((x0 + x1) / 2, y0, (x0 + x1) / 2, y1)
                elif stroked:
                    add(x0, y0, x1, y0)
                    add(x0, y1, x1, y1)
                    add(x0, y0, x0, y1)
                    add(x1, y0, x1, y1)
    return _joined(across), _joined(down)


def _joined(segments: list[_Segment]) -> list[_Segment]:
    out: list[_Segment] = []
    for one in sorted(segments, key=lambda s: (round(s.at), s.start)):
        for other in reversed(out[-8:]):
            if abs(other.at - one.at) <= 1.5 and one.start <= other.end + 2.0 and one.end >= other.start - 2.0:
                other.start, other.end = min(other.start, one.start), max(other.end, one.end)
                break
        else:
            out.append(_Segment(one.at, one.start, one.end))
    return out


def _networks(across: list[_Segment], down: list[_Segment]) -> list[tuple[list[_Segment], list[_Segment]]]:
    """Lines that touch one another, directly or over others."""
    parent = list(range(len(across) + len(down)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i, h in enumerate(across):
        for j, v in enumerate(down, len(across)):
            if h.start - _NEAR <= v.at <= h.end + _NEAR and v.start - _NEAR <= h.at <= v.end + _NEAR:
                parent[root(i)] = root(j)
    found: dict[int, tuple[list[_Segment], list[_Segment]]] = {}
    for i, segment in enumerate([*across, *down]):
        found.setdefault(root(i), ([], []))[i >= len(across)].append(segment)
    return [(h, v) for h, v in found.values() if len(h) >= 2 and v]


def _levels(segments: Sequence[_Segment]) -> list[float]:
    """Where lines lie; those closer than a line of print are one."""
    levels: list[list[float]] = []
    for at in sorted(segment.at for segment in segments):
        if levels and at - levels[-1][-1] <= _NEAR:
            levels[-1].append(at)
        else:
            levels.append([at])
    return [sum(level) / len(level) for level in levels]


def _columns(h: list[_Segment], v: list[_Segment]) -> list[float]:
    """Sides of columns. Tables may be open at the left and right: there the lines across end beyond the last one
    down."""
    xs = _levels(v)
    starts, ends = [s.start for s in h], [s.end for s in h]
    left, right = sorted(starts)[len(h) // 2], sorted(ends)[len(h) // 2]
    if left < xs[0] - 4 * _NEAR:
        xs.insert(0, left)
    if right > xs[-1] + 4 * _NEAR:
        xs.append(right)
    return xs


def _places(ys: list[float], xs: list[float], h: list[_Segment], v: list[_Segment]) -> list[Place]:
    """The cells: parts of the grid with no line between them are one."""
    rows, columns = len(ys) - 1, len(xs) - 1
    parent = list(range(rows * columns))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for r in range(rows):
        for c in range(columns):
            if c + 1 < columns and not _bounded(v, xs[c + 1], ys[r], ys[r + 1]):
                parent[root(r * columns + c)] = root(r * columns + c + 1)
            if r + 1 < rows and not _bounded(h, ys[r + 1], xs[c], xs[c + 1]):
                parent[root(r * columns + c)] = root((r + 1) * columns + c)
    parts: dict[int, list[tuple[int, int]]] = {}
    for r in range(rows):
        for c in range(columns):
            parts.setdefault(root(r * columns + c), []).append((r, c))
    places = []
    for part in parts.values():
        r0, r1 = min(r for r, _ in part), max(r for r, _ in part)
        c0, c1 = min(c for _, c in part), max(c for _, c in part)
        whole = len(part) == (r1 - r0 + 1) * (c1 - c0 + 1)
        for r, c, high, wide in [(r0, c0, r1 - r0 + 1, c1 - c0 + 1)] if whole else [(r, c, 1, 1) for r, c in part]:
            places.append(Place(r, c, high, wide, (xs[c], ys[r], xs[c + wide], ys[r + high])))
    return sorted(places, key=lambda place: (place.row, place.column))


def _bounded(segments: list[_Segment], at: float, start: float, end: float) -> bool:
    cover = sum(max(0.0, min(s.end, end) - max(s.start, start)) for s in segments if abs(s.at - at) <= _NEAR)
    return cover >= _LEAST_COVER * (end - start)
