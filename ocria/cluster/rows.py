"""Which documents a run reads: rows, made one by one, so that millions of them never lie in memory together."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from ocria.batch.inputs import SUFFIXES, natural_key
from ocria.batch.names import assign_stems
from ocria.cluster.files import full_name, lines, open_url, stamp_of
from ocria.errors import InputError, OcriaError

LISTS = (".txt", ".lst")
MANIFESTS = (".csv", ".jsonl", ".ndjson", ".parquet")
_PARQUET_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Row:
    """One document to read, or the pages of it that a manifest names."""

    id: str
    """Of the document: that of the manifest, else made of its path."""
    path: str
    """Absolute, or a URL."""
    pages: str | None
    """As in `1-3,8`; None for all."""
    place: str
    """Where its outputs lie below the folder of documents, suffix of the input and all."""
    stamp: str | None
    """Size and time of change as the listing told them; None where nobody has asked yet."""


def find_rows(source: str, out: str) -> Iterator[Row]:
    """The rows of a folder, a pattern, a list or a manifest, in its order.

    Args:
        source: see `ClusterOptions.source`.
        out: the folder of outputs, which is passed over.

    Raises:
        InputError: it is missing, or a line of it cannot be understood.
    """
    source, out = full_name(source), full_name(out)
    suffix = PurePosixPath(source).suffix.lower()
    fs, inside = open_url(source)
    if _has_magic(source) and not fs.exists(inside):
        yield from _of_pattern(fs, inside, open_url(out)[1])
    elif fs.isdir(inside):
        yield from _of_folder(fs, inside, open_url(out)[1])
    elif suffix in LISTS:
        base = posixpath.dirname(source)
        for line in lines(source):
            if line:
                yield _named({"path": os.fsdecode(line)}, base, source, 0)
    elif suffix == ".parquet":
        yield from _of_parquet(source)
    elif suffix == ".csv":
        yield from _of_csv(source)
    elif suffix in MANIFESTS:
        yield from _of_json_lines(source)
    else:
        yield _named({"path": source}, "", source, 0)


def check_source(source: str) -> None:
    """Raises InputError where there is nothing under this name; a pattern may match later."""
    fs, inside = open_url(source)
    try:
        there = fs.exists(inside)
    except Exception as error:  # every store has its own, such as missing credentials
        raise InputError(f"cannot be read: {type(error).__name__}: {error}", path=source) from error
    if not there and not _has_magic(source):
        raise InputError("no such file or folder", path=source)


def row_key(settings: str, row: Row, stamp: str | None) -> str:
    """Tells what a row's results depend on: the checkpoint key, 32 hexadecimal digits."""
    text = json.dumps([settings, row.id, row.path, row.pages, stamp])
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def document_id(path: str) -> str:
    """Of a document that has no other name: 16 hexadecimal digits."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def place_of(path: str, pages: str | None, top: str = "") -> str:
    """Where the outputs of a document lie: its path below `top`, or all of its path, with long names cut."""
    place = path.removeprefix(top) if top and path.startswith(top) else path.split("://", 1)[-1]
    parts = [part for part in place.split("/") if part not in ("", ".", "..")]
    parts = parts or ["root"]
    if pages is not None:
        parts[-1] += ".p" + pages.replace(" ", "").replace(",", "+")
    return assign_stems({path: "/".join(parts)}, {})[path]


def _of_folder(fs: Any, top: str, out: str) -> Iterator[Row]:
    """All files below a folder whose suffix ocria can read, but hidden ones and outputs; folder by folder. Links are
    followed, but to a folder only where its files are not listed anyway."""
    top = top.rstrip("/")
    waiting, linked = [top], {os.path.realpath(out)}
    while waiting:
        folder = waiting.pop()
        found = sorted(_entries(fs, folder), key=lambda info: natural_key(info["name"]))
        inner = []
        for info in found:
            path = info["name"].rstrip("/")
            if posixpath.basename(path).startswith(".") or path in (folder, out.rstrip("/")):
                continue
            if info["type"] == "directory":
                if not info.get("islink") or _leads_on(path, top, linked):
                    inner.append(path)
            elif PurePosixPath(path).suffix.lower() in SUFFIXES:
                yield _listed(fs, info, top + "/")
        waiting += reversed(inner)


def _leads_on(link: str, top: str, linked: set[str]) -> bool:
    """Whether a link leads to a folder that is neither below `top`, nor above it, nor in `linked`, which it enters."""
    there, real = os.path.realpath(link) + "/", os.path.realpath(top) + "/"
    if there.startswith(real) or real.startswith(there) or there[:-1] in linked:
        return False
    linked.add(there[:-1])
    return True


def _followed(fs: Any, info: dict[str, Any]) -> dict[str, Any]:
    """Of a link on a disk what it leads to; as it is where that is nothing, which opening it will tell."""
    if not info.get("islink"):
        return info
    try:
        return fs.info(info["name"])
    except OSError:
        return info


def _entries(fs: Any, folder: str) -> list[dict[str, Any]]:
    try:
        return [_followed(fs, info) for info in fs.ls(folder, detail=True)]
    except OSError as error:
        raise InputError(f"the folder cannot be read ({error.strerror or error})", path=folder) from error


def _of_pattern(fs: Any, pattern: str, out: str) -> Iterator[Row]:
    found = fs.glob(pattern, detail=True)
    for path in sorted(found, key=natural_key):
        info = _followed(fs, found[path])
        if info["type"] != "directory" and not path.startswith(out.rstrip("/") + "/"):
            yield _listed(fs, info, "")


def _listed(fs: Any, info: dict[str, Any], top: str) -> Row:
    name = info["name"]
    path = name if isinstance(fs, LocalFileSystem) else fs.unstrip_protocol(name)
    return Row(document_id(path), path, None, place_of(name, None, top), stamp_of(info))


def _of_json_lines(source: str) -> Iterator[Row]:
    base = posixpath.dirname(source)
    for number, line in enumerate(lines(source), 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
        except ValueError as error:
            raise InputError(f"line {number} is no JSON ({error})", path=source) from None
        yield _named(data, base, source, number)


def _of_csv(source: str) -> Iterator[Row]:
    base, (fs, inside) = posixpath.dirname(source), open_url(source)
    try:
        with fs.open(inside, "r", encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file)
            for data in table:
                yield _named(data, base, source, table.line_num)
    except FileNotFoundError:
        raise InputError("no such file", path=source) from None
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"the manifest cannot be read ({error})", path=source) from error


def _of_parquet(source: str) -> Iterator[Row]:
    import pyarrow.parquet as parquet

    base, number, (fs, inside) = posixpath.dirname(source), 0, open_url(source)
    try:
        with fs.open(inside, "rb") as file:
            table = parquet.ParquetFile(file)
            columns = [name for name in ("path", "pages", "id") if name in table.schema_arrow.names]
            for batch in table.iter_batches(_PARQUET_ROWS, columns=columns):
                for data in batch.to_pylist():
                    number += 1
                    yield _named(data, base, source, number)
    except OcriaError:
        raise
    except FileNotFoundError:
        raise InputError("no such file", path=source) from None
    except Exception as error:  # of any kind where the file is damaged
        raise InputError(f"the manifest cannot be read ({error})", path=source) from error


def _named(data: Any, base: str, source: str, number: int) -> Row:
    """The row that a line of a manifest means; relative paths count from the manifest's folder."""
    if not isinstance(data, dict) or not isinstance(data.get("path"), str) or not data["path"]:
        raise InputError(f"line {number} has no path", path=source, cure='Write lines such as {"path": "a.pdf"}')
    path, pages, named = data["path"], data.get("pages"), data.get("id")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise InputError(f"line {number}: no file has the name {path!a}", path=source) from error
    if "://" not in path and not os.path.isabs(path) and base:
        path = f"{base}/{path}"
    if "://" not in path or path.startswith(("file://", "local://")):
        path = full_name(path)
    # Empty cells of tables, of which some readers make a number that is none. What is no range fails its row alone.
    pages = None if pages in (None, "") or pages != pages else str(pages)
    return Row(document_id(path) if named in (None, "") else str(named), path, pages, place_of(path, pages), None)


def _has_magic(path: str) -> bool:
    return any(sign in path for sign in "*?[")
