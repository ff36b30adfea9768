"""The one thing the app remembers, and only when it is told to: the theme."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ocria.config import default_path
from ocria.errors import OutputError


def theme_path(environment: Mapping[str, str] = os.environ) -> Path:
    """A file with the name of a theme, beside the configuration file of `ocria`."""
    return default_path(environment).with_name("theme")


def kept_theme(environment: Mapping[str, str] = os.environ) -> str | None:
    """The theme that was kept; None where none was, or where its file cannot be read."""
    try:
        return theme_path(environment).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def keep(theme: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Write the theme down and give the file. Raises OutputError."""
    path = theme_path(environment)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{theme}\n", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"the theme cannot be kept: {error.strerror}", path=path) from error
    return path
