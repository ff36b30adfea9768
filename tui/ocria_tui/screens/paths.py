"""Paths as they are typed."""

from __future__ import annotations

import os
from pathlib import Path

from textual.suggester import Suggester

from ocria.batch.inputs import SUFFIXES, natural_key


class PathSuggester(Suggester):
    """Completes to the first folder or readable document that begins as what was typed; a `~` stays."""

    def __init__(self, *, folders: bool = False):
        super().__init__(use_cache=False, case_sensitive=True)
        self.folders = folders
        """Whether only folders are wanted."""

    async def get_suggestion(self, value: str) -> str | None:
        folder, name = os.path.split(value)
        if not value or value == "~":
            return None
        try:
            with os.scandir(os.path.expanduser(folder) or ".") as entries:
                found = [entry for entry in entries if entry.name.startswith(name) and self._wanted(entry, name)]
        except OSError:
            return None
        if not found:
            return None
        first = min(found, key=lambda entry: natural_key(entry.name))
        return value + first.name[len(name) :] + ("/" if first.is_dir() else "")

    def _wanted(self, entry: os.DirEntry[str], name: str) -> bool:
        if entry.name.startswith(".") and not name.startswith("."):
            return False
        return entry.is_dir() or (not self.folders and is_readable(Path(entry.path)))


def is_readable(path: Path) -> bool:
    """Whether a file is of a kind that can be read, by its name."""
    return path.suffix.lower() in SUFFIXES
