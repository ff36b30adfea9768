"""The reading order of two columns of text that the layout analysis went to and fro between."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ocria.document.structure.regions import Region

_LEAST_SWITCHES = 3
"""Between the columns, in one run of regions: left, right, left and right again."""
_LEAST_REGIONS = 3
"""In each of the columns."""
_LEAST_SHARE = 0.25
"""Of both, how much each of the columns is wide."""
_MOST_BESIDE = 0.5
"""Of the regions of the shorter column: from there on they are rows rather than columns."""
_SAME_HEIGHT = 3.0


def in_columns(regions: Sequence[Region]) -> list[Region]:
    """Regions in reading order, the left one of two columns before the right one where they were mixed. What reaches
    over both columns, headers and footers stay where they are."""
    body = [region for region in regions if region.kind not in ("header", "footer")]
    gutter = _gutter(body)
    if gutter is None:
        return list(regions)
    out: list[Region] = []
    run: list[Region] = []
    for region in regions:
        if region.kind in ("header", "footer") or region.box[0] < gutter < region.box[2]:
            out += _sorted(run, gutter)
            out.append(region)
            run = []
        else:
            run.append(region)
    return out + _sorted(run, gutter)


def _gutter(regions: Sequence[Region]) -> float | None:
    """The x between two columns, crossed by the fewest regions; None where most cross it or a column is narrow."""
    if len(regions) < 2 * _LEAST_REGIONS:
        return None
    left, right = min(region.box[0] for region in regions), max(region.box[2] for region in regions)
    places = sorted({region.box[2] + 1.0 for region in regions})
    inside = [x for x in places if left + _LEAST_SHARE * (right - left) < x < right - _LEAST_SHARE * (right - left)]
    crossed = [(sum(region.box[0] < x < region.box[2] for region in regions), -x) for x in inside]
    if not crossed or min(crossed)[0] > 0.2 * len(regions):
        return None
    return -min(crossed)[1]


def _sorted(run: list[Region], gutter: float) -> list[Region]:
    sides = [region.box[0] >= gutter for region in run]
    parts = [[region for region, side in zip(run, sides, strict=True) if side == which] for which in (False, True)]
    few = min(map(len, parts))
    switches = sum(one != other for one, other in pairwise(sides))
    if switches < _LEAST_SWITCHES or few < _LEAST_REGIONS or any(region.kind == "table" for region in run):
        return run
    beside = sum(any(abs(one.box[1] - other.box[1]) <= _SAME_HEIGHT for other in parts[1]) for one in parts[0])
    return run if beside > _MOST_BESIDE * few else [*parts[0], *parts[1]]
