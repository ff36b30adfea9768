"""A document that is open in child processes, as a source of pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ocria.document.control import Deadline
from ocria.document.facts import PageFacts
from ocria.document.geometry import LinePlace
from ocria.document.guess import Word
from ocria.document.result import Block, Layout
from ocria.document.workers.pool import Workers
from ocria.document.workers.wire import Opening


class WorkerSource:
    """An open document.

    Args:
        workers: the processes that open it; they are left running at the end.
        opening: what to open.
        page_timeout: seconds that a call of a page may take; None for a bound that nothing honest meets.
        until: when everything must be done.

    Raises:
        OcriaError: what opening the document raises, also for a crash or for time that ran out.
    """

    def __init__(
        self, workers: Workers, opening: Opening, page_timeout: float | None = None, until: Deadline | None = None
    ):
        self._workers, self._page_timeout, self._until = workers, page_timeout, until
        self._handle = workers.open(opening, until=None if until is None else until.at())
        self.parallel = workers.count
        self.path = opening.path
        self.sha256 = opening.sha256
        self.page_count = self._handle.opened.page_count
        self.repaired = self._handle.opened.repaired
        self.converted_from = self._handle.opened.converted_from

    def page(self, number: int) -> WorkerPage:
        return WorkerPage(self, number)

    def close(self) -> None:
        self._workers.forget(self._handle)

    def call(self, method: str, number: int, *arguments: object) -> Any:
        """Call a method of page `number`. Raises OcriaError."""
        until = None if self._until is None else self._until.at()
        return self._workers.call(self._handle, method, number, *arguments, limit_s=self._page_timeout, until=until)

    def call_late(self, method: str, number: int, *arguments: object) -> Any:
        """Likewise, also when the time for the document is over: to keep what was read."""
        return self._workers.call(self._handle, method, number, *arguments, limit_s=self._page_timeout)


class WorkerPage:
    """One page of a document that is open in child processes; see `ocria.document.source.SourcePage`."""

    def __init__(self, source: WorkerSource, number: int):
        self.source = source
        self.number = number

    def look(self) -> PageFacts:
        return self.source.call("look", self.number)

    def render(self, dpi: int | None) -> np.ndarray:
        return self.source.call("render", self.number, dpi)

    def words(self) -> list[Word]:
        return self.source.call("words", self.number)

    def lay_out(self) -> Layout:
        return self.source.call("lay_out", self.number)

    def lay_out_lines(self, width: float, height: float, lines: Sequence[tuple[str, LinePlace]]) -> list[Block]:
        return self.source.call_late("lay_out_lines", self.number, width, height, lines)
