"""Pages as plain data and back, with every field, for the page store of a batch."""

from __future__ import annotations

import base64
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ocria.document.result import Page


def page_to_dict(page: Page) -> dict[str, Any]:
    """A page as data that JSON can hold; bytes are base64."""
    return _plain(page)


def page_from_dict(data: dict[str, Any]) -> Page:
    """The page that `page_to_dict` was given.

    Raises:
        ValueError: a field is unknown, missing or of another kind, as in data written by another version.
    """
    return _restored(Page, data, "page")


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value


def _restored(kind: Any, value: Any, where: str) -> Any:
    """A value of the given type from plain data; `where` names it in errors."""
    if kind is Any:
        return value
    if is_dataclass(kind):
        return _restored_dataclass(kind, value, where)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if value is None and NoneType in inner:
            return None
        (kind,) = [part for part in inner if part is not NoneType]
        return _restored(kind, value, where)
    if origin in (list, tuple):
        _expect(isinstance(value, list), where, value)
        if origin is list:
            return [_restored(inner[0], item, f"{where}[{i}]") for i, item in enumerate(value)]
        _expect(len(value) == len(inner), where, value)
        return tuple(_restored(part, item, where) for part, item in zip(inner, value, strict=True))
    if origin is dict:
        _expect(isinstance(value, dict), where, value)
        return value
    if kind is bytes:
        _expect(isinstance(value, str), where, value)
        return base64.b64decode(value, validate=True)
    if kind is float:
        _expect(isinstance(value, (int, float)) and not isinstance(value, bool), where, value)
        return value
    _expect(type(value) is kind, where, value)
    return value


def _restored_dataclass(kind: type, data: Any, where: str) -> Any:
    _expect(isinstance(data, dict), where, data)
    hints = _hints(kind)
    if data.keys() != hints.keys():
        odd = ", ".join(sorted(data.keys() ^ hints.keys()))
        raise ValueError(f"{where} has unknown or missing fields: {odd}")
    return kind(**{name: _restored(hint, data[name], f"{where}.{name}") for name, hint in hints.items()})


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _expect(right: bool, where: str, value: Any) -> None:
    if not right:
        raise ValueError(f"{where} cannot be {value!r:.80}")
