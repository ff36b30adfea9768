"""PyMuPDF, kept quiet and serial.

MuPDF prints its complaints to standard error and pymupdf4llm some of its own to standard output, where only
data belongs; both are collected here instead. MuPDF must not run in two threads at once.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import threading
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import pymupdf

FAULTS = (RuntimeError, ValueError, SystemError, pymupdf.mupdf.FzErrorBase)
"""What PyMuPDF raises over damaged files."""

pymupdf.TOOLS.mupdf_display_errors(False)
pymupdf.TOOLS.mupdf_display_warnings(False)
pymupdf.set_messages(pylogging=True, pylogging_name="pymupdf", pylogging_level=logging.DEBUG)

_LOCK = threading.RLock()
_P = ParamSpec("_P")
_R = TypeVar("_R")


def serial(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let only one thread of the process be inside any function marked so."""

    @functools.wraps(function)
    def locked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with _LOCK:
            return function(*args, **kwargs)

    return locked


def take_warnings() -> list[str]:
    """MuPDF's complaints since the last call, each once."""
    lines = pymupdf.TOOLS.mupdf_warnings(reset=True).splitlines()
    return list(dict.fromkeys(line for line in lines if line and not line.startswith("... repeated")))


@contextlib.contextmanager
def quiet_stdout() -> Iterator[io.StringIO]:
    """Collect what a library prints to standard output; use it only inside a `serial` function."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        yield said
