"""Names of outputs: the tree of the inputs, every name whole, none twice.

The outputs of `a/report.pdf` begin with `a/report.pdf`, and the suffix of the format follows: so `report.pdf` and
`report.png` never meet, whichever files come later. Names that differ only in case or in how letters are composed
would meet on some disks; the later one of them gets a tag made of its path.
"""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections.abc import Iterable, Mapping

# No suffix of a format ends with another one, so outputs differ where their stems do.
_SUFFIXES = (".md", ".html", ".json", ".jsonl", ".txt", ".pdf")
# Bytes of the name of a file or folder: most file systems take 255, suffixes come on top.
_LONGEST = 200
_LONGEST_SUFFIX = 20
_TAG_LENGTH = 10


def assign_stems(places: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """For each input the relative path that the suffixes of formats are added to.

    Args:
        places: for each input, in order, its path in the tree of outputs, parted by slashes.
        known: what inputs of earlier runs were given, which they keep.
    """
    taken = _Taken(known.values())
    return {name: known[name] if name in known else taken.add(place, name) for name, place in places.items()}


def folded(path: str) -> str:
    """A path as a disk compares it that is blind to case and to how letters are composed."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())


class _Taken:
    """Stems in use and the folders they lie in, folded."""

    def __init__(self, stems: Iterable[str]):
        self._stems: set[str] = set()
        self._folders: set[str] = set()
        for stem in stems:
            self._enter(stem)

    def add(self, place: str, name: str) -> str:
        """A free stem for a place; `name` tells this input from all others."""
        *folders, file = [part if _is_short(part) else _tagged(part, part) for part in place.split("/")]
        path = ""
        for folder in folders:
            free, count = folder, 0
            while self._is_output(path + free):
                count += 1
                free = _tagged(folder, f"{path}\0{count}")
            path += free + "/"
        stem, count = path + file, 0
        while self._is_used(stem):
            count += 1
            stem = path + _tagged(file, f"{name}\0{count}")
        self._enter(stem)
        return stem

    def _is_used(self, stem: str) -> bool:
        key = folded(stem)
        return key in self._stems or any(key + suffix in self._folders for suffix in _SUFFIXES)

    def _is_output(self, path: str) -> bool:
        """Whether an output may have this path, so that no folder can."""
        key = folded(path)
        return any(key.endswith(suffix) and key.removesuffix(suffix) in self._stems for suffix in _SUFFIXES)

    def _enter(self, stem: str) -> None:
        key = folded(stem)
        self._stems.add(key)
        parts = key.split("/")
        self._folders.update("/".join(parts[:end]) for end in range(1, len(parts)))


def _is_short(part: str) -> bool:
    return len(os.fsencode(part)) <= _LONGEST


def _tagged(part: str, what: str) -> str:
    """`report.pdf` as `report~1a2b3c4d5e.pdf`, cut where it is too long."""
    tag = "~" + hashlib.sha256(os.fsencode(what)).hexdigest()[:_TAG_LENGTH]
    root, suffix = os.path.splitext(part)
    if len(os.fsencode(suffix)) > _LONGEST_SUFFIX:
        root, suffix = part, ""
    while not _is_short(root + tag + suffix):
        root = root[:-1]
    return root + tag + suffix
