"""The page that is shown, with the boxes of its lines, which light up as they are read."""

from __future__ import annotations

import time
from collections.abc import Hashable
from functools import partial

import numpy as np
from PIL import Image
from rich.segment import Segment
from textual.app import ComposeResult
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget
from textual.worker import get_current_worker

from ocria_tui.documents import PageState
from ocria_tui.graphics import cell_pixels
from ocria_tui.messages import PageImage
from ocria_tui.raster import FRESH, READ, WAITS, Mark, cells, fit, load, page_map, scaled, tinted
from ocria_tui.widgets.pane import Pane
from ocria_tui.widgets.text import FRESH_S

_SHAPE = (595.0, 842.0)
"""Of a page of which neither size nor lines are known: A4 in points."""
_STEP = 64
"""Pages are asked for in widths that are multiples of this, so that a small change of size asks for nothing."""
_PIXELS_S = 1.0
"""So often an image in pixels is sent at most: it may go through a slow line."""


class PagePane(Pane, can_focus=True):
    """The image in pixels or half cells where it was drawn, else a map of the lines. It does not scroll, so that images
    stay where they are on all terminals.

    Args:
        graphics: a widget with an `image`, of a terminal that shows pixels.
    """

    def __init__(self, graphics: type[Widget] | None = None) -> None:
        super().__init__(id="page", classes="pane")
        self._graphics = None if graphics is None else graphics(id="pixels")
        self._rows: list[list[Segment]] = []
        self._left = self._top = 0
        self._asked: set[tuple[str, int, int]] = set()
        self._pixels: tuple[Hashable, np.ndarray] | None = None
        """The image that was loaded last, and of what and for which size."""
        self._made: tuple[np.ndarray, list[list[Segment]]] | None = None
        """Pixels as they were shown last, and the rows of half cells made of them."""
        self._loading: Hashable = None
        self._broken: dict[str, PageImage] = {}
        """Images that could not be loaded, by file."""
        self._missed: set[str] = set()
        """Files that were gone and were asked for again."""
        self._sent = 0.0
        self.drawn = 0
        """Rows that changed so far, for tests of how much work there is."""

    def compose(self) -> ComposeResult:
        if self._graphics is not None:
            self._graphics.can_focus = False
            self._graphics.display = False
            yield self._graphics

    def look(self) -> Hashable:
        app, page = self.app, self.app.shown_page
        fresh = page is not None and bool(page.touched) and app.state.now - max(page.touched.values()) < FRESH_S
        version = None if page is None else (page.version, page.began)
        return app.document, app.page, version, fresh, app.boxes, app.draws, self._pixels and self._pixels[0]

    def follow(self) -> None:
        if self._graphics is None or not self._graphics.display or time.monotonic() - self._sent >= _PIXELS_S:
            super().follow()

    def update(self) -> None:
        page, size = self.app.shown_page, self.size
        self.set_title("" if page is None else _titled(page))
        if page is None:
            self._show([], 0, 0)
            return
        shape, marks = page_shape(page), marks_of(page, self.app.state.now) if self.app.boxes else []
        cell = (1, 2) if self._graphics is None else cell_pixels()
        self._ask(page, size.width * (2 if self._graphics is None else cell[0]))
        columns, rows = fit(*shape, size.width, size.height, cell)
        pixels = self._image(page, columns * cell[0], rows * cell[1])
        place = ((size.width - columns) // 2, (size.height - rows) // 2)
        if pixels is not None:
            pixels = tinted(pixels, shape, marks, self.app.palette)
        if pixels is not None and self._graphics is not None:
            self._send(pixels, columns, rows, place)
        elif pixels is not None:
            self._show(self._cells(pixels), *place)
        else:
            lines = page_map(columns, rows, shape, marks, self.app.palette, self.app.settings.ascii)
            self._show(lines, *place)

    def render_line(self, y: int) -> Strip:
        inner = y - self._top
        row = self._rows[inner] if 0 <= inner < len(self._rows) else []
        line = Strip([Segment(" " * self._left), *row])
        return line.adjust_cell_length(self.size.width).apply_style(self.ground)

    def _show(self, lines: list[list[Segment]], left: int, top: int) -> None:
        """Draw the rows of cells again that are not what they were."""
        if self._graphics is not None:
            self._graphics.display = False
        if (left, top, len(lines)) != (self._left, self._top, len(self._rows)):
            self._rows, self._left, self._top = lines, left, top
            self.drawn += len(lines)
            self.refresh()
            return
        changed = [row for row, line in enumerate(lines) if line is not self._rows[row] and line != self._rows[row]]
        self._rows = lines
        self.drawn += len(changed)
        if changed:
            self.refresh(*(Region(0, self._top + row, self.size.width, 1) for row in changed))

    def _cells(self, pixels: np.ndarray) -> list[list[Segment]]:
        """The rows of half cells, of which those are made anew that changed."""
        before = self._made
        if before is None or before[0].shape != pixels.shape:
            self._made = (pixels, cells(pixels))
            return self._made[1]
        rows = list(before[1])
        for row in np.flatnonzero((before[0] != pixels).reshape(len(rows), -1).any(axis=1)):
            rows[row] = cells(pixels[2 * row : 2 * row + 2])[0]
        self._made = (pixels, rows)
        return rows

    def _send(self, pixels: np.ndarray, columns: int, rows: int, place: tuple[int, int]) -> None:
        """Give the terminal the pixels."""
        self._rows = []
        styles = self._graphics.styles
        styles.width, styles.height, styles.offset = columns, rows, place
        self._graphics.display = True
        self._graphics.image = Image.fromarray(pixels)
        self._sent = time.monotonic()

    def _ask(self, page: PageState, width: int) -> None:
        """Have the page drawn, once for each width."""
        if self.app.draws:
            asked = (self.app.document, page.number, _STEP * max(4, -(-width // _STEP)))
            if asked not in self._asked:
                self._asked.add(asked)
                self.app.session.draw(*asked)

    def _image(self, page: PageState, width: int, height: int) -> np.ndarray | None:
        """Pixels of the page in that size, None until they are loaded, which a thread does."""
        image = page.image
        if image is None or not self.app.draws or self._broken.get(image.file) is image:
            return None
        wanted = (image.file, width, height)
        if self._pixels is not None and self._pixels[0] == wanted:
            return self._pixels[1]
        if self._loading != wanted:
            self._loading = wanted
            self.run_worker(
                partial(self._load, image, width, height), thread=True, exclusive=True, group="image",
                exit_on_error=False,
            )  # fmt: skip
        return None

    def _load(self, image: PageImage, width: int, height: int) -> None:
        worker = get_current_worker()
        try:
            pixels = scaled(load(image.file), width, height)
        except OSError as error:
            self.app.call_from_thread(self._failed, image, error)
            return
        if not worker.is_cancelled:
            self.app.call_from_thread(self._loaded, (image.file, width, height), pixels)

    def _loaded(self, key: tuple[str, int, int], pixels: np.ndarray) -> None:
        self._missed.discard(key[0])
        if self._loading == key:
            self._pixels, self._loading = (key, pixels), None
            self.follow()

    def _failed(self, image: PageImage, error: OSError) -> None:
        """A session does not keep images for ever: one that is gone is asked for once more."""
        self._broken[image.file], self._loading = image, None
        if isinstance(error, FileNotFoundError) and image.file not in self._missed:
            self._missed.add(image.file)
            self._asked = {asked for asked in self._asked if asked[:2] != (image.path, image.page)}
            self.update()
        else:
            what = f"The image of page {image.page} cannot be shown: {error}"
            self.app.notify(what, severity="warning", markup=False)


def _titled(page: PageState) -> str:
    parts = [f"Page {page.number}: {page.status}"]
    if page.boxes and not page.done:
        parts.append(f"{len(page.units)}/{len(page.boxes)} lines")
    if page.seconds is not None:
        parts.append(f"{page.seconds:.1f} s")
    if page.tokens_out:
        parts.append(f"{page.tokens_out} tokens")
    if page.accept_length is not None:
        parts.append(f"accept {page.accept_length:.1f}")
    return ", ".join(parts)


def page_shape(page: PageState) -> tuple[float, float]:
    """Width and height in points, as far as is known: at least all lines are on it."""
    if page.image is not None and page.image.width > 0 and page.image.height > 0:
        return page.image.width, page.image.height
    return (
        max([_SHAPE[0], *(box[2] for box in page.boxes)]),
        max([_SHAPE[1], *(box[3] for box in page.boxes)]),
    )


def marks_of(page: PageState, now: float) -> list[Mark]:
    """Each line and how far it is. Those of a page that is done are all read; of one that was given up none is."""
    if page.done:
        return [Mark(box, READ if page.markdown else WAITS) for box in page.boxes]
    return [Mark(box, _state(page, unit, now)) for unit, box in enumerate(page.boxes)]


def _state(page: PageState, unit: int, now: float) -> int:
    if unit not in page.units:
        return WAITS
    return FRESH if now - page.touched[unit] < FRESH_S else READ
