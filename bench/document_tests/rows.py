"""From a row of JSONL to a check: the format of olmOCR-bench, with kinds of ours beside its own.

olmOCR-bench: present, absent, order, table, baseline (and math, format, footnote, which are not run). Ours: blank,
not_empty, no_loop, characters.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from .checks import Absent, Baseline, Blank, Characters, Check, NoLoop, NotEmpty, Order, Present, Table

KINDS: dict[str, type] = {
    "present": Present,
    "absent": Absent,
    "order": Order,
    "table": Table,
    "baseline": Baseline,
    "blank": Blank,
    "not_empty": NotEmpty,
    "no_loop": NoLoop,
    "characters": Characters,
}


class BadRow(Exception):
    """A row that says no check; names the file and the line."""


@dataclass(frozen=True, slots=True)
class Test:
    """One check of one page. `check` is None for a kind that cannot be run here, such as math."""

    __test__ = False  # not for pytest

    id: str
    group: str
    """The class of page; for olmOCR-bench the JSONL file."""
    kind: str
    path: Path
    page: int | None
    """From 1; None for the whole document."""
    check: Check | None


def check_of(row: dict[str, Any]) -> Check | None:
    """The check of a row, with unknown fields ignored; None for an unknown kind.

    Raises ValueError for missing, empty or senseless fields.
    """
    kind = KINDS.get(row.get("type", ""))
    if kind is None:
        if not isinstance(row.get("type"), str):
            raise ValueError("no type")
        return None
    known = {field.name: field for field in fields(kind)}
    # `null` stands for "not given" in files written by programs.
    given = {name: value for name, value in row.items() if name in known and value is not None}
    needed = [name for name, field in known.items() if field.default is MISSING]
    missing = [name for name in needed if not str(given.get(name, "")).strip()]
    if missing:
        raise ValueError(f"no {', '.join(missing)}")
    for name in ("max_diffs", "max_length", "first_n", "last_n"):
        if name in given and (not isinstance(given[name], int) or given[name] < 0):
            raise ValueError(f"{name} is {given[name]!r}, not a count")
    return kind(**given)


def as_test(row: dict[str, Any], group: str, folder: Path, where: str) -> Test:
    """The test of a row whose `pdf` lies in `folder`; `where` names the row in errors."""
    try:
        check = check_of(row)
        page = row.get("page")
        if page is not None and (not isinstance(page, int) or page < 1):
            raise ValueError(f"page is {page!r}; pages count from 1")
        return Test(row["id"], group, row["type"], folder / row["pdf"], page, check)
    except KeyError as error:
        raise BadRow(f"{where}: no {error.args[0]}") from None
    except (ValueError, TypeError) as error:
        raise BadRow(f"{where}: {error}") from None


def read_rows(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """`(where, row)` of a JSONL file; empty lines are left out. Raises BadRow for what is no JSON object."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise BadRow(f"{where}: {error}") from None
        if not isinstance(row, dict):
            raise BadRow(f"{where}: not an object")
        rows.append((where, row))
    return rows
