"""A recorded run, watched as if it happened now. No model is needed."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ocria.errors import OcriaError, UsageError
from ocria.events import Event, Note
from ocria.record import read_recording
from ocria_tui.coalesce import Coalescer, Timed
from ocria_tui.errands import Errands
from ocria_tui.messages import MESSAGES, PageImage, PausedChanged, Refused, SessionEnded


class ReplaySession:
    """See `ocria_tui.session.Session`. Events come with the times at which they were recorded; `restart` plays from the
    beginning.

    Args:
        file: a recording.
        speed: how many recorded seconds pass in one; `math.inf` plays all at once.

    Raises:
        UsageError: a speed that is not above 0.
        InputError: the file cannot be read or is no recording.
    """

    live = False

    def __init__(self, file: str | os.PathLike[str], speed: float = 1.0):
        if not speed > 0:
            raise UsageError(f"the speed must be above 0, not {speed:g}")
        self.options: Mapping[str, Any] = {}
        self.speed = speed
        self._file = Path(file)
        self._left = self._read()
        self._next = next(self._left, None)
        self._events = Coalescer()
        self._since: float | None = None
        """When the clock was set going; None while it stands still."""
        self._played = -math.inf
        """Recorded seconds until then; none before the start."""
        self._last = 0.0
        """The time of the last event."""
        self._errands: Errands | None = None
        self._images: str | None = None

    @property
    def now(self) -> float:
        """Recorded seconds that have been played."""
        if self._since is None:
            return self._played
        if math.isinf(self.speed):
            return math.inf
        return self._played + (time.monotonic() - self._since) * self.speed

    def start(self) -> None:
        self._played, self._since = 0.0, time.monotonic()

    def restart(self) -> None:
        """Play from the beginning."""
        self._left = self._read()
        self._next = next(self._left, None)
        self._events = Coalescer()
        self._played, self._last, self._since = 0.0, 0.0, time.monotonic()

    def drain(self) -> list[Timed]:
        now = self.now
        while self._next is not None and self._next[0] <= now:
            at, event = self._next
            self._last = at
            if not isinstance(event, PageImage):  # the file was a temporary one
                self._events.add(at, event)
            self._advance(at)
        return self._events.take()

    def pause(self) -> None:
        """Let the clock stand still."""
        self._played, self._since = self._last if math.isinf(self.now) else self.now, None
        self._tell(PausedChanged(True))

    def resume(self) -> None:
        if self._since is None:
            self._since = time.monotonic()
        self._tell(PausedChanged(False))

    def draw(self, path: str, page: int, width: int) -> None:
        """As of a live session where the file is still there; else a note says that it is not."""
        if not os.path.isfile(path):
            self._tell(Note("debug", "no image of the page: the file is not there any more", path, page))
            return
        if self._errands is None:
            self._images = tempfile.mkdtemp(prefix="ocria-tui-")
            self._errands = Errands(self._tell, Path(self._images))
        self._errands.draw(path, page, width)

    def open(self, paths: Sequence[str], options: Mapping[str, Any] | None = None) -> None:
        self._refuse()

    def set_options(self, options: Mapping[str, Any]) -> None:
        self._refuse()

    def cancel(self, path: str | None = None, page: int | None = None) -> None:
        self._refuse(path)

    def retry(self, path: str, pages: Sequence[int] | None = None, options: Mapping[str, Any] | None = None) -> None:
        self._refuse(path)

    def export(self, path: str, kinds: Sequence[str], target: str, overwrite: bool = False) -> None:
        self._refuse(path)

    def close(self, timeout: float = 10.0) -> None:
        if self._errands is not None:
            self._errands.close()
            self._errands = None
        if self._images is not None:
            shutil.rmtree(self._images, ignore_errors=True)
            self._images = None

    def _read(self) -> Iterator[Timed]:
        return read_recording(self._file, MESSAGES)

    def _advance(self, at: float) -> None:
        try:
            self._next = next(self._left, None)
        except OcriaError as error:
            self._events.add(at, SessionEnded(str(error), error.cure))
            self._next = None

    def _tell(self, event: Event) -> None:
        self._events.add(self._last, event)

    def _refuse(self, path: str | None = None) -> None:
        self._tell(Refused("a recorded run can be watched and paused, and nothing else", "Open its files", path))
