"""What one engine does at a time: a document, or a part of a long one. It travels as JSON in a column of its own."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from ocria.cluster.rows import Row
from ocria.errors import OcriaError

ROWS = pa.schema([("row", pa.string())])
JOBS = pa.schema([("job", pa.string()), ("content", pa.large_binary())])
RECEIPTS = pa.schema([("receipt", pa.string())])


@dataclass(frozen=True, slots=True)
class Fault:
    """An error that travels."""

    message: str
    cure: str | None
    code: int

    @classmethod
    def of(cls, error: OcriaError) -> Fault:
        return cls(error.message, error.cure, error.exit_code)

    def error(self, path: str) -> OcriaError:
        error = OcriaError(self.message, path=path, cure=self.cure)
        error.exit_code = self.code
        return error


@dataclass(frozen=True, slots=True)
class Job:
    """A document that was opened, or one that could not be."""

    key: str
    row: Row
    numbers: tuple[int, ...] = ()
    """The pages to read."""
    page_count: int = 0
    """Of the file."""
    sha256: str = ""
    part: int = 0
    parts: int = 1
    fault: Fault | None = None
    """Why there are no pages."""

    @property
    def name(self) -> str:
        """Tells it from all other jobs."""
        return f"{self.key}/{self.part}"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        data = json.loads(text)
        fault = data.pop("fault")
        data["row"], data["numbers"] = Row(**data["row"]), tuple(data["numbers"])
        return cls(**data, fault=None if fault is None else Fault(**fault))


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a row. It comes once the row is in a shard."""

    key: str
    path: str
    outcome: str
    """`ok`, `partial` or `failed`."""
    code: int
    pages: int
    tokens: int
    bad: list[dict[str, Any]]
    """As `shards.bad_pages`; the document itself has the page None."""
    seconds: float
    """Of an engine."""
    cure: str | None = None
    kept: bool = False
    """Whether parts of it are kept, of which nobody has need any more."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Receipt:
        return cls(**json.loads(text))


def rows_table(rows: list[Row]) -> pa.Table:
    return pa.table({"row": [json.dumps(asdict(row)) for row in rows]}, ROWS)


def rows_of(table: pa.Table) -> list[Row]:
    return [Row(**json.loads(text)) for text in table["row"].to_pylist()]
