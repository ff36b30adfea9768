"""Progress, notes and errors on standard error, and in a log file.

Reporters take the events of a run. Which one shows them is chosen by kind: live bars, plain lines, one JSON object an
event, or notes alone.
"""

from __future__ import annotations

import os
import sys

from ocria.progress.lines import page_line, printable, tick_line
from ocria.progress.log import LOG_FORMATS, Log, Logged
from ocria.progress.reporter import Reporter

KINDS = ("auto", "bar", "plain", "json", "none")

__all__ = ["KINDS", "LOG_FORMATS", "Log", "Reporter", "make_reporter", "page_line", "printable", "tick_line"]


def make_reporter(
    kind: str = "auto", *, quiet: bool = False, verbose: bool = False, log: Log | None = None
) -> Reporter:
    """The reporter of a kind in `KINDS`, and beside it the log.

    `auto`: bars on a terminal; plain lines on one that cannot redraw (TERM=dumb) or that belongs to a CI job (CI is
    set); notes alone elsewhere, and with `quiet`.
    """
    options = {"quiet": quiet, "verbose": verbose}
    kind = _automatic(quiet) if kind == "auto" else kind
    if kind == "bar":
        from ocria.progress.bar import Bar  # with rich, which takes a while to import

        reporter: Reporter = Bar(**options)
    elif kind == "plain":
        from ocria.progress.plain import Plain

        reporter = Plain(**options)
    elif kind == "json":
        from ocria.progress.json import Json

        reporter = Json(**options)
    else:
        reporter = Reporter(**options)
    return reporter if log is None else Logged(reporter, log)


def _automatic(quiet: bool) -> str:
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        return "none"
    in_place = os.environ.get("TERM") not in (None, "", "dumb") and os.environ.get("CI", "") in ("", "0", "false")
    return "bar" if in_place else "plain"
