"""Strict reading of small JSON files: a typo in a key is an error that names the key meant."""

import dataclasses
import difflib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ocria.errors import ConfigError


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in `path`. Raises ConfigError when it is missing, unreadable or not an object."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError("file not found", path=path, cure="Is the checkpoint whole?") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ConfigError(f"not readable JSON: {error}", path=path, cure="Fetch the file again.") from error
    if not isinstance(data, dict):
        raise ConfigError(f"holds a {type(data).__name__} where an object was expected", path=path)
    return data


def reject_unknown(
    data: Mapping[str, Any],
    known: Collection[str],
    ignored: Collection[str] = (),
    *,
    path: Path | str | None = None,
    where: str = "",
) -> None:
    """Raise ConfigError for the first key of `data` that is neither known nor explicitly ignored."""
    for key in data:
        if key in known or key in ignored:
            continue
        nearest = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.5)
        cure = f"Did you mean {nearest[0]!r}?" if nearest else f"Known keys: {', '.join(sorted(known))}."
        place = f" in {where}" if where else ""
        raise ConfigError(f"unknown key {key!r}{place}", path=path, cure=cure)


def from_dict(
    cls: type,
    data: Mapping[str, Any],
    *,
    where: str = "",
    ignored: Collection[str] = (),
    path: Path | str | None = None,
) -> Any:
    """An instance of the dataclass `cls`; keys of other software go into `ignored`.

    A null means that the key's default holds. Raises ConfigError for an unknown or a missing key, and for a plain
    number, flag or text of another kind.
    """
    fields = dataclasses.fields(cls)
    reject_unknown(data, [field.name for field in fields], ignored, where=where, path=path)
    given = {field.name: data[field.name] for field in fields if data.get(field.name) is not None}
    missing = [field.name for field in fields if field.name not in given and _required(field)]
    if missing:
        place = f" in {where}" if where else ""
        raise ConfigError(f"missing {', '.join(missing)}{place}", path=path)
    for field in fields:
        if field.name in given and not _fits(given[field.name], field.type):
            value, kind = given[field.name], _WORDS[field.type]
            raise ConfigError(f"{field.name} must be {kind}, got {value!r}", path=path)
    return cls(**given)


_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a plain type; other annotations are the business of the class."""
    if kind not in _WORDS:
        return True
    allowed = (int, float) if kind is float else kind
    return isinstance(value, allowed) and (kind is bool or not isinstance(value, bool))


def _required(field: dataclasses.Field) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
