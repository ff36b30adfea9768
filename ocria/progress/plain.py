"""A labelled line for every page and for the engine now and then; nothing is rewritten in place."""

from __future__ import annotations

import time

from ocria.events import DocumentDone, DocumentSkipped, DocumentStarted, EngineTick, Event, PageDone, TaskProgress
from ocria.progress.estimate import Estimate
from ocria.progress.lines import duration, plural, tick_line
from ocria.progress.reporter import Reporter

_TICK_S = 5.0


class Plain(Reporter):
    """For logs of jobs and for screen readers."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False):
        super().__init__(quiet=quiet, verbose=verbose)
        self._estimate = Estimate()
        self._ticked = 0.0
        self._task = ""

    def show(self, event: Event) -> None:
        self._estimate.see(event)
        match event:
            case PageDone():
                self.say(self.page(event))
                return
            case DocumentSkipped():
                self.say(f"{event.path}: skipped: {event.reason}")
                return
            case DocumentStarted():
                which = f"document {event.position} of {event.documents}: " if event.documents > 1 else ""
                self.say(f"{which}{event.path}: {plural(event.pages, 'page')}")
            case DocumentDone():
                self.say(f"{event.path}: {event.status} in {event.seconds:.1f} s{self._left()}")
            case TaskProgress() if self._is_news(event):
                self.say(f"{event.task}: {event.done} of {event.total}")
            case EngineTick() if time.monotonic() - self._ticked >= _TICK_S:
                self._ticked = time.monotonic()
                self.say(f"engine: {tick_line(event)}")
        super().show(event)

    def _is_news(self, event: TaskProgress) -> bool:
        """Whether a task is new, or done, or was not told of for a while."""
        new, now = event.task != self._task or event.done == event.total, time.monotonic()
        if new or now - self._ticked >= _TICK_S:
            self._task, self._ticked = event.task, now
            return True
        return False

    def _left(self) -> str:
        """What is left of a batch, and for how long if that can be told."""
        documents, left = self._estimate.documents_left, self._estimate.left()
        if not documents:
            return ""
        time_left = "" if left is None else f", {'about ' if left.rough else ''}{duration(left.seconds)}"
        return f"; {plural(documents, 'document')} left{time_left}"
