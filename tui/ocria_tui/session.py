"""What the app asks of whatever reads the documents: the engine's process, or a recorded run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ocria.events import Event


class Session(Protocol):
    """Calls return at once; what comes of them arrives as events, at most ten times a second.

    Paths are those of `DocumentQueued`. Options are those of `ocria.parse` by name, for what is opened from then on;
    a session that cannot do a thing answers with `Refused`.
    """

    live: bool
    """False for a recorded run, which can be watched and nothing else but paused."""
    options: Mapping[str, Any]
    """What documents are opened with unless told otherwise."""

    def start(self) -> None:
        """Begin; once."""

    def drain(self) -> list[tuple[float, Event]]:
        """What happened since the last call, in order, each with the seconds since the start. Text that came for one
        line in between is one event."""

    def open(self, paths: Sequence[str], options: Mapping[str, Any] | None = None) -> None:
        """Queue files, folders and globs; `options` beside the session's own, for these alone."""

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Change what later documents are opened with."""

    def pause(self) -> None:
        """No page is begun and the engine takes no step until `resume`."""

    def resume(self) -> None: ...

    def cancel(self, path: str | None = None, page: int | None = None) -> None:
        """Give up a page, a document or, without a path, everything that is queued or running."""

    def retry(self, path: str, pages: Sequence[int] | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Read some pages again, or all; they take the place of what was read before."""

    def draw(self, path: str, page: int, width: int) -> None:
        """Ask for a `PageImage` of so many pixels across."""

    def export(self, path: str, kinds: Sequence[str], target: str, overwrite: bool = False) -> None:
        """Write what is there of a document: formats as of `ocria parse -f`; target: a folder, or a file for one
        format; overwrite: replace what stands there, whoever wrote it. Answers with `Exported`."""

    def close(self, timeout: float = 10.0) -> None:
        """Stop; finished pages are kept. The process is gone when this returns."""
