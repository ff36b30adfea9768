"""The engine's process: `python -m ocria_tui.child`. It owns the model, the engine and the processes that open files.

Commands come as JSON lines on standard input, events go out as JSON lines on what was standard output; what libraries
print goes to standard error. It ends when its input does, so it never outlives the app.
"""

from __future__ import annotations

import os
import queue
import shutil
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from ocria.events import Event, PageDone
from ocria_tui.coalesce import Coalescer
from ocria_tui.desk import Desk
from ocria_tui.errands import Errands
from ocria_tui.export import Exporter
from ocria_tui.job import Job
from ocria_tui.messages import Refused, SessionEnded
from ocria_tui.wire import FORGET, JOB, read_line, write_line

NICENESS = 5
"""Of this process, so that the app is drawn in time on a machine whose cores are all busy."""
INTERVAL_S = 0.1
"""Between two batches of events."""
_LINGER_S = 10.0
"""After its input ended, or it was told to close, the process is gone after this time at the latest."""


def main() -> None:
    """Serve until told to close."""
    commands, events = _take_pipes()
    first = read_line(commands.readline())
    if first is None:
        return
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the app, which tells what is to be done
    child = Child(events, first["begun"], first["options"], Path(first["images"]))
    threading.Thread(target=child.obey, args=(commands,), name="ocria-commands", daemon=True).start()
    child.serve()


class Child:
    """Reads documents in the thread that calls `serve`, obeys in another one and sends from a third.

    Args:
        begun: `time.monotonic()` at the start of the session, which events count their time from.
        images: folder for images of pages; it is removed at the end.
    """

    def __init__(self, events: BinaryIO, begun: float, options: dict[str, Any], images: Path):
        self._pipe, self._begun, self._images = events, begun, images
        self._events = Coalescer()
        self._jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        """What is told of jobs, which is no event."""
        self._closing = threading.Event()
        self._desk = Desk(options, self._tell, self._remember, self._forget)
        self._errands = Errands(self._tell, images)
        self._exporter = Exporter()
        self._sender = threading.Thread(target=self._send, name="ocria-events", daemon=True)
        self._sender.start()

    def serve(self) -> None:
        """Read what is queued until the desk is closed."""
        from ocria_tui.reading import Reading

        reading = Reading(self._tell)
        while (taken := self._desk.take()) is not None:
            job, control = taken
            for event in reading.events(job, control, lambda shelf, path=job.path: self._desk.put_up(path, shelf)):
                if isinstance(event, PageDone):
                    self._desk.page_done(event)
                self._tell(event)
            self._desk.finish(job)
        reading.close()
        self._errands.close()
        self._tell(SessionEnded())
        self._closing.set()
        self._sender.join(_LINGER_S)
        shutil.rmtree(self._images, ignore_errors=True)
        os._exit(0)  # no thread of a library holds it up

    def obey(self, commands: BinaryIO) -> None:
        """Do what comes, until nothing can come any more."""
        for line in commands:
            command = read_line(line)
            if command is None:
                continue
            if command["do"] == "close":
                break
            try:
                self._obey(**command)
            except Exception as error:  # one command that cannot be followed must not end the session
                self._tell(Refused(f"{type(error).__name__}: {error}", None, command.get("path")))
        self._desk.close()
        time.sleep(_LINGER_S)
        shutil.rmtree(self._images, ignore_errors=True)
        os._exit(1)

    def _obey(self, do: str, **given: Any) -> None:
        desk = self._desk
        match do:
            case "open":
                desk.open(given["paths"], given["options"])
            case "job":
                desk.queue(Job.of(given["job"]))
            case "set_options":
                desk.set_options(given["options"])
            case "pause":
                desk.pause()
            case "resume":
                desk.resume()
            case "cancel":
                desk.cancel(given["path"], given["page"])
            case "retry":
                desk.retry(given["path"], given["pages"], given["options"])
            case "draw":
                path = given["path"]
                self._errands.draw(path, given["page"], given["width"], desk.password(path))
            case "export":
                self._export(**given)
            case _:
                self._tell(Refused(f"no command is called {do!r}"))

    def _export(self, path: str, kinds: list[str], target: str, overwrite: bool = False) -> None:
        def write() -> Event:
            shelf, options = self._desk.shelf(path)
            batch = replace(options.batch, overwrite=options.batch.overwrite or overwrite)
            return self._exporter.write(path, shelf, kinds, target, batch)

        self._errands.export(path, write)

    def _tell(self, event: Event) -> None:
        self._events.add(time.monotonic() - self._begun, event)

    def _remember(self, job: Job) -> None:
        self._jobs.put({"type": JOB, "job": job.plain()})

    def _forget(self, path: str) -> None:
        self._jobs.put({"type": FORGET, "path": path})

    def _send(self) -> None:
        self._pipe.write(b"\n")  # ends what was printed before the pipe was taken
        ended = False
        while not ended:
            ended = self._closing.wait(INTERVAL_S)
            try:
                while not self._jobs.empty():
                    write_line(self._pipe, self._jobs.get())
                for at, event in self._events.take():
                    write_line(self._pipe, {"at": round(at, 4), **event.to_dict()})
                self._pipe.flush()
            except BrokenPipeError:
                self._desk.close()  # nobody is there any more
                return


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Commands and events, out of reach of libraries that read or print: what they print goes to standard error."""
    commands, events = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return commands, events


if __name__ == "__main__":
    main()
