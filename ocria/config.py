"""The configuration file: where it lies, and what it says."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ocria.errors import UsageError


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file that was read: its keys with their values, and the lines they stand in, as far as they are known."""

    path: Path
    values: dict[str, Any]
    lines: dict[str, int] = field(default_factory=dict)

    def place(self, key: str) -> str:
        """`config.toml:3`, or the file alone."""
        return f"{self.path}:{self.lines[key]}" if key in self.lines else str(self.path)


def default_path(environment: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_CONFIG_HOME/ocria/config.toml`, or that below `~/.config`. A relative XDG_CONFIG_HOME does not count, as
    its specification says."""
    folder = Path(environment.get("XDG_CONFIG_HOME", ""))
    home = environment.get("HOME") or os.path.expanduser("~")  # which stays "~" for users without a folder
    return (folder if folder.is_absolute() else Path(home, ".config")) / "ocria" / "config.toml"


def read_config(path: str | os.PathLike[str]) -> ConfigFile:
    """The keys of a TOML file, hyphens in their names as underscores. Raises UsageError: the file is missing, cannot be
    read, is no TOML, or has one key in both spellings."""
    path = Path(path).expanduser()
    try:
        text = path.read_bytes().decode("utf-8-sig")
        read = tomllib.loads(text)
    except FileNotFoundError as error:
        raise UsageError("the configuration file does not exist", path=path) from error
    except OSError as error:
        raise UsageError(f"the configuration file cannot be read ({error.strerror})", path=path) from error
    except UnicodeDecodeError as error:
        raise UsageError("the configuration file is not written in UTF-8", path=path) from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"the configuration file is not valid TOML: {error}", path=path) from error
    values: dict[str, Any] = {}
    for key, value in read.items():
        name = key.replace("-", "_")
        if name in values:
            raise UsageError(f"the key {name} is there twice", path=path, cure="Keep one of its spellings.")
        values[name] = value
    return ConfigFile(path, values, _lines(text, read))


def _lines(text: str, keys: Mapping[str, Any]) -> dict[str, int]:
    """The line of each key, from 1. The reader of TOML keeps none; a key whose like stands in several lines, such as
    inside a text, has none here either."""
    found = {}
    for key in keys:
        name = re.escape(key)
        start = re.compile(rf"\s*(\[+\s*)?(?:{name}|\"{name}\"|'{name}')\s*[=.\]]")
        lines = [number for number, line in enumerate(text.splitlines(), 1) if start.match(line)]
        if len(lines) == 1:
            found[key.replace("-", "_")] = lines[0]
    return found
