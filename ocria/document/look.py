"""Look at a PDF page before it is read: its size, its ink, and its text layer."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import numpy as np
import pymupdf

from ocria.document.facts import PageFacts
from ocria.document.hidden import TextLayer, render, text_layer
from ocria.document.ink import ink_mask, is_blank
from ocria.document.look_pixels import LOOK_DPI, NEAR_DPI, with_color
from ocria.document.mupdf import take_warnings
from ocria.document.page_copy import to_displayed
from ocria.document.text_samples import doubtful_text
from ocria.document.trust import distrust


def look_at_pdf_page(page: pymupdf.Page, gray: np.ndarray, dpi: float) -> PageFacts:
    """Facts of a PDF page.

    Args:
        page: the page.
        gray: uint8 [H, W], the displayed page rendered at `dpi`.
    """
    layer = text_layer(page, gray, dpi)
    visible, hidden = _characters(layer)
    letters = sum(not c.isspace() for c in visible)
    # On a huge page the print is too small to show in the few pixels it gets.
    too_coarse = dpi < LOOK_DPI / 2
    mask = ink_mask(gray)
    return PageFacts(
        width=page.rect.width,
        height=page.rect.height,
        blank=is_blank(gray, dpi) and not (too_coarse and letters) and _is_blank_from_near(page),
        letters=letters,
        hidden_letters=sum(not c.isspace() for c in hidden),
        ink_in_text=1.0 if too_coarse else _share_inside(mask, _boxes(layer), dpi / 72),
        image_cover=_cover(page),
        distrust=distrust(visible),
        warnings=take_warnings(),
        doubtful=doubtful_text(page, layer),
    )


def _is_blank_from_near(page: pymupdf.Page) -> bool:
    """Whether a page that looks blank is so in finer pixels and in all colours: thin, pale or yellow print is easily
    missed."""
    pixels, dpi = render(page, page.rect, NEAR_DPI)
    return is_blank(with_color(pixels), dpi)


def _characters(layer: TextLayer) -> tuple[str, str]:
    """Visible and hidden characters, a line for each run."""
    parts: list[list[str]] = [[], []]
    for _, glyphs in groupby(range(len(layer.glyphs)), key=lambda i: layer.glyphs[i].run):
        for shows, members in groupby(glyphs, key=lambda i: layer.shows[i]):
            text = "".join(layer.glyphs[i].text for i in members if not layer.again[i])
            parts[not shows].append(text)
    return "\n".join(_joined(parts[0])), "\n".join(_joined(parts[1]))


def _boxes(layer: TextLayer) -> list[pymupdf.Rect]:
    """Around the visible glyphs of each run, on the displayed page."""
    boxes: dict[int, pymupdf.Rect] = {}
    for glyph, shows in zip(layer.glyphs, layer.shows, strict=True):
        if shows:
            boxes.setdefault(glyph.run, pymupdf.Rect()).include_rect(glyph.box)
    return list(boxes.values())


def _joined(runs: Iterable[str]) -> list[str]:
    """Runs as lines, single letters put together: some producers place every letter alone."""
    lines: list[str] = []
    single = False
    for run in runs:
        if single and len(run) == 1:
            lines[-1] += run
        else:
            lines.append(run)
        single = len(run) == 1
    return lines


def _cover(page: pymupdf.Page) -> float:
    """Share of the page's area under images, counted on a coarse grid so that overlaps count once."""
    grid = np.zeros((100, 100), dtype=bool)
    shown = to_displayed(page)
    for image in page.get_image_info():
        box = pymupdf.Rect(image["bbox"]) * shown & page.rect
        if not box.is_empty:
            x0, x1 = (int(100 * (x - page.rect.x0) / page.rect.width) for x in (box.x0, box.x1))
            y0, y1 = (int(100 * (y - page.rect.y0) / page.rect.height) for y in (box.y0, box.y1))
            grid[y0 : y1 + 1, x0 : x1 + 1] = True
    return float(grid.mean())


def _share_inside(mask: np.ndarray, boxes: list[pymupdf.Rect], scale: float) -> float:
    total = int(mask.sum())
    if total == 0:
        return 0.0
    inside = np.zeros_like(mask)
    for box in boxes:
        x0, y0, x1, y1 = (round(v * scale) for v in box)
        inside[max(0, y0 - 1) : y1 + 1, max(0, x0 - 1) : x1 + 1] = True
    return float((mask & inside).sum() / total)
