"""Pixels on terminals that can show them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.widget import Widget


def image_widget() -> type[Widget] | None:
    """What shows an image in Sixel or Kitty graphics; None where the terminal has neither.

    The terminal is asked, which takes a moment and reads what it answers from standard input: call it once, before the
    app has the terminal.
    """
    if sys.__stdout__ is None or not sys.__stdout__.isatty() or sys.__stdin__ is None or not sys.__stdin__.isatty():
        return None
    from textual_image.renderable import Image as Found
    from textual_image.renderable import SixelImage, TGPImage

    if Found not in (SixelImage, TGPImage):
        return None
    from textual_image.widget import Image

    return Image


def cell_pixels() -> tuple[int, int]:
    """Width and height of a cell in pixels."""
    from textual_image.widget import get_cell_size

    size = get_cell_size()
    return size.width, size.height
