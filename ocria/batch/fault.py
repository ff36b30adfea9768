"""Errors that end one document instead of the run."""

from __future__ import annotations

from collections.abc import Iterator

from ocria.errors import EngineError, OcriaError, OutputError, UsageError
from ocria.events import Event


class DocumentFault(Exception):
    """Carries an error of a kind that usually ends a run, and here concerns one document alone: a page that it does
    not have, an output that stands there already."""

    def __init__(self, error: OcriaError):
        super().__init__(str(error))
        self.error = error


def until_fault(events: Iterator[Event]) -> Iterator[Event | OcriaError]:
    """The events of a document, and last of all what is wrong with it where something is.

    Raises:
        EngineError, UsageError, OutputError: what no other document would escape.
    """
    try:
        yield from events
    except DocumentFault as fault:
        yield fault.error
    except (EngineError, UsageError, OutputError):
        raise
    except OcriaError as error:
        yield error
    except Exception as error:  # what a damaged file makes a library raise is of any kind, and others wait
        yield OcriaError(f"unexpected {type(error).__name__}: {error}")
