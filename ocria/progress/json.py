"""One JSON object a line for every event, notes of all levels among them, and for the error that ends a run."""

from __future__ import annotations

import json

from ocria.events import Event, Note
from ocria.progress.lines import write_line
from ocria.progress.reporter import STOPPING, Reporter


class Json(Reporter):
    """For programs; what other reporters say to people is a note."""

    def show(self, event: Event) -> None:
        write_line(json.dumps(event.to_dict()))

    def say(self, line: str) -> None:
        self.show(Note("info", line))

    def error(self, message: str, exit_code: int) -> None:
        write_line(json.dumps({"type": "error", "message": message, "exit_code": exit_code}))

    def stopping(self) -> bytes:
        return (json.dumps(Note("info", STOPPING).to_dict()) + "\n").encode()
