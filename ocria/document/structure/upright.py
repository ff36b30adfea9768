"""Boxes on a page as it is read: a displayed page may lie on its side."""

from __future__ import annotations

from ocria.document.result import Page
from ocria.events import Box


def upright_size(page: Page) -> tuple[float, float]:
    """Width and height of the page as it is read, in points."""
    return (page.height, page.width) if page.rotation in (90, 270) else (page.width, page.height)


def upright_box(page: Page, box: Box) -> Box:
    """A box of the displayed page on the page as it is read, origin top left."""
    x0, y0, x1, y1 = box
    if page.rotation == 90:
        return page.height - y1, x0, page.height - y0, x1
    if page.rotation == 180:
        return page.width - x1, page.height - y1, page.width - x0, page.height - y0
    if page.rotation == 270:
        return y0, page.width - x1, y1, page.width - x0
    return box
