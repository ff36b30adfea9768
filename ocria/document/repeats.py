"""Glyphs that repeat others almost in their place: letters drawn twice to look bold, or with a shadow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ocria.document.glyphs import Glyph, Run

# Shares of the font size.
_FARTHEST_RUN = 0.3
_FARTHEST_ACROSS = 0.2
# Share of a letter's width; letters that are really there twice stand a whole width apart.
_FARTHEST_ALONG = 0.45
_CELL = 16.0
"""Points; more than any repeat is away, except in the largest print."""


def repeats(glyphs: Sequence[Glyph], runs: Sequence[Run], shows: Sequence[bool]) -> list[bool]:
    """Of each glyph, whether it shows again what a visible one before it shows: as part of a run that is there
    already a little beside, or alone."""
    again = [False] * len(glyphs)
    members: dict[int, list[int]] = defaultdict(list)
    for i, glyph in enumerate(glyphs):
        if shows[i]:
            members[glyph.run].append(i)
    seen_runs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    seen: dict[tuple[str, int, int], list[tuple[float, float]]] = defaultdict(list)
    for number, indices in members.items():
        size = runs[number].size
        text = "".join(glyphs[i].text for i in indices)
        x, y = glyphs[indices[0]].origin
        # A run of one letter may well stand beside its like.
        if len(text.strip()) > 1:
            far = _FARTHEST_RUN * size
            if any(abs(x - other_x) < far and abs(y - other_y) < far for other_x, other_y in seen_runs[text]):
                for i in indices:
                    again[i] = True
                continue
            seen_runs[text].append((x, y))
        for i in indices:
            again[i] = not glyphs[i].text.isspace() and _stands(glyphs[i], runs[number], seen)
    return again


def _stands(glyph: Glyph, run: Run, seen: dict[tuple[str, int, int], list[tuple[float, float]]]) -> bool:
    """Whether the glyph stands already about where it is to stand; notes it where it does not."""
    (x, y), (across, down) = glyph.origin, run.direction
    column, row = int(x // _CELL), int(y // _CELL)
    width = abs(across) * (glyph.box[2] - glyph.box[0]) + abs(down) * (glyph.box[3] - glyph.box[1])
    along_limit, across_limit = _FARTHEST_ALONG * min(width, run.size), _FARTHEST_ACROSS * run.size
    for i in (column - 1, column, column + 1):
        for j in (row - 1, row, row + 1):
            for other_x, other_y in seen.get((glyph.text, i, j), ()):
                along = (x - other_x) * across + (y - other_y) * down
                aside = (y - other_y) * across - (x - other_x) * down
                if abs(along) < along_limit and abs(aside) < across_limit:
                    return True
    seen[glyph.text, column, row].append((x, y))
    return False
