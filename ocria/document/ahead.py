"""The next pages of a document, looked at and drawn in child processes while the model reads the ones before."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from ocria.document.facts import PageFacts
from ocria.document.geometry import LinePlace
from ocria.document.guess import Word
from ocria.document.options import ParseOptions
from ocria.document.result import Block, Layout
from ocria.document.route import choose_route
from ocria.document.source import Source, SourcePage

# As many as the model reads together: they are ready when it is.
_PAGES_AHEAD = 4
# What is larger is drawn again when its turn comes, so that few pages fill no memory.
_MOST_BYTES = 64 << 20


class Ahead:
    """The chosen pages of a source, in their order. Raises nothing itself: what goes wrong with a page is raised when
    the page is asked for it."""

    def __init__(self, source: Source, numbers: Sequence[int], options: ParseOptions):
        self._source, self._options = source, options
        self._left = iter(numbers)
        self._pages: dict[int, AheadPage] = {}
        self._skipped: set[int] = set()
        self._threads = ThreadPoolExecutor(source.parallel, "ocria-ahead")
        self._most = _PAGES_AHEAD + source.parallel

    def page(self, number: int) -> AheadPage:
        """The page with this number, which must be the next of the chosen ones that were not skipped."""
        while number not in self._pages or len(self._pages) < self._most:
            following = next(self._left, None)
            if following is None:
                break
            if following in self._skipped:
                continue
            page = AheadPage(self._source.page(following), self._options)
            self._threads.submit(page.prepare)
            self._pages[following] = page
        return self._pages.pop(number)

    def skip(self, number: int) -> None:
        """The page with this number will not be asked for."""
        if self._pages.pop(number, None) is None:
            self._skipped.add(number)

    def close(self) -> None:
        """Begin no further page; what is under way ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class AheadPage:
    """A page that is worked on in the background; see `ocria.document.source.SourcePage`."""

    def __init__(self, page: SourcePage, options: ParseOptions):
        self.number = page.number
        self._page, self._options = page, options
        self._facts: Future[PageFacts] = Future()
        self._made: Future[tuple[str, Any]] = Future()
        """What the route of the page will ask for: the name of the call, and its answer or what it raised."""

    def prepare(self) -> None:
        """Look at the page, and do what its route will ask for."""
        call, made = "", None
        try:
            facts = self._page.look()
            self._facts.set_result(facts)
            call = self._next_call(facts)
            if call == "render":
                made = self._page.render(self._options.dpi)
            elif call == "lay_out":
                made = self._page.lay_out()
        except Exception as error:  # for the one who asks
            if not self._facts.done():
                self._facts.set_exception(error)
            made = error
        if isinstance(made, np.ndarray) and made.nbytes > _MOST_BYTES:
            call, made = "", None
        self._made.set_result((call, made))

    def look(self) -> PageFacts:
        return self._facts.result()

    def render(self, dpi: int | None) -> np.ndarray:
        return self._take() if self._has("render") and dpi == self._options.dpi else self._page.render(dpi)

    def words(self) -> list[Word]:
        return self._page.words()

    def lay_out(self) -> Layout:
        return self._take() if self._has("lay_out") else self._page.lay_out()

    def lay_out_lines(self, width: float, height: float, lines: Sequence[tuple[str, LinePlace]]) -> list[Block]:
        return self._page.lay_out_lines(width, height, lines)

    def _next_call(self, facts: PageFacts) -> str:
        route = choose_route(facts, self._options.mode)
        if route.kind == "model":
            return "render"
        return "lay_out" if route.kind == "text" and facts.letters + facts.hidden_letters else ""

    def _has(self, call: str) -> bool:
        return self._made.result()[0] == call

    def _take(self) -> Any:
        made, self._made = self._made.result()[1], _NOTHING
        if isinstance(made, Exception):
            raise made
        return made


_NOTHING: Future[tuple[str, Any]] = Future()
_NOTHING.set_result(("", None))
