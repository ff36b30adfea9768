"""Standard output: data only, text in UTF-8."""

from __future__ import annotations

import os
import sys

from ocria.errors import OutputError


def to_standard_output(content: str | bytes) -> None:
    """Write text in UTF-8 whatever the locale says: a document holds any character."""
    if sys.stdout is None:
        raise OutputError("standard output is closed")
    try:
        sys.stdout.buffer.write(content.encode("utf-8", "replace") if isinstance(content, str) else content)
        sys.stdout.buffer.flush()
    except OSError as error:
        # What is left in the buffer goes elsewhere, so that the flush at the end does not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputError(f"standard output cannot be written: {error.strerror}") from error
