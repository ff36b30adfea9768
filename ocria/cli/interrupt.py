"""Ctrl-C and the signal to end: the first one asks the run to stop, so that finished pages are kept."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def interrupt_on_sigterm() -> None:
    """From now on SIGTERM is a KeyboardInterrupt, as Ctrl-C is, so that what is half done is cleared away."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def cancel_on_signals(said: bytes | None) -> threading.Event:
    """A flag that the first SIGINT or SIGTERM sets; the second one stops at once, and a third one without clearing up.
    `said`: what is written to standard error at the first, past all buffers."""
    cancel = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if cancel.is_set():
            for each in _SIGNALS:
                signal.signal(each, signal.SIG_DFL)
            raise KeyboardInterrupt
        cancel.set()
        if said is not None:
            os.write(2, said)

    if threading.current_thread() is threading.main_thread():
        for each in _SIGNALS:
            signal.signal(each, interrupt)
    return cancel
