"""Values of options that come from the environment or a file: the types and choices are those of the command line."""

from __future__ import annotations

import argparse
from typing import Any

from ocria.errors import UsageError

_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_KINDS = {int: "a whole number", float: "a number", str: "text"}


def is_switch(action: argparse.Action) -> bool:
    """Whether an option is on or off and takes no value."""
    return action.nargs == 0


def is_repeatable(action: argparse.Action) -> bool:
    """Whether an option holds a list."""
    return isinstance(action, argparse._AppendAction) or action.nargs in ("*", "+") or isinstance(action.nargs, int)


def from_text(action: argparse.Action, text: str, source: str, secret: bool = False) -> Any:
    """What a variable says; several values are parted by commas. Raises UsageError, which names `source` and, unless it
    is `secret`, the value."""
    if is_switch(action):
        if text.strip().lower() not in _WORDS:
            raise UsageError(f"{source} must be true or false (1 or 0, yes or no), not {text!r}")
        return _WORDS[text.strip().lower()]
    if is_repeatable(action):
        parts = [part.strip() for part in text.split(",")]
        return _listed(action, [_checked(action, part, source, None, secret) for part in parts if part])
    return _checked(action, text, source, None, secret)


def from_file(action: argparse.Action, value: Any, name: str, place: str, secret: bool = False) -> Any:
    """What a file says under `name`. Raises UsageError, which names the `place` in the file."""
    if is_switch(action):
        if not isinstance(value, bool):
            raise UsageError(f"{name} must be true or false, not {value!r}", path=place)
        return value
    if is_repeatable(action):
        values = value if isinstance(value, list) else [value]
        return _listed(action, [_of_kind(action, item, name, place, secret) for item in values])
    return _of_kind(action, value, name, place, secret)


def _of_kind(action: argparse.Action, value: Any, name: str, place: str, secret: bool) -> Any:
    """A value of TOML must be of the option's own kind; an option with a reading of its own takes its text."""
    kind = action.type or str
    allowed: tuple[type, ...] = {int: (int,), float: (int, float), str: (str,)}.get(kind, (str, int, float))
    if not isinstance(value, allowed) or isinstance(value, bool):
        shown = "" if secret else f", not {value!r}"
        raise UsageError(f"{name} must be {_KINDS.get(kind, 'text or a number')}{shown}", path=place)
    return _checked(action, value if kind in _KINDS else str(value), name, place, secret)


def _checked(action: argparse.Action, value: Any, name: str, place: str | None, secret: bool) -> Any:
    """The value as the option's type reads it, if it is among the choices."""
    shown = "" if secret else f", not {value!r}"
    kind: Any = action.type or str
    try:
        read = kind(value)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{name}: {error}", path=place) from error
    except (ValueError, TypeError) as error:
        raise UsageError(f"{name} must be {_KINDS.get(kind, 'another value')}{shown}", path=place) from error
    if action.choices is not None and read not in action.choices:
        raise UsageError(f"{name} must be one of {', '.join(map(str, action.choices))}{shown}", path=place)
    return read


def _listed(action: argparse.Action, values: list[Any]) -> list[Any]:
    """An option that extends its list takes each value for a list."""
    if not isinstance(action, argparse._ExtendAction) or action.nargs is not None:
        return values
    return [item for value in values for item in (value if isinstance(value, list) else [value])]
