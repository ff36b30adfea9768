"""Ctrl-C and the signal to end: the first one asks the run to stop, so that finished pages are kept."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType


def cancel_on_signals(said: bytes | None) -> threading.Event:
    """A flag that the first SIGINT or SIGTERM sets; the second one stops at once. `said`: what is written to standard
    error then, past all buffers."""
    cancel = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if cancel.is_set():
            raise KeyboardInterrupt
        cancel.set()
        if said is not None:
            os.write(2, said)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, interrupt)
    return cancel
