"""One run at a time into a folder of outputs."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

from ocria.batch.manifest import FOLDER
from ocria.errors import OutputError

_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class Lock:
    """Held by the process until `release`; the system drops it when the process ends, however it ends."""

    def __init__(self, root: Path):
        """Make the folder where it is missing, and take the lock.

        Raises:
            OutputError: another run has it, or the folder cannot be written.
        """
        self.works = True
        """Whether the file system has locks at all."""
        path = root / FOLDER / "lock"
        try:
            (root / FOLDER / "pages").mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            cure = "Choose another --output-dir"
            raise OutputError(f"the folder cannot be written: {error.strerror}", path=root, cure=cure) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                self.works = False
                return
            owner = os.pread(self._file, 32, 0).decode("ascii", "replace").strip()
            os.close(self._file)
            raise OutputError(
                f"another run of ocria (process {owner}) writes into this folder",
                path=root,
                cure="Wait for it, or choose another --output-dir",
            ) from error
        with contextlib.suppress(OSError):  # a full disk; who holds the lock is said for comfort alone
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._file)
