"""Lines of text in place of the app: for screen readers, logs, and terminals that cannot redraw.

Nothing is rewritten in place, nothing is drawn, and each line says what it is about. Commands are lines too.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Mapping
from typing import IO

from ocria.errors import EXIT_INTERRUPTED
from ocria.events import DocumentWritten, Event, LinesFound, PageStarted
from ocria.progress.lines import duration, plural
from ocria.progress.plain import Plain
from ocria_tui.eta import eta
from ocria_tui.messages import (
    DocumentCancelled,
    DocumentQueued,
    Exported,
    PausedChanged,
    Refused,
    SessionEnded,
)
from ocria_tui.session import Session
from ocria_tui.state import AppState, apply

_POLL_S = 0.1
HELP = "commands: p pause or go on, x give up the document being read, X give up all, s how it stands, q quit, h help"


def must_be_plain(
    environment: Mapping[str, str] = os.environ, stdin: IO[str] | None = None, stdout: IO[str] | None = None
) -> bool:
    """Whether there is no terminal that the app could draw on and read keys from, or it belongs to a CI job."""
    streams = (sys.stdin if stdin is None else stdin, sys.stdout if stdout is None else stdout)
    if any(stream is None or stream.closed or not stream.isatty() for stream in streams):
        return True
    return environment.get("TERM") in (None, "", "dumb") or environment.get("CI", "") not in ("", "0", "false")


class Lines(Plain):
    """What happens, a line each, on standard error."""

    def show(self, event: Event) -> None:
        match event:
            case DocumentQueued():
                pages = "" if event.pages is None else f", {plural(len(event.pages), 'page')}"
                self.say(f"document {event.path}: waits{pages}")
            case PageStarted():
                self.say(f"document {event.path}: page {event.page} is begun")
            case LinesFound():
                self.say(f"document {event.path}: page {event.page} has {plural(len(event.boxes), 'line')}")
            case DocumentCancelled():
                self.say(f"document {event.path}: given up; what was read is kept")
            case PausedChanged():
                self.say("paused" if event.paused else "goes on")
            case DocumentWritten() | Exported():
                self.say(f"document {event.path}: wrote {', '.join(event.outputs)}")
            case Refused() | SessionEnded() if event.message is not None:
                cure = "" if event.cure is None else f". {event.cure}"
                about = f"document {event.path}: " if isinstance(event, Refused) and event.path is not None else ""
                self.say(f"error: {about}{event.message}{cure}")
            case _:
                super().show(event)


def run_plain(session: Session, *, fail_on: str = "partial", commands: IO[str] | None = None) -> int:
    """Follow a session to the end of its documents, or until `q`; gives the exit code. The session is closed.

    commands: lines of one letter, by default standard input where that is a terminal.
    """
    from ocria_tui.exit_code import exit_code

    state, lines, asked = AppState(), Lines(), queue.SimpleQueue()
    lines.many = True
    if commands is None and sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty():
        commands = sys.stdin
    if commands is not None:
        lines.say(HELP)
        threading.Thread(target=_read, args=(commands, asked), daemon=True).start()
    try:
        session.start()
        while not over(state):
            for at, event in session.drain():
                apply(state, at, event)
                lines.show(event)
            while not asked.empty():
                if not _obey(asked.get(), session, state, lines):
                    return exit_code(state, fail_on)
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        lines.say("stopping, finished pages are kept")
        return EXIT_INTERRUPTED
    finally:
        session.close()
    return exit_code(state, fail_on)


def over(state: AppState) -> bool:
    """Whether nothing is left to wait for: all documents ended, or none could be opened, or the engine is gone."""
    if state.ended is not None:
        return True
    if state.documents:
        return state.documents_ended == len(state.documents)
    return any(line.level in ("warning", "error") for line in state.log)


def standing(state: AppState) -> str:
    """How the run stands, as a sentence."""
    known = sum(state.counts.values())
    left = eta(state)
    parts = [
        f"{state.documents_ended} of {plural(len(state.documents), 'document')} done",
        f"{known - state.pages_left} of {plural(known, 'page')} done",
        f"running for {duration(state.now)}",
        "time left not known" if left is None else str(left).replace("~", "about ") + " left",
    ]
    return ("paused, " if state.paused else "") + ", ".join(parts)


def _obey(command: str, session: Session, state: AppState, lines: Lines) -> bool:
    """Follow a command; False where it ends the run."""
    match command:
        case "q":
            return False
        case "p":
            if state.paused:
                session.resume()
            else:
                session.pause()
        case "x" if state.reading is not None:
            session.cancel(state.reading[0])
        case "X":
            session.cancel()
        case "s":
            lines.say(standing(state))
        case "":
            pass
        case _:
            lines.say(HELP)
    return True


def _read(commands: IO[str], asked: queue.SimpleQueue[str]) -> None:
    for line in commands:
        asked.put(line.strip())
