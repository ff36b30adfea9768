"""A fallback reading order of line boxes: recursive cuts at columns of prose, else from top to bottom."""

from __future__ import annotations

import numpy as np

PROSE = 10.0
"""Least usual width of a column's lines, in line heights: narrower ones are a table's cells."""


def reading_order(boxes: np.ndarray) -> list[int]:
    """Order of boxes float [n, 4] (x0, y0, x1, y1)."""
    return _order(boxes, np.arange(len(boxes))) if len(boxes) else []


def _order(boxes: np.ndarray, index: np.ndarray) -> list[int]:
    if len(index) < 2:
        return list(map(int, index))
    columns = _split(boxes[index], 0)
    if len(columns) > 1 and all(_is_prose(boxes[index[c]]) for c in columns):
        return [i for c in columns for i in _order(boxes, index[c])]
    bands = _split(boxes[index], 1)
    if len(bands) > 1:
        merged = _join_bands(boxes, [index[b] for b in bands])
        if len(merged) > 1:
            return [i for band in merged for i in _order(boxes, band)]
    return _rows(boxes, index)


def _split(boxes: np.ndarray, axis: int) -> list[np.ndarray]:
    """Groups of boxes with nothing but white between them along an axis."""
    order = np.argsort(boxes[:, axis], kind="stable")
    end = np.maximum.accumulate(boxes[order, axis + 2])
    height = float(np.median(boxes[:, 3] - boxes[:, 1]))
    least = 0.3 * height if axis == 0 else 0.0
    cut = np.flatnonzero(boxes[order, axis][1:] > end[:-1] + least) + 1
    return np.split(order, cut)


def _is_prose(boxes: np.ndarray) -> bool:
    width = float(np.median(boxes[:, 2] - boxes[:, 0]))
    return len(boxes) >= 3 and width >= 0.5 * PROSE * float(np.median(boxes[:, 3] - boxes[:, 1]))


def _join_bands(boxes: np.ndarray, bands: list[np.ndarray]) -> list[np.ndarray]:
    """Join neighbouring bands that together still split into columns, so that a column is read to its end."""
    out: list[np.ndarray] = []
    for band in bands:
        if out:
            both = np.concatenate([out[-1], band])
            if len(_split(boxes[both], 0)) > 1 and len(_split(boxes[out[-1]], 0)) > 1:
                out[-1] = both
                continue
        out.append(band)
    return out


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
