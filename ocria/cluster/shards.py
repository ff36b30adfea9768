"""Results as shards: a line for each page, and one for a document that failed as a whole."""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from ocria.batch.tally import document_code
from ocria.cluster.rows import Row
from ocria.document.options import ParseOptions
from ocria.document.result import BLANK, OK, Document
from ocria.document.write.json import page_data
from ocria.errors import EXIT_OK, OcriaError, OutputError

FOLDER = "pages"
SCHEMA = pa.schema([
    ("row", pa.string()),  # checkpoint key: what was read, from what and how
    ("id", pa.string()),  # of the document
    ("path", pa.string()),
    ("range", pa.string()),  # the pages that a manifest asked for; null for all
    ("sha256", pa.string()),  # of the file; null where it could not be opened
    ("pages", pa.int32()),  # of the file; 0 where it could not be opened
    ("page", pa.int32()),  # from 1; null for a document that failed as a whole
    ("status", pa.string()),  # of the page, or `failed`
    ("route", pa.string()),
    ("markdown", pa.string()),
    ("text", pa.string()),
    ("json", pa.string()),  # the page as in the JSON form of a document
    ("seconds", pa.float64()),
    ("tokens", pa.int64()),  # that the model wrote
    ("confidence", pa.float64()),
    ("error", pa.string()),
    ("outcome", pa.string()),  # of the document: ok, partial or failed
    ("code", pa.int16()),  # the exit code that the document would have alone
    ("finished", pa.float64()),  # seconds since 1970
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """What a shard tells of one row."""

    row: str
    path: str
    outcome: str
    code: int
    pages: int
    """Read."""


def shard_name(rows: Iterable[str], kind: str) -> str:
    """The same for the same rows, so that what is done twice is written once."""
    digest = hashlib.sha256(" ".join(sorted(rows)).encode("ascii")).hexdigest()
    return f"part-{digest[:20]}.{kind}"


def page_lines(key: str, row: Row, document: Document, options: ParseOptions) -> list[dict[str, Any]]:
    """The lines of a document, by the columns of `SCHEMA`."""
    base = {
        "row": key, "id": row.id, "path": row.path, "range": row.pages, "sha256": document.sha256,
        "pages": document.page_count, "outcome": document.status, "code": document_code(document),
        "finished": time.time(),
    }  # fmt: skip
    return [
        {
            **base, "page": page.index, "status": page.status, "route": page.route, "markdown": page.markdown,
            "text": page.text, "json": json.dumps(page_data(page, options.images), ensure_ascii=False),
            "seconds": round(page.seconds, 3), "tokens": page.tokens_out, "confidence": page.confidence,
            "error": page.error,
        }
        for page in document.pages
    ]  # fmt: skip


def failed_line(key: str, row: Row, error: OcriaError) -> dict[str, Any]:
    """The line of a document that failed as a whole."""
    told = error.message if error.cure is None else f"{error.message}. {error.cure}"
    return {
        "row": key, "id": row.id, "path": row.path, "range": row.pages, "sha256": None, "pages": 0, "page": None,
        "status": "failed", "route": None, "markdown": None, "text": None, "json": None, "seconds": 0.0, "tokens": 0,
        "confidence": None, "error": told, "outcome": "failed", "code": error.exit_code, "finished": time.time(),
    }  # fmt: skip


def encode(lines: list[dict[str, Any]], kind: str) -> bytes:
    """A shard's bytes: Parquet, or JSON Lines in which `json` is an object."""
    if kind == "parquet":
        buffer = io.BytesIO()
        table = pa.Table.from_pylist([{name: _clean(line[name]) for name in SCHEMA.names} for line in lines], SCHEMA)
        parquet.write_table(table, buffer, compression="zstd")
        return buffer.getvalue()
    told = []
    for line in lines:
        data = {**line, "json": None if line["json"] is None else json.loads(line["json"])}
        told.append(json.dumps(data, ensure_ascii=False) + "\n")
    return "".join(told).encode("utf-8", "replace")


def decode(data: bytes, kind: str, columns: list[str] | None = None) -> list[dict[str, Any]]:
    """The lines of a shard, as `encode` was given them; of Parquet only these columns are read."""
    if kind == "parquet":
        return parquet.read_table(io.BytesIO(data), columns=columns).to_pylist()
    lines = [json.loads(line) for line in data.splitlines()]
    return [{**line, "json": None if line["json"] is None else json.dumps(line["json"], ensure_ascii=False)}
            for line in lines]  # fmt: skip


def entries(data: bytes, kind: str, name: str) -> list[Entry]:
    """The rows of a shard, each once.

    Raises:
        OutputError: it is damaged.
    """
    try:
        lines = decode(data, kind, ["row", "path", "outcome", "code", "page"])
        found: dict[str, Entry] = {}
        for line in lines:
            before = found.get(line["row"])
            pages = (0 if before is None else before.pages) + (line["page"] is not None)
            found[line["row"]] = Entry(line["row"], line["path"], line["outcome"], line["code"], pages)
    except (ValueError, KeyError, OSError, pa.ArrowException) as error:
        raise OutputError(
            f"the shard is damaged ({error})", path=name, cure="Remove it, and its documents are read again"
        ) from error
    return list(found.values())


def without_failures(data: bytes, kind: str) -> bytes | None:
    """A shard without the rows that did not come out whole: its own bytes where all did, None where none did."""
    lines = decode(data, kind)
    good = [line for line in lines if line["code"] == EXIT_OK]
    if len(good) == len(lines):
        return data
    return encode(good, kind) if good else None


def bad_pages(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What to report of a document: its pages that did not come out whole, by number, status and reason."""
    return [
        {"page": line["page"], "status": line["status"], "why": line["error"] or line["status"]}
        for line in lines
        if line["status"] not in (OK, BLANK)
    ]


def _clean(value: Any) -> Any:
    """Names of files may hold lone surrogates, which have no UTF-8."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value
