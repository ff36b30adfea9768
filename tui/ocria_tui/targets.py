"""Which files an export writes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ocria.document.write import EXTENSIONS
from ocria.errors import OutputError, UsageError


def targets(path: str, formats: Sequence[str], target: str) -> list[Path]:
    """One file a format. A folder gets those of `ocria parse --output-dir`, such as `a.pdf.md`; of one format the
    target is the file itself where its name has a suffix and is not that of a folder.

    Args:
        path: of the document.
        target: a folder, which need not be there, or a file.

    Raises:
        UsageError: a file for several formats, or with the suffix of another one.
        OutputError: a place that cannot be written to.
    """
    place = Path(target)
    if place.is_dir() or target.endswith(os.sep) or not place.suffix:
        check_folder(target)
        return [place / f"{os.path.basename(path)}{EXTENSIONS[kind]}" for kind in formats]
    if len(formats) > 1:
        cure = "Name a folder, or choose one format"
        raise UsageError(f"one file cannot hold {len(formats)} formats", path=target, cure=cure)
    named = {suffix: kind for kind, suffix in EXTENSIONS.items()}.get(place.suffix.lower())
    if named not in (None, formats[0]):
        raise UsageError(f"the name is that of {named}, not of {formats[0]}", path=target, cure="Choose another name")
    if os.path.exists(path) and place.exists() and place.samefile(path):
        raise OutputError("the output is the document itself", path=target, cure="Choose another name")
    check_folder(str(place.parent))
    return [place]


def check_folder(path: str) -> None:
    """Raises OutputError: something that is no folder, or one that cannot be written into or made."""
    there = Path(path).expanduser().absolute()
    if there.exists() and not there.is_dir():
        raise OutputError("is no folder", path=path, cure="Name another one")
    while not there.exists():
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise OutputError(f"{there} cannot be written into", path=path, cure="Name another folder")
