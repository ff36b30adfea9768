"""Lines that were read, placed as text on an empty page, so that they get the layout analysis of a
born-digital page: PyMuPDF's layout works on text and finds nothing on a bare image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pymupdf

from ocria.document.mupdf import serial
from ocria.events import Box

# Of the built-in fonts; MuPDF falls back to others for scripts that it lacks.
_FONT = "tiro"
# Ink of a line from ascenders to descenders, as a share of the font size; without descenders.
_INK_HEIGHT = 0.9
_INK_ABOVE = 0.68
_DESCENDING = set("gjpqy,;()[]{}|Q§")
# Sizes this near to that of most lines are equal to it: ink heights vary with the letters of a line.
_SAME_SIZE = 0.2


@dataclass(frozen=True, slots=True)
class PlacedLine:
    """One line of text and its box in points of the displayed page."""

    text: str
    box: Box


@serial
def place_lines(width: float, height: float, lines: Sequence[PlacedLine]) -> pymupdf.Document:
    """A PDF with one page of `width` x `height` points that bears the lines where they were found.

    The size of the font follows from the height of a line's ink, its width from horizontal scaling, so that
    columns and headings keep their shapes.
    """
    pdf = pymupdf.open()
    page = pdf.new_page(width=width, height=height)
    font = pymupdf.Font(_FONT)
    shown = [line for line in lines if line.text.strip()]
    for line, size in zip(shown, _font_sizes(shown), strict=True):
        text = line.text.strip()
        x0, _, x1, y1 = line.box
        baseline = y1 - (_INK_HEIGHT - _INK_ABOVE) * size if _DESCENDING & set(text) else y1
        start = pymupdf.Point(x0, baseline)
        natural = font.text_length(text, fontsize=size)
        if natural <= 0:
            continue
        writer = pymupdf.TextWriter(page.rect)
        writer.append(start, text, font=font, fontsize=size)
        writer.write_text(page, morph=(start, pymupdf.Matrix((x1 - x0) / natural, 1)))
    return pdf


def _font_sizes(lines: Sequence[PlacedLine]) -> list[float]:
    """Points per line; lines of nearly one size get the very same."""
    if not lines:
        return []
    sizes = np.array([_font_size(line) for line in lines])
    weights = np.array([len(line.text) for line in lines])
    order = np.argsort(sizes)
    common = sizes[order][np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)]
    return np.where(np.abs(sizes / common - 1) < _SAME_SIZE, common, sizes).tolist()


def _font_size(line: PlacedLine) -> float:
    ink = max(1.0, line.box[3] - line.box[1])
    return ink / (_INK_HEIGHT if _DESCENDING & set(line.text) else _INK_ABOVE)
