"""Processes that stay between the documents of one reader: to start one takes as long as a page."""

from __future__ import annotations

import os
import threading
import weakref

from ocria.document.workers.pool import Workers

_LOCK = threading.RLock()
_OF_READER: dict[int, dict[int, Workers]] = {}
"""By the identity of the reader, then by how many processes they are."""


def warm_workers(reader: object, count: int) -> Workers | None:
    """The processes that serve a reader, `count` at most; they are started for the first document and end with the
    reader, by `end_workers` or with this process. None for an object whose end cannot be told."""
    with _LOCK:
        key = id(reader)
        if key not in _OF_READER:
            try:
                weakref.finalize(reader, _end, key, os.getpid())
            except TypeError:
                return None
            _OF_READER[key] = {}
        pools = _OF_READER[key]
        if count not in pools:
            pools[count] = Workers(count)
        return pools[count]


def end_workers(reader: object) -> None:
    """End the processes that serve a reader. The next document starts others."""
    with _LOCK:
        pools = list(_OF_READER.get(id(reader), {}).values())
        _OF_READER.get(id(reader), {}).clear()
    for pool in pools:
        pool.close()


def _end(key: int, pid: int) -> None:
    """A reader is gone. In a forked copy of the process its workers are those of another one."""
    pools = _OF_READER.pop(key, {})
    if os.getpid() == pid:
        for pool in pools.values():
            pool.close()


def _forget_all() -> None:
    global _LOCK
    _LOCK = threading.RLock()
    for pools in _OF_READER.values():
        pools.clear()


os.register_at_fork(after_in_child=_forget_all)
