"""What runs into a folder of outputs have done, document by document."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ocria.batch.journal import Journal, read_journal
from ocria.errors import OutputError

FOLDER = ".ocria"
_NAME = "manifest.jsonl"
_FORMAT = 1
# A file changed within this time of being looked at may change again without a new time stamp.
_CLOCK_S = 2.0


@dataclass(frozen=True, slots=True)
class Stamp:
    """The state of a file, as far as can be told without reading it."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Stamp | None:
        """That of a file at rest; None where it is missing or was changed just now, so that it proves nothing."""
        try:
            state = os.stat(path)
        except OSError:
            return None
        if time.time() - max(state.st_mtime, state.st_ctime) < _CLOCK_S:
            return None
        return cls(state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)


@dataclass(slots=True)
class Entry:
    """How a document ended."""

    input: str
    """The input's path from the folder of outputs."""
    stem: str
    """What the names of its outputs begin with, relative to that folder."""
    settings: str
    """Key of the options and the model, see `ocria.batch.key`."""
    sha256: str
    stamp: Stamp | None
    """Of the input before it was read."""
    status: str
    """As of a document."""
    reason: str = ""
    """What went wrong, for people."""
    exit_code: int = 0
    cure: str | None = None
    cancelled: bool = False
    """Whether some pages were cancelled, so that the next run has something to read."""
    outputs: dict[str, str] = field(default_factory=dict)
    """SHA-256 of each output by its path relative to the folder."""


class Manifest:
    """The entries of a folder, the newest of each input, kept in `.ocria/manifest.jsonl`."""

    def __init__(self, root: Path, read_only: bool = False):
        """Read what is there, and open it for appending unless it is `read_only`.

        Raises:
            OutputError: it cannot be read or written, or a newer ocria wrote it.
        """
        self.root = root
        self.entries: dict[str, Entry] = {}
        self.stems: dict[str, str] = {}
        self.stores: dict[str, str] = {}
        """Key of the pages kept of each input."""
        self.unfinished: dict[str, list[str]] = {}
        """Outputs that were about to be written when a run ended."""
        self._outputs: dict[str, set[str]] = {}
        for record in _records(root):
            self._take(record)
        self._journal = None if read_only else Journal(root / FOLDER / _NAME)
        if self._journal is not None and self._journal.is_new:
            self._journal.append({"format": _FORMAT})

    def begin(self, name: str, stem: str, store: str) -> None:
        """Pages of an input are about to be kept."""
        if self.stores.get(name) != store or self.stems.get(name) != stem:
            self._add({"begun": {"input": name, "stem": stem, "store": store}})

    def announce(self, name: str, outputs: dict[str, str]) -> None:
        """These outputs, by path and SHA-256, are about to be written."""
        self._add({"writing": {"input": name, "outputs": outputs}})

    def end(self, entry: Entry) -> None:
        """A document is done with, for good or ill."""
        self._add({"done": asdict(entry)})

    def is_own(self, output: str) -> bool:
        """Whether the file at an output's path is as ocria wrote it."""
        return output in self._outputs and sha256_of(self.root / output) in self._outputs[output]

    def are_whole(self, entry: Entry) -> bool:
        """Whether all outputs of an entry are there and unchanged."""
        return all(sha256_of(self.root / name) == digest for name, digest in entry.outputs.items())

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()

    def _add(self, record: dict[str, Any]) -> None:
        self._journal.append(record)
        self._take(record)

    def _take(self, record: dict[str, Any]) -> None:
        match record:
            case {"begun": begun}:
                self.stems[begun["input"]] = begun["stem"]
                self.stores[begun["input"]] = begun["store"]
            case {"writing": writing}:
                self.unfinished[writing["input"]] = list(writing["outputs"])
                for output, digest in writing["outputs"].items():
                    self._outputs.setdefault(output, set()).add(digest)
            case {"done": done}:
                entry = _entry(done)
                self.entries[entry.input] = entry
                self.stems[entry.input] = entry.stem
                self.unfinished.pop(entry.input, None)
                for output, digest in entry.outputs.items():
                    self._outputs[output] = {digest}


def known_outputs(root: Path) -> set[str]:
    """Relative paths of all outputs that ocria has written into a folder; none where it is no folder of outputs."""
    if not (root / FOLDER / _NAME).is_file():
        return set()
    found: set[str] = set()
    for record in _records(root):
        for part in ("writing", "done"):
            found.update(record.get(part, {}).get("outputs", {}))
    return found


def sha256_of(path: str | os.PathLike[str]) -> str | None:
    """Of a file's bytes; None where it cannot be read."""
    import hashlib

    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _records(root: Path) -> list[dict[str, Any]]:
    records = read_journal(root / FOLDER / _NAME)
    for record in records:
        if record.get("format", _FORMAT) > _FORMAT:
            raise OutputError(
                "a newer version of ocria wrote into this folder", path=root, cure="Choose another --output-dir"
            )
    return records


def _entry(data: dict[str, Any]) -> Entry:
    values = {field.name: data[field.name] for field in fields(Entry) if field.name in data}
    stamp = values.get("stamp")
    return Entry(**{**values, "stamp": None if stamp is None else Stamp(**stamp)})
