"""One run over a document: look, route, read and put the pages together."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace

from ocria.document.ahead import Ahead
from ocria.document.check_text import CHECK_DPI, TextCheck
from ocria.document.control import Control, Deadline
from ocria.document.facts import PageFacts
from ocria.document.figures import cut_figures
from ocria.document.finish import finish
from ocria.document.options import ParseOptions
from ocria.document.ranges import select_pages
from ocria.document.read_pages import PageJob, cancel, fail, failed_job, given_up, note_of, read_pages
from ocria.document.reader import Reader, ReaderLike
from ocria.document.result import BLANK, FAILED, OK, TIMEOUT, TRUNCATED, Document, Page
from ocria.document.route import Route, choose_route, text_layer_doubt
from ocria.document.source import Source, SourcePage
from ocria.errors import OUT_OF_TIME, InputError, TimeoutExceeded
from ocria.events import (
    DocumentDone,
    DocumentStarted,
    EngineTick,
    Event,
    Note,
    PageDone,
    PageRouted,
    PageStarted,
)

# Pages whose lines go to the engine together: enough to fill its batch, few enough to show up soon.
_PAGES_AT_ONCE = 4
# Complaints of MuPDF that mean that something of a page was not drawn.
_NOT_DRAWN = ("content stream", "page may not be correct", "XObject", "cannot load", "cannot draw")
_NOT_LOOKED_AT = Route("text", "not looked at")


@dataclass(slots=True)
class Run:
    """One pass over the chosen pages of a source."""

    source: Source
    options: ParseOptions
    reader: ReaderLike | None
    control: Control
    begun: float
    """By the clock of `control`."""
    until: Deadline | None = None
    """When no further page is begun, and the model stops."""
    check: TextCheck = field(default_factory=TextCheck)

    def events(self) -> Iterator[Event]:
        """Parse all pages. A page that fails keeps its place with the status `failed`."""
        numbers = select_pages(self.options.pages, self.source.page_count)
        if not self.source.parallel:
            yield from self._events(numbers, self.source)
            return
        with closing(Ahead(self.source, numbers, self.options)) as pages:
            yield from self._events(numbers, pages)

    def _events(self, numbers: list[int], pages: Source | Ahead) -> Iterator[Event]:
        source = self.source
        document = Document(source.path, source.page_count, source.sha256, converted_from=source.converted_from)
        yield DocumentStarted(source.path, len(numbers))
        if source.repaired:
            yield Note("warning", "the file is damaged and was repaired; parts may be missing", source.path)
        waiting: list[PageJob] = []
        late = 0
        for number in numbers:
            self.control.hold()
            if self._is_stopped():
                break
            missed = _cancelled_page(number) if self._is_cancelled(number) else None
            if missed is None and self._is_late():
                late += 1
                missed = _late_page(number)
            if missed is not None:
                if isinstance(pages, Ahead):
                    pages.skip(number)
                yield from self._take(document, missed)
                continue
            for item in self._begin(number, pages):
                if isinstance(item, PageJob):
                    waiting.append(item)
                else:
                    yield from self._take(document, item)
            if len(waiting) >= _PAGES_AT_ONCE:
                yield from self._read(document, waiting)
                waiting = []
        if waiting and not self._is_stopped():
            yield from self._read(document, waiting)
        if late:
            yield Note("error", f"{OUT_OF_TIME}: {late} pages were not begun", source.path)
        if isinstance(self.reader, Reader):
            yield Note("debug", f"engine ran {self.reader.ran()}", source.path)
        document.pages.sort(key=lambda page: page.index)
        document.interrupted = len(document.pages) < len(numbers)
        finish(document, self.options)
        document.seconds = self.control.now() - self.begun
        yield DocumentDone(source.path, document.status, document.seconds, document)

    def _begin(self, number: int, pages: Source | Ahead) -> Iterator[Event | Page | PageJob]:
        """Look at a page and route it; ends with the page, or with a job for the model."""
        begun = self.control.now()
        path = self.source.path
        yield PageStarted(path, number)
        facts, route = None, _NOT_LOOKED_AT
        try:
            source_page = pages.page(number)
            facts = source_page.look()
            for warning in facts.warnings:
                yield Note("debug", f"MuPDF: {warning}", path, number)
            route = choose_route(facts, self.options.mode)
            lie = (yield from self._lie(source_page, facts)) if route.kind == "text" else None
            if lie is not None:
                route = Route("model", lie)
            yield PageRouted(path, number, route.kind, route.reason)
            page = _empty_page(number, facts, route)
            if route.kind == "model":
                yield PageJob(source_page, page, self.options.dpi, begun, guess=lie is None and _helps(facts))
                return
            if route.kind == "blank":
                _blank(page, facts)
            else:
                try:
                    yield from self._text(source_page, page, facts)
                except InputError as error:
                    if self.options.mode != "auto":
                        raise
                    route = Route("model", error.message)
                    yield PageRouted(path, number, route.kind, route.reason)
                    yield PageJob(source_page, _empty_page(number, facts, route), self.options.dpi, begun)
                    return
        except Exception as error:  # whatever a damaged page does, the others must not suffer
            page = failed_page(number, facts, route, error)
        if self._is_cancelled(number):
            cancel(page)
        elif page.error is not None:
            yield note_of(path, page)
        page.seconds = self.control.now() - begun
        yield page

    def _lie(self, source_page: SourcePage, facts: PageFacts) -> Generator[Event, None, str | None]:
        """Compare a page's text layer with its pixels where it could lie; returns what is wrong with it, or None."""
        if self.options.mode != "auto":
            return None
        asked = self.check.unknown(facts)
        # A page model reads whole pages: it is not loaded to doubt some lines.
        by_lines = self.options.model is None if self.reader is None else self.reader.unit == "line"
        if asked and by_lines and not self._is_late():
            yield from self._load()
            pixels = source_page.render(CHECK_DPI)
            self.check.ask(asked, pixels, facts.width, self.reader, self.control)
        return self.check.lie(facts)

    def _text(self, source_page: SourcePage, page: Page, facts: PageFacts) -> Iterator[Event]:
        """Take the text layer."""
        if facts.letters == 0 and facts.hidden_letters == 0:
            page.status = FAILED
            page.error = "the page has print but no text layer, and mode text does not read pixels"
            return
        doubt = text_layer_doubt(facts)
        if doubt is not None:
            yield Note("warning", f"the text layer may be wrong: {doubt}", self.source.path, page.index)
        layout = source_page.lay_out()
        page.blocks, page.rotation = layout.blocks, layout.turned
        if not any(block.text for block in page.blocks):
            page.status = FAILED
            page.error = "the layout analysis lost the text of the page"

    def _read(self, document: Document, jobs: list[PageJob]) -> Iterator[Event]:
        """Read the pixels of some pages in one batch."""
        if self._is_late():  # the model would be loaded for nothing
            for job in jobs:
                for item in failed_job(self.source.path, job, self.control, TimeoutExceeded(OUT_OF_TIME)):
                    yield from self._take(document, item)
            return
        self.control.hold()
        if all(self._is_cancelled(job.page.index) for job in jobs):  # likewise
            for job in jobs:
                yield from self._take(document, given_up(job, self.control))
            return
        yield from self._load()
        document.model = self.reader.model
        for item in read_pages(self.source.path, jobs, self.reader, self.control, self.until):
            yield from self._take(document, item)

    def _load(self) -> Iterator[Event]:
        if self.reader is None:
            self.reader = Reader(self.options)
            yield Note("debug", f"engine: {self.reader.about}", self.source.path)

    def _is_late(self) -> bool:
        return self.until is not None and self.until.is_over()

    def _is_stopped(self) -> bool:
        return self.control.is_set() or self.control.is_cancelled(self.source.path)

    def _is_cancelled(self, number: int) -> bool:
        return self.control.is_cancelled(self.source.path, number)

    def _take(self, document: Document, item: Event | Page) -> Iterator[Event]:
        """Pass an event on; a finished page joins the document first."""
        if isinstance(item, EngineTick):
            yield replace(item, pages_per_s=len(document.pages) / max(1e-9, self.control.now() - self.begun))
            return
        if isinstance(item, Event):
            yield item
            return
        yield from cut_figures(item, self.source, self.options)
        document.pages.append(item)
        yield PageDone(
            self.source.path, item.index, item.status, item.route, item.seconds, item.tokens_out, item.markdown,
            item.acceptance and item.acceptance["accept_length"], item,
        )  # fmt: skip


def failed_page(number: int, facts: PageFacts | None, route: Route, error: Exception) -> Page:
    """The page that stands for one that raised. Faults of the engine or of the options end the run."""
    page = _empty_page(number, facts, route)
    fail(page, error)
    return page


def _empty_page(number: int, facts: PageFacts | None, route: Route) -> Page:
    width, height = (facts.width, facts.height) if facts else (0.0, 0.0)
    page = Page(
        number, OK, round(width, 2), round(height, 2), rotation=0, route=route.kind, reason=route.reason
    )
    if facts is not None and facts.missing is not None:
        page.status, page.error = TRUNCATED, facts.missing
    return page


def _late_page(number: int) -> Page:
    page = _empty_page(number, None, _NOT_LOOKED_AT)
    page.status, page.error = TIMEOUT, OUT_OF_TIME
    return page


def _cancelled_page(number: int) -> Page:
    page = _empty_page(number, None, _NOT_LOOKED_AT)
    cancel(page)
    return page


def _helps(facts: PageFacts) -> bool:
    """Whether the text layer may say what the pixels do. Hidden text is the reading of another program: not always
    right, and a good guess."""
    return facts.letters + facts.hidden_letters > 0 and facts.distrust is None


def _blank(page: Page, facts: PageFacts) -> None:
    """A page without print is blank, unless it is so because its content could not be drawn."""
    broken = [w for w in facts.warnings if any(sign in w for sign in _NOT_DRAWN)]
    if broken and not facts.letters:
        page.status = FAILED
        page.error = f"the page's content is damaged ({broken[0]})"
    elif page.status == OK:
        page.status = BLANK
