"""The session that a command line asks for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ocria.errors import UsageError
from ocria_tui.session import Session


def make_session(
    files: Sequence[str],
    options: Mapping[str, Any],
    *,
    replay: str | os.PathLike[str] | None = None,
    speed: float = 1.0,
    record: str | os.PathLike[str] | None = None,
) -> Session:
    """A session that has not been started.

    Args:
        files: what is opened at the start: files, folders, patterns.
        options: those of `ocria.parse` and `BatchOptions` by name, and `recursive`, `include`, `exclude` for folders.
        replay: a recording to play instead.
        speed: of it; `math.inf` plays at once.
        record: a file that the events are written to.

    Raises:
        UsageError: an option cannot be met.
        InputError: the recording cannot be read.
        OutputError: `record` cannot be written.
    """
    if replay is None:
        from ocria_tui.live import LiveSession

        return LiveSession(files, options, record)
    if files or record is not None:
        raise UsageError("a recorded run opens no files and is not recorded again")
    from ocria_tui.replay import ReplaySession

    return ReplaySession(replay, speed)
