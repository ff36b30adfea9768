"""A fallback reading order of line boxes: recursive cuts, columns of prose before rows."""

from __future__ import annotations

import numpy as np

from .median import median

PROSE = 5.0
"""Least usual width of a column's lines, in line heights: narrower ones are a table's cells."""


def reading_order(boxes: np.ndarray) -> list[int]:
    """Order of boxes float [n, 4] (x0, y0, x1, y1)."""
    return _order(boxes, np.arange(len(boxes))) if len(boxes) else []


def _order(boxes: np.ndarray, index: np.ndarray) -> list[int]:
    if len(index) < 2:
        return list(map(int, index))
    columns = _columns(boxes, index)
    if len(columns) > 1:
        return [i for column in columns for i in _order(boxes, column)]
    bands = _bands(boxes, index)
    if len(bands) > 1:
        return [i for band in bands for i in _order(boxes, band)]
    return _rows(boxes, index)


def _columns(boxes: np.ndarray, index: np.ndarray) -> list[np.ndarray]:
    """Columns of prose from left to right; the boxes as one group where there are none."""
    height = median(boxes[index, 3] - boxes[index, 1])
    order = index[np.argsort(boxes[index, 0], kind="stable")]
    end = np.maximum.accumulate(boxes[order, 2])
    cut = np.flatnonzero(boxes[order, 0][1:] > end[:-1] + 0.2 * height) + 1
    groups = np.split(order, cut)
    if len(groups) == 1:
        return groups
    # A narrow strip (line numbers, a table's column) joins what is to its left.
    columns = [groups[0]]
    for group in groups[1:]:
        if _is_prose(boxes[group]) and _is_prose(boxes[columns[-1]]):
            columns.append(group)
        else:
            columns[-1] = np.concatenate([columns[-1], group])
    return columns if len(columns) > 1 else [index]


def _is_prose(boxes: np.ndarray) -> bool:
    width = median(boxes[:, 2] - boxes[:, 0])
    return len(boxes) >= 3 and width >= PROSE * median(boxes[:, 3] - boxes[:, 1])


def _bands(boxes: np.ndarray, index: np.ndarray) -> list[np.ndarray]:
    """Bands from top to bottom, parted by boxes so wide that they keep the rest from falling into columns.

    Without such a box, or without columns beside it, there is nothing to part.
    """
    for wide in _widest(boxes, index, 8):
        y0, y1 = boxes[wide, 1], boxes[wide, 3]
        middle = 0.5 * (boxes[index, 1] + boxes[index, 3])
        band = (middle > y0) & (middle < y1)
        above, below = index[middle <= y0], index[middle >= y1]
        if any(_has_columns(boxes, part, 1) for part in (above, below)):
            return [part for part in (above, index[band], below) if len(part)]
    return _widest_gaps(boxes, index)


def _has_columns(boxes: np.ndarray, index: np.ndarray, depth: int) -> bool:
    """The boxes fall into columns, at once or (`depth` 1) above or below one wide box."""
    if len(index) < 2:
        return False
    if len(_columns(boxes, index)) > 1:
        return True
    middle = 0.5 * (boxes[index, 1] + boxes[index, 3])
    return depth > 0 and any(
        _has_columns(boxes, part, depth - 1)
        for wide in _widest(boxes, index, 4)
        for part in (index[middle <= boxes[wide, 1]], index[middle >= boxes[wide, 3]])
    )


def _widest(boxes: np.ndarray, index: np.ndarray, count: int) -> np.ndarray:
    return index[np.argsort(boxes[index, 0] - boxes[index, 2], kind="stable")][:count]


def _widest_gaps(boxes: np.ndarray, index: np.ndarray) -> list[np.ndarray]:
    """Parted at the widest white band, where one of the parts then falls into columns."""
    order = index[np.argsort(boxes[index, 1], kind="stable")]
    end = np.maximum.accumulate(boxes[order, 3])
    gap = boxes[order, 1][1:] - end[:-1]
    for at in np.argsort(-gap, kind="stable")[:8]:
        if gap[at] <= 0:
            break
        parts = np.split(order, [at + 1])
        if any(_has_columns(boxes, part, 0) for part in parts):
            return parts
    return [index]


def _rows(boxes: np.ndarray, index: np.ndarray) -> list[int]:
    """Top to bottom, boxes that share half their height from left to right."""
    todo = sorted(map(int, index), key=lambda i: boxes[i, 1] + boxes[i, 3])
    out: list[int] = []
    while todo:
        head = todo[0]
        y0, y1 = boxes[head, 1], boxes[head, 3]
        row = [
            i
            for i in todo
            if min(y1, boxes[i, 3]) - max(y0, boxes[i, 1]) >= 0.5 * min(y1 - y0, boxes[i, 3] - boxes[i, 1])
        ]
        out += sorted(row, key=lambda i: boxes[i, 0])
        todo = [i for i in todo if i not in row]
    return out
