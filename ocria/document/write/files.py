"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ocria.errors import OutputError


def write_atomically(path: Path | str, content: str) -> None:
    """Write UTF-8 text under a temporary name in the same folder and rename it: no reader ever sees a half
    file, and an old one stays whole until then.

    Raises:
        OutputError: the folder is missing or not writable, the disk is full.
    """
    path = Path(path)
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=".ocria-", suffix=".tmp", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(path))
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        raise OutputError(f"cannot be written: {error.strerror}", path=path) from error


def check_writable(path: Path | str) -> None:
    """Fail before the work is done, not after it.

    Raises:
        OutputError: the folder is missing or not writable, or `path` is a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise OutputError("this is a folder", path=path, cure="Give the name of a file")
    if not path.parent.is_dir():
        raise OutputError("its folder does not exist", path=path)
    if not os.access(path.parent, os.W_OK):
        raise OutputError("its folder is not writable", path=path)


def _mode(path: Path) -> int:
    """Permissions of the file that is replaced, or those a new file would get."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
