"""The time that a benchmark may take."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType


class OutOfTime(BaseException):
    """The time is over in the middle of something. Not an Exception, so that nothing on the way takes it for a fault
    of its own."""


class Budget:
    """Seconds from now on, of which some are spent. clock: seconds."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic):
        self.seconds, self._clock, self._began = seconds, clock, clock()

    @property
    def spent(self) -> float:
        return self._clock() - self._began

    @property
    def left(self) -> float:
        """At least 0."""
        return max(0.0, self.seconds - self.spent)

    def fits(self, seconds: float) -> bool:
        """Whether something that takes so long ends in time."""
        return seconds <= self.left


@contextlib.contextmanager
def stop_after(seconds: float) -> Iterator[None]:
    """Raise OutOfTime in the block after so many seconds, between two lines of Python: a product or a pass that is
    under way ends first. In the main thread alone; elsewhere a block has to look at the budget itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
