"""Lines between the app and the engine's process: commands go down, events come up as they are recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, BinaryIO

JOB, FORGET = "job", "forget"
"""Kinds of lines that are no events: a document that is to be opened again should the process end, and one that is
not."""


def write_line(stream: BinaryIO, record: Mapping[str, Any]) -> None:
    """Send one record. Names of files may hold lone surrogates, which ASCII JSON keeps."""
    stream.write(json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n")


def read_line(line: bytes) -> dict[str, Any] | None:
    """What was sent; None for a line that was cut off."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
