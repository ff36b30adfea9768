"""What a session may be told to open documents with, sorted by who takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ocria.batch.options import BatchOptions
from ocria.document.options import OPTION_NAMES, ParseOptions
from ocria.errors import UsageError
from ocria_tui.settings import OUTPUT_DIR

_BATCH = tuple(field.name for field in fields(BatchOptions))
_FIND = ("recursive", "include", "exclude")
# The model and the engine do not depend on these, so that a change of them loads nothing anew.
_NOT_OF_THE_MODEL = frozenset({
    "pages", "mode", "password", "dpi", "timeout", "jobs", "keep_headers_footers", "table_format", "merge_tables",
    "images",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Options by name: those of `ocria.parse`, of `BatchOptions`, and of `find_inputs`.

    Raises:
        UsageError: an unknown name or a value out of its range.
    """

    parse: ParseOptions
    batch: BatchOptions
    find: Mapping[str, Any]

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> SessionOptions:
        """From plain data, such as JSON holds it."""
        unknown = options.keys() - {*OPTION_NAMES, *_BATCH, *_FIND}
        if unknown:
            raise UsageError(f"unknown option {', '.join(sorted(unknown))}")
        batch = {name: options[name] for name in _BATCH if name in options}
        batch["output_dir"] = Path(batch.get("output_dir") or OUTPUT_DIR)
        if isinstance(batch.get("formats", ()), str):
            raise UsageError("formats must be several names, not one text")
        batch["formats"] = tuple(batch.get("formats") or ("md",))
        return cls(
            ParseOptions(**{name: options[name] for name in OPTION_NAMES if name in options}),
            BatchOptions(**batch),
            {name: options[name] for name in _FIND if name in options},
        )

    @property
    def model_key(self) -> tuple[Any, ...]:
        """Equal where the same loaded model and engine will do."""
        return tuple(getattr(self.parse, name) for name in OPTION_NAMES if name not in _NOT_OF_THE_MODEL)


def plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as JSON can hold them."""
    return {name: _plain(value) for name, value in options.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, (tuple, set, frozenset, range)) else value
