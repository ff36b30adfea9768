"""Read the pixels of a few pages in one batch of the engine."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from ocria.document.control import Control, Deadline
from ocria.document.dialects import parse_answer
from ocria.document.geometry import LinePlace, turn_back, within
from ocria.document.guess import Word, line_guesses, page_guess, turned_words
from ocria.document.reader import (
    STATUSES_WORST_FIRST,
    Delta,
    Order,
    ReaderLike,
    Reading,
    ReadText,
    Told,
    acceptance_of,
    drain,
    mean_confidence,
)
from ocria.document.result import CANCELLED, FAILED, OK, TIMEOUT, TRUNCATED, Block, LineText, Page
from ocria.document.source import SourcePage
from ocria.document.upright import Confidence, upright_lines
from ocria.errors import OUT_OF_TIME, EngineError, InputError, OcriaError, TimeoutExceeded, UsageError
from ocria.events import Box, EngineTick, Event, LinesFound, Note, RequestSubmitted, TextDelta, TokensAccepted


@dataclass(slots=True)
class PageJob:
    """A page that waits for the model."""

    source: SourcePage
    page: Page
    dpi: int | None
    begun: float
    """The time of the run's control when the page was started."""
    guess: bool = False
    """Whether the page has a text layer that may help the model."""


@dataclass(slots=True)
class _Unit:
    """What the engine gets of a page: images, where they stand on the page as it was turned, and what they may say."""

    job: PageJob
    images: list[np.ndarray]
    guesses: list[str | None]
    places: list[LinePlace]
    width: float
    height: float

    def displayed(self, box: Box) -> Box:
        """A box on the displayed page."""
        page = self.job.page
        return within(turn_back(box, page.rotation, page.width, page.height), page.width, page.height)


def read_pages(
    path: str, jobs: list[PageJob], reader: ReaderLike, control: Control, until: Deadline | None = None
) -> Iterator[Event | Page]:
    """Read the pages and yield them, with events on the way. A page that fails is yielded as `failed`, one that is
    cancelled as `cancelled`; once `control` is set, or the document cancelled, the engine is stopped and no page comes.
    When `until` is over it is stopped too, and pages come with what was read of them and the status `timeout`."""
    units: list[_Unit] = []
    for job in jobs:
        control.hold()
        if control.is_set() or control.is_cancelled(path):
            return
        if control.is_cancelled(path, job.page.index):
            yield given_up(job, control)
            continue
        try:
            if until is not None and until.is_over():
                raise TimeoutExceeded(OUT_OF_TIME)
            units.append(_cut(job, reader, control))
        except Exception as error:  # one page's fault must not take the others down
            yield from failed_job(path, job, control, error)
            continue
        unit = units[-1]
        if reader.unit == "line":
            boxes = tuple(unit.displayed(place.box) for place in unit.places)
            yield LinesFound(path, job.page.index, boxes, (job.page.width, job.page.height))
    owners = [(unit, place) for unit in units for place in range(len(unit.images))]
    images = [image for unit in units for image in unit.images]
    guesses = [guess for unit in units for guess in unit.guesses]
    results = yield from _relay(path, units, owners, reader.stream(images, guesses), control, until)
    if results is None:
        return
    for unit in units:
        mine, results = results[: len(unit.images)], results[len(unit.images) :]
        if unit.job.page.status == CANCELLED:
            continue
        if control.is_cancelled(path, unit.job.page.index):
            yield given_up(unit.job, control, mine)
            continue
        try:
            _finish(unit, mine, reader, control)
        except Exception as error:  # as above
            yield from failed_job(path, unit.job, control, error)
            continue
        if unit.job.page.error is not None:
            yield note_of(path, unit.job.page)
        yield from _alarms(path, unit.job.page, mine)
        yield unit.job.page


def _cut(job: PageJob, reader: ReaderLike, control: Control) -> _Unit:
    """Render the page, turn it upright and, for a line model, cut out its lines."""
    page = job.page
    pixels = job.source.render(job.dpi)
    gray = to_gray(pixels)
    scale = page.width / gray.shape[1]
    found = upright_lines(gray, 72 / scale, _confidence_of(reader, control) if reader.unit == "line" else None)
    page.rotation = found.turned
    width, height = (page.height, page.width) if found.turned in (90, 270) else (page.width, page.height)
    words = _words(job.source) if job.guess else []
    if reader.unit == "page":
        upright = np.ascontiguousarray(np.rot90(pixels, -found.turned // 90))
        place = LinePlace((0.0, 0.0, width, height), height, height)
        return _Unit(job, [upright], [page_guess(words)], [place], width, height)
    places = [
        LinePlace(tuple(float(v) * scale for v in line.box), line.baseline * scale, line.x_height * scale)
        for line in found.lines
    ]
    guesses = line_guesses(turned_words(words, found.turned, width, height), [place.box for place in places])
    return _Unit(job, [line.crop for line in found.lines], guesses, places, width, height)


def _words(source: SourcePage) -> list[Word]:
    """The words of the text layer, none where it is damaged: they only make the reading faster."""
    try:
        return source.words()
    except InputError:
        return []


def _confidence_of(reader: ReaderLike, control: Control) -> Confidence:
    def confidence(crops: Sequence[np.ndarray]) -> float:
        return mean_confidence(drain(reader.stream(crops), control=control)) or 0.0

    return confidence


def to_gray(pixels: np.ndarray) -> np.ndarray:
    """Luminance of uint8 [H, W, 3] as uint8 [H, W], dark print on light paper: white print on black is turned.

    Source of the weights: ITU-R BT.601, as PIL's mode L.
    """
    gray = np.asarray(Image.fromarray(pixels).convert("L"))
    return 255 - gray if _median(gray) < 96 else gray


def _median(gray: np.ndarray) -> float:
    """`np.median` of uint8: counting 256 levels takes a fraction of sorting millions of pixels."""
    reached = np.cumsum(Image.fromarray(gray).histogram())
    lower, upper = np.searchsorted(reached, [(gray.size - 1) // 2, gray.size // 2], side="right")
    return (lower + upper) / 2


def _relay(
    path: str,
    units: list[_Unit],
    owners: list[tuple[_Unit, int]],
    reading: Reading,
    control: Control,
    until: Deadline | None,
) -> Generator[Event | Page, None, list[ReadText] | None]:
    """Yield the text as it comes, what the engine tells, and pages that are cancelled; returns the results, or None
    when all of it is cancelled."""
    so_far = [ReadText("", None, TIMEOUT, 0, 0, OUT_OF_TIME) for _ in owners]
    order = None
    control.hold()
    while True:
        if control.is_set() or control.is_cancelled(path):
            reading.close()
            return None
        if until is not None and until.is_over():
            reading.close()
            return so_far
        try:
            item = reading.send(order)
        except StopIteration as end:
            return end.value
        if isinstance(item, EngineTick):
            yield item
        elif (page := owners[item.index][0].job.page).status != CANCELLED:  # else it was on its way
            so_far[item.index] = _with(so_far[item.index], item)
            place = owners[item.index][1]
            if isinstance(item, Told):
                yield replace(item.event, path=path, page=page.index, unit=place)
            else:
                yield TextDelta(path, page.index, place, item.text)
        held_s = control.hold()
        lost: list[int] = []
        for unit in units:
            if unit.job.page.status != CANCELLED and control.is_cancelled(path, unit.job.page.index):
                mine = [index for index, (owner, _) in enumerate(owners) if owner is unit]
                lost += mine
                yield given_up(unit.job, control, [so_far[index] for index in mine])
        order = Order(lost, held_s) if lost or held_s else None


def _with(read: ReadText, item: Told | Delta) -> ReadText:
    """What was read of an image until now, and what just came."""
    if isinstance(item, Delta):
        return replace(read, text=read.text + item.text)
    if isinstance(item.event, TokensAccepted):
        return replace(read, tokens_out=read.tokens_out + item.event.tokens)
    if isinstance(item.event, RequestSubmitted):
        return replace(read, tokens_in=read.tokens_in + item.event.tokens_in)
    return read


def _finish(unit: _Unit, results: list[ReadText], reader: ReaderLike, control: Control) -> None:
    page = unit.job.page
    page.tokens_in = sum(result.tokens_in for result in results)
    page.tokens_out = sum(result.tokens_out for result in results)
    page.confidence = mean_confidence(results)
    page.acceptance = acceptance_of(results)
    _judge(page, results, reader.unit)
    if reader.unit == "page":
        page.blocks = _blocks_of_answer(unit, results[0].text, reader)
    else:
        page.blocks = _blocks_of_lines(unit, results)
        page.lines = [
            LineText(unit.displayed(place.box), result.text, result.confidence, result.status)
            for place, result in zip(unit.places, results, strict=True)
        ]
    page.seconds = control.now() - unit.job.begun


def _blocks_of_answer(unit: _Unit, text: str, reader: ReaderLike) -> list[Block]:
    """The blocks of a page model's answer. One that breaks off leaves its page truncated, also where the model thought
    that it had ended."""
    page = unit.job.page
    extent = None if reader.box_scale is None else (reader.box_scale, reader.box_scale)
    answer = parse_answer(text, reader.dialect, (unit.width, unit.height), extent)
    if answer.fault is not None and page.status == OK:
        page.status, page.error = TRUNCATED, answer.fault
    for block in answer.blocks:
        block.box = unit.displayed(block.box)
        block.confidence = page.confidence
    return answer.blocks


def _blocks_of_lines(unit: _Unit, results: list[ReadText]) -> list[Block]:
    """Lay the lines out; each block takes the mean confidence of the lines whose middle it holds."""
    lines = [(result.text, place) for place, result in zip(unit.places, results, strict=True)]
    blocks = unit.job.source.lay_out_lines(unit.width, unit.height, lines)
    for block in blocks:
        members = [
            result
            for place, result in zip(unit.places, results, strict=True)
            if _holds_middle(block.box, place.box)
        ]
        block.confidence = mean_confidence(members)
        block.box = unit.displayed(block.box)
    return blocks


def _holds_middle(outer: Box, inner: Box) -> bool:
    x, y = (inner[0] + inner[2]) / 2, (inner[1] + inner[3]) / 2
    return outer[0] <= x <= outer[2] and outer[1] <= y <= outer[3]


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


def _alarms(path: str, page: Page, results: list[ReadText]) -> Iterator[Note]:
    """What to look at although it ended well."""
    for result in results:
        if result.alarm_at is not None and result.status == OK:
            yield Note(
                "warning",
                f"after {result.alarm_at} tokens of an answer the model repeated itself and became easy to predict, "
                "which a damaged state looks like; compare the text with the page",
                path,
                page.index,
            )


def given_up(job: PageJob, control: Control, read: Sequence[ReadText] = ()) -> Page:
    """The page of a job that was cancelled; `read`: what its requests had come to."""
    cancel(job.page)
    job.page.tokens_in = sum(one.tokens_in for one in read)
    job.page.tokens_out = sum(one.tokens_out for one in read)
    job.page.seconds = control.now() - job.begun
    return job.page


def cancel(page: Page) -> None:
    """Let a page say that it was cancelled; half a text is not kept."""
    page.status, page.error = CANCELLED, "the page was cancelled"
    page.blocks, page.lines = [], []


def failed_job(path: str, job: PageJob, control: Control, error: Exception) -> Iterator[Event | Page]:
    """The page of a job that raised, with a note. Raises what `fail` raises."""
    fail(job.page, error)
    job.page.seconds = control.now() - job.begun
    yield note_of(path, job.page)
    yield job.page


def fail(page: Page, error: Exception) -> None:
    """Let a page say that reading it raised. Raises what `fault_of` raises."""
    page.error = fault_of(error)
    page.status = TIMEOUT if isinstance(error, TimeoutExceeded) else FAILED


def fault_of(error: Exception) -> str:
    """What to say of a page that raised. Faults of the engine or of the options are not the page's: they are
    raised again and end the run."""
    if isinstance(error, (EngineError, UsageError)):
        raise error
    return error.message if isinstance(error, OcriaError) else f"{type(error).__name__}: {error}"


def note_of(path: str, page: Page) -> Note:
    """What went wrong with a page: an error where its text is lost, a warning where some of it came."""
    return Note("error" if page.status in (FAILED, TIMEOUT) else "warning", page.error, path, page.index)
