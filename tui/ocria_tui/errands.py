"""What a session does beside reading: pages are drawn and documents exported, in a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from ocria.errors import OcriaError
from ocria.events import Event
from ocria_tui.messages import Refused
from ocria_tui.page_images import PageImages, lowest_priority


class Errands:
    """Answers each errand with one event. Exports go first, in their order; of pages to be drawn the one that was
    asked for last, for that is what somebody looks at.

    Args:
        tell: takes the answers.
        folder: of the images.
    """

    def __init__(self, tell: Callable[[Event], None], folder: Path):
        self._tell = tell
        self._images = PageImages(folder)
        self._exports: list[tuple[str, Callable[[], Event]]] = []
        self._draws: dict[tuple[str, int, int], str | None] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="ocria-errands", daemon=True)
        self._thread.start()

    def draw(self, path: str, page: int, width: int, password: str | None = None) -> None:
        """Draw a page; the answer is a `PageImage`. Who asks twice before it came is answered once."""
        with self._changed:
            self._draws.pop((path, page, width), None)
            self._draws[path, page, width] = password
            self._changed.notify()

    def export(self, path: str, write: Callable[[], Event]) -> None:
        """Call `write`, which answers."""
        with self._changed:
            self._exports.append((path, write))
            self._changed.notify()

    def close(self) -> None:
        """Do no more; what is under way ends with the processes that do it."""
        with self._changed:
            self._closed = True
            self._exports.clear()
            self._draws.clear()
            self._changed.notify()
        self._images.close()
        self._thread.join(5)

    def _work(self) -> None:
        lowest_priority()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._exports or self._draws)
                if self._closed:
                    return
                if self._exports:
                    path, errand = self._exports.pop(0)
                else:
                    (path, page, width), password = self._draws.popitem()
                    errand = _Draw(self._images, path, page, width, password)
            answer = _answer(path, errand)
            if not self._closed:
                self._tell(answer)


class _Draw:
    def __init__(self, images: PageImages, *arguments: object):
        self._images, self._arguments = images, arguments

    def __call__(self) -> Event:
        return self._images.draw(*self._arguments)


def _answer(path: str, errand: Callable[[], Event]) -> Event:
    try:
        return errand()
    except OcriaError as error:
        return Refused(error.message, error.cure, path)
    except Exception as error:  # a damaged file, a full disk: nothing that may end the session
        return Refused(f"{type(error).__name__}: {error}", None, path)
