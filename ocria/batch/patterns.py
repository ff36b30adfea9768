"""Patterns that choose files by their path in a folder, blind to case."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate


class Patterns:
    """A file is taken where it or a folder it lies in matches an `include`, or there are none, and no `exclude`.

    A pattern without a slash is tried on every name of a path, one with a slash on the path from its beginning; `*`
    and `?` match slashes too, and a leading `**/` also matches nothing.
    """

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()):
        self._include = [_Pattern(pattern) for pattern in include]
        self._exclude = [_Pattern(pattern) for pattern in exclude]

    def take(self, path: str) -> bool:
        """Whether to take the file with this relative path, parted by slashes."""
        parts = path.split("/")
        wanted = not self._include or any(pattern.matches(parts) for pattern in self._include)
        return wanted and not any(pattern.matches(parts) for pattern in self._exclude)


class _Pattern:
    def __init__(self, pattern: str):
        pattern = pattern.strip("/")
        self._is_path = "/" in pattern
        ways = {pattern, pattern.removeprefix("**/")}
        self._ways = [re.compile(translate(way), re.IGNORECASE) for way in ways]

    def matches(self, parts: list[str]) -> bool:
        tried = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)] if self._is_path else parts
        return any(way.match(text) for way in self._ways for text in tried)
