"""The page that is shown, with the boxes of its lines, which light up as they are read."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

import numpy as np
from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.worker import get_current_worker

from ocria_tui.documents import PageState
from ocria_tui.messages import PageImage
from ocria_tui.raster import FRESH, READ, WAITS, Mark, cells, fit, half_cells, load, page_map, tinted
from ocria_tui.widgets.pane import Pane
from ocria_tui.widgets.text import FRESH_S

_SHAPE = (595.0, 842.0)
"""Of a page of which neither size nor lines are known: A4 in points."""


class PagePane(Pane, can_focus=True):
    """The image in half cells where it was drawn, else a map of the lines. It does not scroll, so that images of all
    terminals stay where they are."""

    def __init__(self) -> None:
        super().__init__(id="page", classes="pane")
        self._rows: list[list[Segment]] = []
        self._left = self._top = 0
        self._asked: set[tuple[str, int, int]] = set()
        self._pixels: tuple[Hashable, np.ndarray] | None = None
        """The image of the page as half cells, and of what and for which size."""
        self._loading: Hashable = None
        self._broken: set[str] = set()
        self.drawn = 0
        """Rows that changed so far, for tests of how much work there is."""

    def look(self) -> Hashable:
        app, page = self.app, self.app.shown_page
        fresh = page is not None and bool(page.touched) and app.state.now - max(page.touched.values()) < FRESH_S
        version = None if page is None else (page.version, page.began)
        return app.document, app.page, version, fresh, app.boxes, self._pixels and self._pixels[0]

    def update(self) -> None:
        page, size = self.app.shown_page, self.size
        self.set_title("" if page is None else _titled(page))
        if page is None:
            self._show([], 0, 0)
            return
        self._ask(page)
        shape = page_shape(page)
        columns, rows = fit(*shape, size.width, size.height)
        marks = marks_of(page, self.app.state.now) if self.app.boxes else []
        pixels = self._half_cells(page, columns, rows)
        if pixels is not None:
            lines = cells(tinted(pixels, shape, marks, self.app.palette))
        else:
            lines = page_map(columns, rows, shape, marks, self.app.palette, self.app.settings.ascii)
        self._show(lines, (size.width - columns) // 2, (size.height - rows) // 2)

    def render_line(self, y: int) -> Strip:
        inner = y - self._top
        width = self.size.width
        row = self._rows[inner] if 0 <= inner < len(self._rows) else []
        return Strip([Segment(" " * self._left), *row]).adjust_cell_length(width).apply_style(self.rich_style)

    def _show(self, lines: list[list[Segment]], left: int, top: int) -> None:
        """Draw the rows again that are not what they were."""
        if (left, top, len(lines)) != (self._left, self._top, len(self._rows)):
            self._rows, self._left, self._top = lines, left, top
            self.drawn += len(lines)
            self.refresh()
            return
        changed = [row for row, line in enumerate(lines) if line != self._rows[row]]
        self._rows = lines
        self.drawn += len(changed)
        if changed:
            self.refresh(Region(0, self._top + changed[0], self.size.width, changed[-1] - changed[0] + 1))

    def _ask(self, page: PageState) -> None:
        """Have the page drawn, once for each width."""
        document = self.app.document
        if not self.app.draws or document is None:
            return
        width = 64 * max(4, -(-2 * self.size.width // 64))
        if (document, page.number, width) not in self._asked:
            self._asked.add((document, page.number, width))
            self.app.session.draw(document, page.number, width)

    def _half_cells(self, page: PageState, columns: int, rows: int) -> np.ndarray | None:
        """Pixels of the page, None until they are loaded, which a thread does."""
        image = page.image
        if image is None or not self.app.draws or image.file in self._broken:
            return None
        wanted = (image.file, columns, rows)
        if self._pixels is not None and self._pixels[0] == wanted:
            return self._pixels[1]
        if self._loading != wanted:
            self._loading = wanted
            work = partial(self._load, image, columns, rows)
            self.run_worker(work, thread=True, exclusive=True, group="image", exit_on_error=False)
        return None

    def _load(self, image: PageImage, columns: int, rows: int) -> None:
        worker = get_current_worker()
        try:
            pixels = half_cells(load(image.file), columns, rows)
        except OSError as error:
            self.app.call_from_thread(self._failed, image, error)
            return
        if not worker.is_cancelled:
            self.app.call_from_thread(self._loaded, (image.file, columns, rows), pixels)

    def _loaded(self, key: Hashable, pixels: np.ndarray) -> None:
        self._pixels, self._loading = (key, pixels), None
        self.follow()

    def _failed(self, image: PageImage, error: OSError) -> None:
        self._broken.add(image.file)
        self._loading = None
        self.app.notify(f"The image of page {image.page} cannot be shown: {error}", severity="warning", markup=False)


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
