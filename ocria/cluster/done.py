"""The checkpoint: which rows are in the shards of a folder already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ocria.cluster.files import Store
from ocria.cluster.shards import FOLDER, Entry, entries, without_failures

NOT_DONE = -1


@dataclass(frozen=True, slots=True)
class Done:
    """Keys of rows, 16 bytes each, that lie in shared memory once for a whole machine."""

    keys: np.ndarray
    """bytes [N], sorted."""
    codes: np.ndarray
    """int16 [N]: the exit code that each of them came to."""

    @classmethod
    def of(cls, found: Iterable[tuple[bytes, int]]) -> Done:
        """From keys and codes in any order."""
        pairs = list(found)
        return cls.joined([cls(np.array([key for key, _ in pairs], "S16"), np.array([c for _, c in pairs], np.int16))])

    @classmethod
    def joined(cls, many: Sequence[Done]) -> Done:
        """All of them as one; they need not be sorted."""
        keys = np.concatenate([np.empty(0, "S16"), *(one.keys for one in many)])
        codes = np.concatenate([np.empty(0, np.int16), *(one.codes for one in many)])
        order = np.argsort(keys, kind="stable")
        return cls(keys[order], codes[order])

    def codes_of(self, rows: Sequence[str]) -> list[int]:
        """For each key, 32 hexadecimal digits, the code it came to, or `NOT_DONE`."""
        if not len(self.keys):
            return [NOT_DONE] * len(rows)
        asked = np.array([bytes.fromhex(row) for row in rows], "S16")
        places = np.minimum(np.searchsorted(self.keys, asked), len(self.keys) - 1)
        return np.where(self.keys[places] == asked, self.codes[places], NOT_DONE).tolist()


def scan_all(url: str, names: Sequence[str], kind: str, retry_failed: bool) -> Done:
    """What these shards hold; see `scan`."""
    return Done.of(pair for name in names for pair in scan(url, name, kind, retry_failed))


def scan(url: str, name: str, kind: str, retry_failed: bool) -> list[tuple[bytes, int]]:
    """Keys and codes of the rows of one shard. With `retry_failed` those that did not come out whole are taken out of
    it first: if the run ends here, the next one reads them.

    Raises:
        OutputError: it cannot be read, or written.
    """
    store, path = Store(url), f"{FOLDER}/{name}"
    data = store.read(path)
    if data is None:
        return []
    if retry_failed and any(entry.code for entry in entries(data, kind, store.named(path))):
        data = without_failures(data, kind)
        if data is None:
            store.remove(path)
            return []
        store.write(path, data)
    return [(bytes.fromhex(entry.row), entry.code) for entry in entries(data, kind, store.named(path))]


def written(store: Store, name: str, kind: str, rows: Iterable[str]) -> list[Entry] | None:
    """The rows of a shard, if it is there and holds just these; else None."""
    data = store.read(f"{FOLDER}/{name}")
    found = None if data is None else entries(data, kind, store.named(name))
    return found if found is not None and {entry.row for entry in found} == set(rows) else None
