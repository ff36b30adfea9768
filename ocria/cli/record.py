"""`ocria parse --record`: the events of a run beside what is shown of them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from ocria.errors import UsageError
from ocria.events import Event
from ocria.progress import Reporter
from ocria.record import Recording


@contextmanager
def recorded(reporter: Reporter, options: argparse.Namespace, inputs: Iterable[str]) -> Iterator[Reporter]:
    """The reporter, with a recording beside it where the options name a file for one.

    Args:
        inputs: paths of the documents, none of which is replaced.

    Raises:
        OutputError: the recording exists already or cannot be written.
        UsageError: it would take the place of another file of the run.
    """
    if options.record is None:
        yield reporter
        return
    others = (*inputs, *(path for path in (options.output, options.log_file) if path is not None))
    if any(os.path.realpath(path) == os.path.realpath(options.record) for path in others):
        raise UsageError("--record names another file of this run", cure="Name a file of its own")
    with closing(Recording(options.record, overwrite=options.overwrite)) as recording:
        yield _Recorded(reporter, recording)


class _Recorded(Reporter):
    """A reporter with a recording beside it, which gets the same events."""

    def __init__(self, reporter: Reporter, recording: Recording):
        super().__init__(quiet=reporter.quiet, verbose=reporter.verbose)
        self._reporter, self._recording = reporter, recording

    def close(self) -> None:
        self._reporter.close()

    def show(self, event: Event) -> None:
        self._recording.add(event)
        self._reporter.show(event)

    def say(self, line: str) -> None:
        self._reporter.say(line)

    def error(self, message: str, exit_code: int) -> None:
        self._reporter.error(message, exit_code)

    def stopping(self) -> bytes | None:
        return self._reporter.stopping()
