"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ocria.errors import OutputError


def write_atomically(path: Path | str, content: str | bytes) -> None:
    """Write bytes, or text as UTF-8, under a temporary name in the same folder and rename it: no reader sees a half
    file, and an old one stays whole until then. A link stays one, its target is written; devices and pipes are
    written as they are, for a rename would put a file in their place.

    Lone surrogates, which names of files may hold, have no UTF-8 and become question marks.

    Raises:
        OutputError: the folder is missing or not writable, the disk is full.
    """
    path = Path(path)
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    temporary = None
    try:
        if is_device(path):
            path.write_bytes(data)
            return
        target = Path(os.path.realpath(path))
        handle, temporary = tempfile.mkstemp(prefix=".ocria-", suffix=".tmp", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
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
    if is_device(path):
        if not os.access(path, os.W_OK):
            raise OutputError("cannot be written", path=path)
        return
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise OutputError("its folder does not exist", path=path)
    if not os.access(folder, os.W_OK):
        raise OutputError("its folder is not writable", path=path)


def is_device(path: Path | str) -> bool:
    """Whether `path` is there and neither a file nor a folder: a device, a pipe or a socket."""
    path = Path(path)
    return path.exists() and not path.is_file() and not path.is_dir()


def _mode(path: Path) -> int:
    """Permissions of the file that is replaced, or those a new file would get."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
