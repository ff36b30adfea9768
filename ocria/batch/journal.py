"""A file of records that is only appended to and survives an end at any byte."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

from ocria.errors import OutputError

Record = dict[str, Any]


class Journal:
    """Appends records, each a line of a checksum and JSON. A line that was cut off counts as not written."""

    def __init__(self, path: Path):
        """Open the file for appending, or make it.

        Raises:
            OutputError: it cannot be written.
        """
        self.path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            self._size = os.fstat(self._file).st_size
            torn = self._size > 0 and os.pread(self._file, 1, self._size - 1) != b"\n"
        except OSError as error:
            raise _unwritable(path, error) from error
        self.is_new = self._size == 0
        if torn:
            self._write(b"\n")

    def append(self, record: Record) -> None:
        """Add a record. After a fault, such as a full disk, the file is as it was before.

        Raises:
            OutputError: it cannot be written.
        """
        self._write(encode(record))

    def close(self) -> None:
        """Nothing is appended any more; more than once does no harm."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            os.ftruncate(self._file, self._size)
            raise _unwritable(self.path, error) from error
        self._size += len(data)


def read_journal(path: Path) -> list[Record]:
    """The whole records of a file in order; none where there is no file. Lines that are damaged are passed over.

    Raises:
        OutputError: the file cannot be read.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise OutputError(f"cannot be read: {error.strerror}", path=path) from error
    # What follows the last line break is the beginning of a line at most.
    records = (_decode(line) for line in lines[:-1])
    return [record for record in records if record is not None]


def encode(record: Record) -> bytes:
    """The line of a record. Names of files may hold lone surrogates, which ASCII JSON keeps."""
    body = json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return b"%08x %s\n" % (zlib.crc32(body), body)


def _decode(line: bytes) -> Record | None:
    checksum, _, body = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(body):
        return None
    return json.loads(body)


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(f"cannot be written: {error.strerror}", path=path, cure="Free space or choose another folder")
