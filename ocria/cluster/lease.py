"""One run at a time into a folder, in any store: a file that its owner renews."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ocria.cluster.files import Store
from ocria.errors import OutputError

FILE = ".ocria/run.json"
# A lease that is not renewed while another run looks on for the second time is nobody's: the clocks of two machines may
# differ.
RENEW_S, LAPSE_S = 10.0, 45.0
_CURE = f"Wait for it, or choose another --out; if it is surely dead, remove {FILE}"


class Lease:
    """Held from the beginning of a `with` block to its end.

    Stores differ in what they promise of two that write at the same time, so a lease is read again after it was taken,
    and whenever it is renewed: of two runs that met, one ends.

    Args:
        store: the folder.
        tell: is given a line where a run that may be dead has to be waited for.
        renew_s, lapse_s: seconds.
    """

    def __init__(
        self,
        store: Store,
        tell: Callable[[str], None] | None = None,
        *,
        renew_s: float = RENEW_S,
        lapse_s: float = LAPSE_S,
    ):
        self._store, self._tell, self._renew_s, self._lapse_s = store, tell, renew_s, lapse_s
        self._mine = {
            "run": uuid.uuid4().hex, "machine": socket.gethostname(), "system": _system(), "process": os.getpid(),
            "begun": time.time(), "renewed": 0,
        }  # fmt: skip
        self._ended = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="lease", daemon=True)
        self.lost: OutputError | None = None
        """Set once another run has taken the folder."""

    def __enter__(self) -> Lease:
        """Raises OutputError: another run has the folder, or nothing can be written."""
        self._wait_for_the_dead()
        self._write()
        time.sleep(min(1.0, self._renew_s / 2))
        self._look()
        if self.lost is not None:
            raise self.lost
        self._renewing.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._renewing.join()
        with contextlib.suppress(OutputError):  # it lapses
            if self.lost is None:
                self._store.remove(FILE)

    def _wait_for_the_dead(self) -> None:
        """Until the lease of an earlier run has lapsed. Raises OutputError where it is renewed."""
        first = self._read()
        if first is None or _is_gone(first):
            return
        if self._tell is not None:
            self._tell(f"{_named(first)} has a lease here; seeing for {self._lapse_s:.0f} s whether it is alive")
        until = time.monotonic() + self._lapse_s
        while time.monotonic() < until:
            time.sleep(min(1.0, self._renew_s / 2))
            now = self._read()
            if now is None:
                return
            if now != first:
                raise self._taken(now)

    def _renew(self) -> None:
        while not self._ended.wait(self._renew_s) and self.lost is None:
            with contextlib.suppress(OutputError):  # a store that is away for a while; what else is written tells
                self._look()
                if self.lost is None:
                    self._mine["renewed"] += 1
                    self._write()

    def _look(self) -> None:
        now = self._read()
        if now is not None and now.get("run") != self._mine["run"]:
            self.lost = self._taken(now)

    def _read(self) -> dict[str, Any] | None:
        data = self._store.read(FILE)
        if data is None:
            return None
        try:
            told = json.loads(data)
        except ValueError:
            told = None
        return told if isinstance(told, dict) else {}

    def _write(self) -> None:
        self._store.write(FILE, json.dumps(self._mine).encode("ascii"))

    def _taken(self, other: dict[str, Any]) -> OutputError:
        return OutputError(f"{_named(other)} writes into this folder", path=self._store.url, cure=_CURE)


def _named(lease: dict[str, Any]) -> str:
    begun = lease.get("begun")
    since = f", begun {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(begun))} UTC" if isinstance(begun, float) else ""
    return f"another run (process {lease.get('process')} on {lease.get('machine')}{since})"


def _system() -> str | None:
    """Tells where numbers of processes mean the same: this start of the machine, and the container. None where it does
    not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii") + os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def _is_gone(lease: dict[str, Any]) -> bool:
    """Whether its process was one of this system, and is there no more."""
    process, system = lease.get("process"), _system()
    if system is None or lease.get("system") != system or type(process) is not int:
        return False
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False
