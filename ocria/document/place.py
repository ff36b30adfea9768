"""Lines that were read, placed as text on an empty page, so that they get the layout analysis of a
born-digital page: PyMuPDF's layout works on text and finds nothing on a bare image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pymupdf

from ocria.document.geometry import LinePlace
from ocria.document.layout import lay_out
from ocria.document.mupdf import serial
from ocria.document.result import Block

# Of the built-in fonts; MuPDF takes glyphs it lacks from others, so that any character survives.
_FONT = "tiro"
_X_HEIGHT = 0.46
"""Share of the font size."""
# Sizes this near to the most common one are taken for it: what is measured varies with the letters of a line.
_SAME_SIZE = 0.15


@serial
def lay_out_lines(width: float, height: float, lines: Sequence[tuple[str, LinePlace]]) -> list[Block]:
    """The blocks of a page of `width` x `height` points, in reading order, from its lines."""
    if not any(text.strip() for text, _ in lines):
        return []
    with place_lines(width, height, lines) as pdf:
        return lay_out(pdf, 0, all_shows=True).blocks


@serial
def place_lines(width: float, height: float, lines: Sequence[tuple[str, LinePlace]]) -> pymupdf.Document:
    """A PDF with one page of `width` x `height` points that bears the lines where they were found.

    The size of the font follows from the height of the letters, the width from horizontal scaling, so that
    columns and headings keep their shapes. Lines without text are left out.
    """
    pdf = pymupdf.open()
    page = pdf.new_page(width=width, height=height)
    font = pymupdf.Font(_FONT)
    shown = [(text.strip(), place) for text, place in lines if text.strip()]
    for (text, place), size in zip(shown, _font_sizes(shown), strict=True):
        start = pymupdf.Point(place.box[0], place.baseline)
        natural = font.text_length(text, fontsize=size)
        if natural <= 0:
            continue
        writer = pymupdf.TextWriter(page.rect)
        writer.append(start, text, font=font, fontsize=size)
        scale = (place.box[2] - place.box[0]) / natural
        writer.write_text(page, morph=(start, pymupdf.Matrix(scale, 1)))
    return pdf


def _font_sizes(lines: Sequence[tuple[str, LinePlace]]) -> list[float]:
    """Points of each line; those near to the size of most letters of the page get just that."""
    if not lines:
        return []
    sizes = np.array([max(1.0, place.x_height / _X_HEIGHT) for _, place in lines])
    letters = np.cumsum([len(lines[i][0]) for i in np.argsort(sizes)])
    common = np.sort(sizes)[np.searchsorted(letters, letters[-1] / 2)]
    return np.where(np.abs(sizes / common - 1) < _SAME_SIZE, common, sizes).tolist()
