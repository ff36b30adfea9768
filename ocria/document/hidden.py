"""Text of a page that nobody can see: outside of the page, without ink, as light as its paper, under something, too
small to be print, or drawn a second time a little beside itself.

The surest test is the page itself: a glyph shows where the page looks different without it. So that few pages have to
be drawn twice, glyphs that plainly show, dark ones with nothing drawn over them, are not asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pymupdf
from pymupdf import mupdf

from ocria.document.glyphs import Glyph, Run, drop_glyphs, trace
from ocria.document.page_copy import copy_page, to_displayed
from ocria.document.repeats import repeats

_NEITHER = 3  # PDF text render mode
_LEAST_OPACITY = 0.02
_LEAST_SIZE = 1.0
"""Points: no press and no screen shows smaller letters."""
_DARK = 0.5
"""Most luminance of a colour that shows on any paper it is likely on."""
_LEAST_INK = 40
"""Levels between the ends of a glyph's box in a coarse rendering, from which there plainly is ink."""
_LEAST_CHANGE = 8
"""Levels by which a pixel must change for the eye to see it."""
_CLOSE_DPI = 144.0
_COARSE_DPI = 36.0
_MOST_PIXELS = 16_000_000
_PAINTS = ("fill-path", "fill-image", "fill-imgmask", "fill-shade")


@dataclass(frozen=True, slots=True)
class TextLayer:
    """What a page draws as text."""

    glyphs: list[Glyph]
    runs: list[Run]
    shows: list[bool]
    """Of each glyph, whether a person can see it."""
    again: list[bool]
    """Of each glyph, whether it shows but repeats one that does, as producers do to make letters bold or give them a
    shadow."""

    @property
    def doomed(self) -> list[int]:
        """Indices of the glyphs that are no text of the page."""
        return [i for i, (shows, again) in enumerate(zip(self.shows, self.again, strict=True)) if again or not shows]


def text_layer(page: pymupdf.Page, gray: np.ndarray | None = None, dpi: float = 72.0) -> TextLayer:
    """The glyphs of a page and which of them show. The page is left as it is.

    Args:
        gray: uint8 [H, W], the displayed page rendered at `dpi`, where it is at hand.
    """
    glyphs, runs = trace(page)
    shown = page.rect
    shows = [_can_show(glyph, runs[glyph.run], shown) for glyph in glyphs]
    asked = [i for i, glyph in enumerate(glyphs) if shows[i] and not glyph.text.isspace()]
    if asked:
        if gray is None:
            gray, dpi = render(page, page.rect, 72.0, gray=True)
        doubted = _doubted(page, glyphs, runs, asked, gray, dpi / 72)
        for i in _unseen(page, glyphs, doubted):
            shows[i] = False
    _hide_spaces(glyphs, shows)
    return TextLayer(glyphs, runs, shows, repeats(glyphs, runs, shows))


def hidden_text(page: pymupdf.Page) -> list[Glyph]:
    """The glyphs of a page that a person cannot see, and those that repeat others in their place."""
    layer = text_layer(page)
    return [layer.glyphs[i] for i in layer.doomed]


def without_hidden_text(page: pymupdf.Page) -> tuple[pymupdf.Page, bool]:
    """The page without the text that cannot be seen, and whether what is left shows. Where there is any, the content of
    `page` is written anew in its PDF, which must be the caller's own.

    The reading of a scan, which lies hidden under or over its image, stays where there is little else.
    """
    layer = text_layer(page)
    doomed = layer.doomed
    if _is_reading_of_scan(page, layer):
        return page, False
    return _without(page, layer.glyphs, doomed) if doomed else page, True


def _without(page: pymupdf.Page, glyphs: Sequence[Glyph], doomed: Sequence[int]) -> pymupdf.Page:
    try:
        return drop_glyphs(page, glyphs, doomed)
    except mupdf.FzErrorBase:
        # Content too damaged to be written anew keeps its text: a word too many is less than a page lost.
        return page


def render(page: pymupdf.Page, part: pymupdf.Rect, dpi: float, gray: bool = False) -> tuple[np.ndarray, float]:
    """Part of the displayed page as uint8 [H, W, C] or, if gray, [H, W], and the resolution it was given."""
    dpi = min(dpi, 72 * (_MOST_PIXELS / max(part.width * part.height, 1.0)) ** 0.5)
    space = pymupdf.csGRAY if gray else pymupdf.csRGB
    pixels = page.get_pixmap(matrix=pymupdf.Matrix(dpi / 72, dpi / 72), clip=part, colorspace=space, alpha=False)
    rows = np.frombuffer(pixels.samples_mv, dtype=np.uint8).reshape(pixels.height, pixels.stride)
    rows = rows[:, : pixels.width * pixels.n].copy()
    return rows if gray else rows.reshape(pixels.height, pixels.width, pixels.n), dpi


def _is_reading_of_scan(page: pymupdf.Page, layer: TextLayer) -> bool:
    """Whether most of the text is hidden and lies on images."""
    hidden = [glyph for glyph, shows in zip(layer.glyphs, layer.shows, strict=True) if not shows]
    if 2 * len(hidden) <= len(layer.glyphs):
        return False
    shown = to_displayed(page)
    images = [pymupdf.Rect(image["bbox"]) * shown for image in page.get_image_info()]
    on_images = sum(any(pymupdf.Point(_middle(glyph)) in image for image in images) for glyph in hidden)
    return 2 * on_images > len(layer.glyphs)


def _can_show(glyph: Glyph, run: Run, page: pymupdf.Rect) -> bool:
    """Whether it may be seen at all, by what is known without pixels."""
    if run.kind == _NEITHER or run.opacity < _LEAST_OPACITY or run.size < _LEAST_SIZE:
        return False
    x, y = _middle(glyph)
    return page.x0 <= x <= page.x1 and page.y0 <= y <= page.y1


def _doubted(
    page: pymupdf.Page,
    glyphs: Sequence[Glyph],
    runs: Sequence[Run],
    asked: Sequence[int],
    gray: np.ndarray,
    scale: float,
) -> list[int]:
    """Those of the asked glyphs that do not plainly show; `gray` has `scale` pixels a point."""
    if scale < _COARSE_DPI / 72:
        # On a page of absurd size nothing shows in the few pixels it gets.
        return list(asked)
    last = _last_paint(page, gray.shape, scale)
    plain = {i: _is_plain(runs[glyphs[i].run]) for i in asked}
    doubted: list[int] = []
    faint: list[int] = []
    for i in asked:
        x, y = (int(v * scale) for v in _middle(glyphs[i]))
        row, column = min(max(y, 0), gray.shape[0] - 1), min(max(x, 0), gray.shape[1] - 1)
        if not plain[i] or last[row, column] > runs[glyphs[i].run].order:
            doubted.append(i)
        elif glyphs[i].number and _range(gray, glyphs[i], scale) < _LEAST_INK:
            (doubted if glyphs[i].text.isalnum() else faint).append(i)
    # A point or a dash leaves little ink: it is asked where a letter beside it is, or where it stands alone.
    known = set(asked) - set(faint) - set(doubted)
    near = {i + step for i in known for step in (-1, 1)}
    doubted += [i for i in faint if i not in near]
    return sorted(doubted)


def _is_plain(run: Run) -> bool:
    """Whether glyphs of this run are dark: colours of one to four parts are grey, RGB and CMYK."""
    color = run.color
    if run.opacity < 0.3:
        return False
    if len(color) == 3:
        return 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2] < _DARK
    return len(color) == 1 and color[0] < _DARK


def _last_paint(page: pymupdf.Page, shape: tuple[int, ...], scale: float) -> np.ndarray:
    """Of each pixel, when something other than text or a line was last painted with it in its box, or -1."""
    last = np.full(shape[:2], -1, np.int32)
    shown, turned = to_displayed(page), page.rotation != 0
    for order, (kind, box) in enumerate(page.get_bboxlog()):
        if kind in _PAINTS:
            x0, y0, x1, y1 = (v * scale for v in (pymupdf.Rect(box) * shown if turned else box))
            last[max(0, int(y0)) : max(0, int(y1 + 1)), max(0, int(x0)) : max(0, int(x1 + 1))] = order
    return last


def _range(gray: np.ndarray, glyph: Glyph, scale: float) -> int:
    x0, y0, x1, y1 = (v * scale for v in glyph.box)
    part = gray[max(0, int(y0)) : max(0, int(y1 + 1)), max(0, int(x0)) : max(0, int(x1 + 1))]
    return int(part.max()) - int(part.min()) if part.size else 0


def _unseen(page: pymupdf.Page, glyphs: Sequence[Glyph], doubted: Sequence[int]) -> list[int]:
    """Those of the doubted glyphs without which the page looks the same."""
    if not doubted:
        return []
    copy = copy_page(page.parent, page.number)
    alone = copy[0]
    around = _around([glyphs[i] for i in doubted]) & alone.rect
    if around.is_empty:
        return list(doubted)
    before, dpi = render(alone, around, _CLOSE_DPI)
    if dpi < _COARSE_DPI:
        return []
    after, _ = render(_without(alone, glyphs, doubted), around, _CLOSE_DPI)
    copy.close()
    changed = np.abs(before.astype(np.int16) - after).max(axis=2) >= _LEAST_CHANGE
    boxes = np.array([glyphs[i].box for i in doubted])
    # Its neighbours' letters may reach a little into the box of a glyph.
    margin = 0.15 * (boxes[:, 2:] - boxes[:, :2])
    corner = np.array([around.x0, around.y0])
    starts = np.floor((boxes[:, :2] + margin - corner) * dpi / 72).astype(int)
    ends = np.ceil((boxes[:, 2:] - margin - corner) * dpi / 72).astype(int)
    counts = _counts(changed, starts, np.maximum(ends, starts + 1))
    return [i for i, count in zip(doubted, counts, strict=True) if count == 0]


def _counts(mask: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """How many pixels of a mask bool [H, W] are set in boxes from (x, y) `starts` to `ends`. [N]"""
    sums = np.pad(mask.cumsum(axis=0, dtype=np.int32).cumsum(axis=1, dtype=np.int32), ((1, 0), (1, 0)))
    (x0, y0), (x1, y1) = (np.clip(part, 0, mask.shape[::-1]).T for part in (starts, ends))
    return sums[y1, x1] - sums[y0, x1] - sums[y1, x0] + sums[y0, x0]


def _hide_spaces(glyphs: Sequence[Glyph], shows: list[bool]) -> None:
    """Hide the spaces of a run that have no visible glyph of it on either side."""
    beside = [False] * len(glyphs)
    for order in (range(len(glyphs)), range(len(glyphs) - 1, -1, -1)):
        run, seen = -1, False
        for i in order:
            if glyphs[i].run != run:
                run, seen = glyphs[i].run, False
            if glyphs[i].text.isspace():
                beside[i] = beside[i] or seen
            else:
                seen = shows[i]
    alone = defaultdict(lambda: True)
    for glyph in glyphs:
        alone[glyph.run] = alone[glyph.run] and glyph.text.isspace()
    for i, glyph in enumerate(glyphs):
        if glyph.text.isspace() and not alone[glyph.run]:
            shows[i] = shows[i] and beside[i]


def _around(glyphs: Sequence[Glyph]) -> pymupdf.Rect:
    x0, y0, x1, y1 = np.array([glyph.box for glyph in glyphs]).T
    return pymupdf.Rect(x0.min() - 1, y0.min() - 1, x1.max() + 1, y1.max() + 1)


def _middle(glyph: Glyph) -> tuple[float, float]:
    x0, y0, x1, y1 = glyph.box
    return (x0 + x1) / 2, (y0 + y1) / 2
