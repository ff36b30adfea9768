"""The parts of a page that the layout analysis finds, and the text of each: every piece of it in just one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ocria.document.structure.pieces import Piece, box_of
from ocria.document.structure.rulings import Grid
from ocria.events import Box

# Points by which text may stand out of the box of its part.
_MARGIN = 2.0


@dataclass(slots=True)
class Region:
    """A part of a page."""

    kind: str
    """A type of block."""
    box: Box
    grid: Grid | None = None
    """Of tables."""
    certain: bool = False
    """Whether the cells of the table are known, by lines on the page or by how words stand; else they are a guess."""
    pieces: list[Piece] = field(default_factory=list)


def share_out(regions: Sequence[Region], pieces: Sequence[Piece]) -> list[Region]:
    """Give every piece to one region, and make regions of text for those that stand in none; all in reading order."""
    homes = [_home(regions, piece) for piece in pieces]
    by_line: dict[int, Counter] = {}
    for piece, home in zip(pieces, homes, strict=True):
        by_line.setdefault(piece.line, Counter())[home] += 1
    loose: list[Piece] = []
    for piece, home in zip(pieces, homes, strict=True):
        if home is None:
            # The end of a line that stands out of the box belongs to the rest of the line, but for tables.
            found = [index for index, _ in by_line[piece.line].most_common() if index is not None]
            home = next((index for index in found if regions[index].kind != "table"), None)
        if home is None:
            loose.append(piece)
        else:
            regions[home].pieces.append(piece)
    ordered = [region for region in regions if region.pieces or region.kind == "picture"]
    for part in _parts(loose):
        region = Region("text", box_of(part), pieces=part)
        ordered.insert(_rank(ordered, region), region)
    return ordered


def _home(regions: Sequence[Region], piece: Piece) -> int | None:
    """The region that a piece stands in: a table before others, then the smallest."""
    x, y = piece.middle
    found = []
    for index, region in enumerate(regions):
        x0, y0, x1, y1 = region.box
        if x0 - _MARGIN <= x <= x1 + _MARGIN and y0 - _MARGIN <= y <= y1 + _MARGIN:
            inside = x0 <= x <= x1 and y0 <= y <= y1
            found.append((not inside, region.kind != "table", (x1 - x0) * (y1 - y0), index))
    return min(found)[-1] if found else None


def _parts(loose: Sequence[Piece]) -> list[list[Piece]]:
    """Text that stands in no region, by the blocks of MuPDF; those that lie close below one another are one."""
    parts: list[list[Piece]] = []
    for piece in loose:
        if parts and (parts[-1][-1].block == piece.block or _goes_on(parts[-1], piece)):
            parts[-1].append(piece)
        else:
            parts.append([piece])
    return parts


def _goes_on(part: Sequence[Piece], piece: Piece) -> bool:
    x0, _, x1, y1 = box_of(part)
    near = -0.5 * piece.size <= piece.box[1] - y1 <= 0.5 * piece.size
    return near and piece.across and abs(piece.size - part[-1].size) < 0.5 and x0 - 2.0 <= piece.box[0] <= x1


def _rank(regions: Sequence[Region], new: Region) -> int:
    """Where a new region comes in the reading order: behind the last one above it in its column."""
    x0, y0, x1, _ = new.box
    above = [
        index
        for index, other in enumerate(regions)
        if other.box[1] <= y0 and min(x1, other.box[2]) - max(x0, other.box[0]) > 0 and other.kind != "footer"
    ]
    if above:
        return above[-1] + 1
    below = (index for index, other in enumerate(regions) if other.box[1] > y0 and other.kind != "header")
    return next(below, len(regions))
