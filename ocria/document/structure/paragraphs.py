"""Paragraphs within a part of a page: where one begins, its first line is indented or stands apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from ocria.document.structure.pieces import Line, box_of, line_text

_INDENT = (0.7, 4.5)
"""Of the size of letters, how far a first line is indented."""
_APART = 1.6
"""Of the usual distance of lines."""
_ENDS = '.!?:;…"”’»)'


def paragraphs(lines: Sequence[Line]) -> list[list[Line]]:
    """The lines of each paragraph of running text."""
    if len(lines) < 3 or not all(piece.across for line in lines for piece in line):
        return [list(lines)]
    boxes = [box_of(line) for line in lines]
    left = median(box[0] for box in boxes)
    size = median(piece.size for line in lines for piece in line)
    steps = [after[0].baseline - before[0].baseline for before, after in pairwise(lines)]
    usual = median(steps)
    parts = [[lines[0]]]
    for at in range(1, len(lines)):
        indent = (boxes[at][0] - left) / size
        apart = len(lines) > 3 and steps[at - 1] > _APART * usual > 0
        if apart or (_INDENT[0] <= indent <= _INDENT[1] and _ends(lines[at - 1]) and _is_alone(boxes, at, left, size)):
            parts.append([])
        parts[-1].append(lines[at])
    return parts


def _ends(line: Line) -> bool:
    return line_text(line).rstrip()[-1:] in _ENDS


def _is_alone(boxes: Sequence[tuple[float, float, float, float]], at: int, left: float, size: float) -> bool:
    """Whether the lines around an indented one are not: a verse or an address is indented as a whole."""
    around = boxes[at - 1 : at] + boxes[at + 1 : at + 2]
    return sum(abs(box[0] - left) <= 0.5 * size for box in around) == len(around)
