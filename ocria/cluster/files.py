"""A folder anywhere: on a disk, or in any store that fsspec knows."""

from __future__ import annotations

import codecs
import os
import posixpath
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from ocria.document.write import write_atomically
from ocria.errors import InputError, MissingDependencyError, OutputError, UsageError

_DISK = LocalFileSystem()
# Stores in which an object appears whole when its upload ends. Elsewhere files are renamed into their place.
_WHOLE_PUTS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "r2", "memory"}
# What tells that a file has changed, by the names that stores have for it; the first one there is taken.
_VERSIONS = ("ETag", "etag", "md5Hash", "content_md5", "mtime", "LastModified", "last_modified", "updated", "created")


@dataclass(frozen=True)
class Store:
    """A folder to write into and to read again.

    Args:
        url: a path or a URL of fsspec.
    """

    url: str

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        fs, root = open_url(self.url)
        return fs, root.rstrip("/")

    @property
    def is_local(self) -> bool:
        return self._opened[0] is _DISK

    def write(self, name: str, data: bytes) -> None:
        """Write a file that appears whole or not at all. Raises OutputError."""
        fs, root = self._opened
        path = f"{root}/{name}"
        try:
            if self.is_local:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                write_atomically(Path(path), data)
            elif _WHOLE_PUTS & set(_protocols(fs)):
                fs.pipe_file(path, data)
            else:
                folder, last = posixpath.split(path)
                fs.makedirs(folder, exist_ok=True)
                temporary = f"{folder}/.ocria-{uuid.uuid4().hex}.tmp"
                fs.pipe_file(temporary, data)
                fs.mv(temporary, f"{folder}/{last}")
        except OutputError:
            raise
        except Exception as error:  # every store has its own
            raise OutputError(f"cannot be written: {_told(error)}", path=self.named(name)) from error

    def read(self, name: str) -> bytes | None:
        """A file's bytes; None where there is none. Raises OutputError."""
        fs, root = self._opened
        try:
            return fs.cat_file(f"{root}/{name}")
        except FileNotFoundError:
            return None
        except Exception as error:  # as above
            raise OutputError(f"cannot be read: {_told(error)}", path=self.named(name)) from error

    def names(self, folder: str, suffix: str = "") -> list[str]:
        """Names of the files in a folder, sorted; none where there is no folder. Raises OutputError."""
        fs, root = self._opened
        try:
            fs.invalidate_cache()
            found = fs.ls(f"{root}/{folder}", detail=False)
        except FileNotFoundError:
            return []
        except Exception as error:  # as above
            raise OutputError(f"cannot be listed: {_told(error)}", path=self.named(folder)) from error
        names = (str(path).rstrip("/").rsplit("/", 1)[1] for path in found)
        return sorted(name for name in names if name.endswith(suffix) and not name.startswith("."))

    def remove(self, name: str, folder: bool = False) -> None:
        """Remove a file, or a folder with all that is in it, if it is there. Raises OutputError."""
        fs, root = self._opened
        try:
            fs.rm(f"{root}/{name}", recursive=folder)
        except FileNotFoundError:
            return
        except Exception as error:  # as above
            raise OutputError(f"cannot be removed: {_told(error)}", path=self.named(name)) from error

    def named(self, name: str) -> str:
        """A file's name for people."""
        return f"{self.url.rstrip('/')}/{name}"


def open_url(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it.

    Raises:
        MissingDependencyError: the package for it is not installed.
        UsageError: nothing is known of such URLs, or credentials are missing.
    """
    if "://" not in url:  # a name on a disk may hold `::`, which parts the links of a chain in a URL
        return _DISK, os.path.abspath(url)
    if url.startswith(("file://", "local://")):
        return _DISK, os.path.abspath(_DISK._strip_protocol(url))
    if "::" in url:
        raise UsageError("chained URLs cannot be used", path=url, cure="Unpack archives, or mount them")
    try:
        return url_to_fs(url)
    except ImportError as error:
        cure = "Install it on all machines of the cluster, for example `pip install s3fs` for s3://"
        raise MissingDependencyError(f"{url}: {error}", cure=cure) from error
    except Exception as error:
        raise UsageError(f"the URL cannot be opened: {_told(error)}", path=url) from error


def full_name(url: str) -> str:
    """A URL as all machines understand it: local paths absolute and without `file://`, others as they are."""
    fs, path = open_url(url)
    return path if fs is _DISK else fs.unstrip_protocol(path)


def fetch(path: str) -> bytes:
    """A document's bytes. Raises InputError."""
    fs, inside = open_url(path)
    try:
        return fs.cat_file(inside)
    except FileNotFoundError:
        raise InputError("no such file", path=path) from None
    except Exception as error:  # every store has its own
        raise InputError(f"cannot be read: {_told(error)}", path=path) from error


def is_local(path: str) -> bool:
    return open_url(path)[0] is _DISK


def stamp_of(info: dict[str, Any]) -> str:
    """What changes when a file does: its size, and its checksum or the time of its last change."""
    version = next((info[name] for name in _VERSIONS if info.get(name) is not None), "")
    if isinstance(version, datetime):  # some stores list times in one form and tell them in another
        version = version.timestamp()
    return f"{info.get('size')} {version}"


def stamp(path: str) -> str | None:
    """The stamp of a file; None where it is missing or cannot be asked for."""
    try:
        fs, inside = open_url(path)
        return stamp_of(fs.info(inside))
    except Exception:  # reading it will tell what is wrong
        return None


def lines(path: str) -> Iterator[bytes]:
    """The lines of a file without their ends, read as they are asked for. Raises InputError."""
    fs, inside = open_url(path)
    try:
        with fs.open(inside, "rb") as file:
            for number, line in enumerate(file):
                yield (line if number else line.removeprefix(codecs.BOM_UTF8)).rstrip(b"\r\n")
    except FileNotFoundError:
        raise InputError("no such file", path=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {_told(error)}", path=path) from error


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def _told(error: Exception) -> str:
    return getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
