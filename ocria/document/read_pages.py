"""Read the pixels of a few pages in one batch of the engine."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from threading import Event as Flag

import numpy as np

from ocria.document.layout import lay_out
from ocria.document.place import LinePlace, place_lines
from ocria.document.reader import STATUSES_WORST_FIRST, ReaderLike, Reading, ReadText, mean_confidence
from ocria.document.result import FAILED, OK, TRUNCATED, Block, Page
from ocria.document.source import SourcePage
from ocria.events import Event, LinesFound, Note, TextDelta


@dataclass(slots=True)
class PageJob:
    """A page that waits for the model."""

    source: SourcePage
    page: Page
    dpi: int | None
    begun: float
    """`time.monotonic()` when the page was started."""


@dataclass(slots=True)
class _Unit:
    """What the engine gets of a page: images and where they stand on it."""

    job: PageJob
    images: list[np.ndarray]
    places: list[LinePlace]


def read_pages(
    path: str, jobs: list[PageJob], reader: ReaderLike, cancel: Flag
) -> Iterator[Event | Page]:
    """Read the pages and yield them, with events on the way. A page that fails is yielded as `failed`; once
    `cancel` is set the engine is stopped and no page comes."""
    units: list[_Unit] = []
    for job in jobs:
        try:
            units.append(_cut(job, reader.unit))
        except Exception as error:  # one page's fault must not take the others down
            yield from _failed(path, job, error)
            continue
        if reader.unit == "line":
            yield LinesFound(path, job.page.index, tuple(place.box for place in units[-1].places))
    owners = [(unit, place) for unit in units for place in range(len(unit.images))]
    results = yield from _relay(path, owners, reader.stream([u.images[place] for u, place in owners]), cancel)
    if results is None:
        return
    for unit in units:
        mine, results = results[: len(unit.images)], results[len(unit.images) :]
        try:
            _finish(unit, mine, reader.unit)
        except Exception as error:  # as above
            yield from _failed(path, unit.job, error)
            continue
        if unit.job.page.error is not None:
            yield Note("warning", unit.job.page.error, path, unit.job.page.index)
        yield unit.job.page


def _cut(job: PageJob, unit: str) -> _Unit:
    """Render the page and, for a line model, find its lines."""
    pixels = job.source.render(job.dpi)
    width, height = job.page.width, job.page.height
    if unit == "page":
        return _Unit(job, [pixels], [LinePlace((0.0, 0.0, width, height), height, height)])
    from ocria.document.lines import find_lines

    gray = to_gray(pixels)
    across, down = width / gray.shape[1], height / gray.shape[0]
    lines = find_lines(gray, dpi=72 / across).lines
    places = []
    for line in lines:
        x0, y0, x1, y1 = (float(v) for v in line.box)
        box = (round(x0 * across, 2), round(y0 * down, 2), round(x1 * across, 2), round(y1 * down, 2))
        places.append(LinePlace(box, float(line.baseline) * down, float(line.x_height) * down))
    return _Unit(job, [line.crop for line in lines], places)


def to_gray(pixels: np.ndarray) -> np.ndarray:
    """Luminance of uint8 [H, W, 3] as uint8 [H, W], dark print on light paper: white print on black is turned.

    Source of the weights: ITU-R BT.601, as PIL's mode L.
    """
    red, green, blue = (pixels[..., i].astype(np.uint32) for i in range(3))
    gray = ((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16).astype(np.uint8)
    return 255 - gray if np.median(gray) < 96 else gray


def _relay(
    path: str, owners: list[tuple[_Unit, int]], reading: Reading, cancel: Flag
) -> Generator[Event, None, list[ReadText] | None]:
    """Yield the text as it comes; returns the results, or None when cancelled."""
    while True:
        if cancel.is_set():
            reading.close()
            return None
        try:
            delta = next(reading)
        except StopIteration as end:
            return end.value
        unit, place = owners[delta.index]
        yield TextDelta(path, unit.job.page.index, place, delta.text)


def _finish(unit: _Unit, results: list[ReadText], kind: str) -> None:
    page = unit.job.page
    page.tokens_in = sum(result.tokens_in for result in results)
    page.tokens_out = sum(result.tokens_out for result in results)
    page.confidence = mean_confidence(results)
    _judge(page, results, kind)
    if kind == "page":
        text = results[0].text.strip()
        page.blocks = [Block("page", unit.places[0].box, text, text, 0, page.confidence)] if text else []
    else:
        page.blocks = _blocks_of_lines(page, unit.places, results)
    page.seconds = time.monotonic() - unit.job.begun


def _blocks_of_lines(page: Page, places: list[LinePlace], results: list[ReadText]) -> list[Block]:
    """Lay the lines out; each block takes the mean confidence of the lines whose middle it holds."""
    lines = [(result.text, place) for place, result in zip(places, results, strict=True)]
    if not any(text.strip() for text, _ in lines):
        return []
    pdf = place_lines(page.width, page.height, lines)
    blocks = lay_out(pdf, 0).blocks
    pdf.close()
    for block in blocks:
        x0, y0, x1, y1 = block.box
        members = [
            result
            for place, result in zip(places, results, strict=True)
            if x0 <= (place.box[0] + place.box[2]) / 2 <= x1 and y0 <= (place.box[1] + place.box[3]) / 2 <= y1
        ]
        block.confidence = mean_confidence(members)
    return blocks


def _judge(page: Page, results: list[ReadText], kind: str) -> None:
    """The page's status: that of its worst request. A failed line among good ones leaves the page truncated,
    for most of its text is there."""
    bad = [result for result in results if result.status != OK]
    if not bad:
        return
    worst = min((result.status for result in bad), key=STATUSES_WORST_FIRST.index)
    if worst == FAILED and len(bad) < len(results):
        worst = TRUNCATED
    page.status = worst
    what = f"{len(bad)} of {len(results)} lines" if kind == "line" else "the page"
    page.error = f"{what} did not end well ({bad[0].error or bad[0].status})"


def _failed(path: str, job: PageJob, error: Exception) -> Iterator[Event | Page]:
    from ocria.errors import EngineError, UsageError

    if isinstance(error, (EngineError, UsageError)):
        raise error
    job.page.status = FAILED
    job.page.error = f"{type(error).__name__}: {error}"
    job.page.seconds = time.monotonic() - job.begun
    yield Note("warning", job.page.error, path, job.page.index)
    yield job.page
