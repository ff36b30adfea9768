"""What a caller may choose for a run on a cluster, beside how each document is parsed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ocria.batch.options import FORMATS
from ocria.errors import UsageError

SHARDS = ("parquet", "jsonl")
_ACTORS = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Options of `run_cluster`.

    Raises:
        UsageError: a value out of its range.
    """

    source: str
    """A folder, a pattern, a list (`.txt`, `.lst`), a manifest (`.csv`, `.jsonl`, `.ndjson`, `.parquet`) or one
    document: a path or any URL that fsspec opens."""
    out: str
    """The folder of all that is written: a path or URL."""
    address: str | None = None
    """Of a Ray cluster; None starts Ray on this machine for as long as the run takes."""
    actors: str | None = None
    """Engines, as `"4"` or `"2-16"`; None takes from one to as many as the cluster has room for now."""
    cores_per_actor: int = 2
    """CPU cores that each of them takes, and its threads where it runs on the CPU."""
    shards: str = "parquet"
    rows_per_shard: int = 16
    """Documents, or parts of long ones, that an engine takes at once and writes as one shard."""
    pages_per_row: int = 128
    """Longer documents are read in parts of so many pages, by several engines."""
    documents: tuple[str, ...] = ()
    """Formats in which whole documents are written too."""
    page_markers: bool = False
    max_errors: int | None = None
    """So many documents may fail; one more ends the run. None: any number."""
    retry_failed: bool = False
    """Read documents again that failed in an earlier run, as a whole or in some pages."""
    interval_s: float = 10.0
    """Seconds between lines of progress."""

    def __post_init__(self) -> None:
        if self.shards not in SHARDS:
            raise UsageError(f"shards must be one of {', '.join(SHARDS)}, not {self.shards!r}")
        for name in self.documents:
            if name not in FORMATS:
                raise UsageError(f"format must be one of {', '.join(FORMATS)}, not {name!r}")
        for name, high in (("cores_per_actor", 1024), ("rows_per_shard", 100_000), ("pages_per_row", 1_000_000)):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= high:
                raise UsageError(f"{name} must be a whole number between 1 and {high}, not {value!r}")
        if self.max_errors is not None and self.max_errors < 0:
            raise UsageError("max_errors must be 0 or more")
        if not 0 < self.interval_s < float("inf"):
            raise UsageError("interval must be seconds above 0")
        if self.actors is not None:
            parse_actors(self.actors)


def parse_actors(text: str) -> tuple[int, int]:
    """The least and the most engines of `"4"` or `"2-16"`. Raises UsageError."""
    match = _ACTORS.fullmatch(text.strip())
    least = int(match[1]) if match else 0
    most = int(match[2]) if match and match[2] else least
    if not 1 <= least <= most:
        raise UsageError(f"actors must be a number such as 4, or a range such as 2-16, not {text!r}")
    return least, most
