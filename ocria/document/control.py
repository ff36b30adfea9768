"""What whoever started a run may ask of it from another thread: stop, wait, leave out a page or a document."""

from __future__ import annotations

import time
from threading import Condition
from threading import Event as Flag

_LOOK_S = 0.1


class _Wishes:
    """Of one run, shared by the controls that follow each other."""

    def __init__(self) -> None:
        self.changed = Condition()
        self.pages: set[tuple[str, int]] = set()
        self.documents: set[str] = set()
        self.paused_at: float | None = None
        self.paused_s = 0.0


class Control(Flag):
    """Steers one run: give it as `cancel` wherever a `threading.Event` is taken. All calls return at once and may come
    from any thread.

    - `set()`: no further page is begun and the run ends, as with a plain event; a pause is over.
    - `pause()`: no page and no document is begun, the engine takes no step, and nothing is lost. Work that is under way
      in child processes, such as drawing the next pages, is finished there. No time limit runs meanwhile, and the
      `seconds` of pages and documents do not count it. After `resume()` the run goes on and reads what it would have
      read. Runs in other threads that share its reader wait too where they need the model.
    - `cancel_page(path, page)`: the page is not begun, or what the engine has of it ends while other pages go on. It
      ends with the status `cancelled` and has no text. One that is done already stays as it is.
    - `cancel_document(path)`: the document ends with the pages that are done and the status `interrupted`; one that was
      not begun has none. The next one has its turn.

    Paths and pages are those of the events. What is cancelled during a pause ends after it. To read such a page or
    document again takes another run with a control of its own.

    Args:
        follow: another flag: this control is set when that one is, and has the pauses and cancellations of that one if
            it is a control too.
    """

    def __init__(self, follow: Flag | None = None) -> None:
        super().__init__()
        self._follow = follow
        self._wishes: _Wishes = follow._wishes if isinstance(follow, Control) else _Wishes()

    def is_set(self) -> bool:
        return super().is_set() or (self._follow is not None and self._follow.is_set())

    def set(self) -> None:
        super().set()
        self.resume()

    def pause(self) -> None:
        """Let the run wait; more than once is as good as once."""
        with self._wishes.changed:
            if self._wishes.paused_at is None and not Control.is_set(self):
                self._wishes.paused_at = time.monotonic()

    def resume(self) -> None:
        """Let it go on."""
        wishes = self._wishes
        with wishes.changed:
            if wishes.paused_at is not None:
                wishes.paused_s += time.monotonic() - wishes.paused_at
                wishes.paused_at = None
            wishes.changed.notify_all()

    @property
    def paused(self) -> bool:
        return self._wishes.paused_at is not None

    def cancel_page(self, path: str, page: int) -> None:
        """Leave a page out."""
        self._wishes.pages.add((path, page))

    def cancel_document(self, path: str) -> None:
        """Leave out what is not done of a document."""
        self._wishes.documents.add(path)

    def is_cancelled(self, path: str, page: int | None = None) -> bool:
        """Whether this page, or without one this document, is to be left out."""
        return path in self._wishes.documents if page is None else (path, page) in self._wishes.pages

    def hold(self) -> float:
        """For those who follow a control: wait while it is paused. Returns the seconds that took."""
        if not self.paused:
            return 0.0
        began = time.monotonic()
        with self._wishes.changed:
            while self.paused and not Control.is_set(self):
                self._wishes.changed.wait(_LOOK_S)  # a flag that is followed wakes nobody
        if Control.is_set(self):
            self.resume()
        return time.monotonic() - began

    def now(self) -> float:
        """Seconds of a clock that stands still during pauses."""
        wishes = self._wishes
        with wishes.changed:
            return (time.monotonic() if wishes.paused_at is None else wishes.paused_at) - wishes.paused_s


def control_of(cancel: Flag | None) -> Control:
    """A control for what the caller gave."""
    return cancel if isinstance(cancel, Control) else Control(cancel)


class Deadline:
    """A time limit that begins now and does not run during pauses."""

    def __init__(self, control: Control, seconds: float) -> None:
        self._control = control
        self._end = control.now() + seconds

    def is_over(self) -> bool:
        return self._control.now() >= self._end

    def at(self) -> float:
        """The time of `time.monotonic` at which it is over unless there are more pauses."""
        return time.monotonic() + self._end - self._control.now()
