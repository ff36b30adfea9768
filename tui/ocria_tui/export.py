"""Writing what is there of a document, finished or not, where the user wants it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from ocria.batch.manifest import Manifest, known_outputs, sha256_of
from ocria.batch.options import FORMATS, BatchOptions
from ocria.document.result import Document
from ocria.errors import InputError, OutputError, UsageError
from ocria_tui.job import Shelf
from ocria_tui.messages import Exported
from ocria_tui.targets import targets


class Exporter:
    """Replaces no file but those that ocria wrote and nobody changed since."""

    def __init__(self) -> None:
        self._written: dict[str, str] = {}
        """SHA-256 of what was written, by real path."""

    def write(self, path: str, shelf: Shelf, kinds: Sequence[str], target: str, batch: BatchOptions) -> Exported:
        """Write a document in some formats.

        Args:
            target: a folder, which is made, or the name of a file for one format.

        Raises:
            UsageError: an unknown format, or one file for several.
            InputError: nothing of it is there yet; for `pdf`, the document is gone or changed.
            OutputError: something stands there already, or it cannot be written.
        """
        from ocria.document.write import write_atomically

        unknown = [kind for kind in kinds if kind not in FORMATS]
        if unknown or not kinds:
            raise UsageError(f"format must be one of {', '.join(FORMATS)}, not {', '.join(unknown) or 'none'}")
        document = shelf.document(path)
        if not document.pages:
            raise InputError("no page is finished yet", cure="Export it once some pages are")
        files = _files(document, shelf, list(dict.fromkeys(kinds)), target, batch, path)
        if not batch.overwrite:
            for file in files:
                self._check(file)
        for file, data in files.items():
            if os.path.exists(path) and os.path.exists(file) and os.path.samefile(path, file):
                raise OutputError("the output is the document itself", path=file, cure="Choose another name")
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, data)
            self._written[os.path.realpath(file)] = hashlib.sha256(data).hexdigest()
        return Exported(path, tuple(str(file) for file in files))

    def _check(self, file: Path) -> None:
        if not os.path.lexists(file):
            return
        if self._written.get(os.path.realpath(file)) == (sha256_of(file) or ""):
            return
        for root in file.parents:
            if (name := os.path.relpath(file, root)) in known_outputs(root):
                if Manifest(root, read_only=True).is_own(name):
                    return
                break
        raise OutputError(
            "there is a file already, and ocria did not write it so", path=file, cure="Choose another name or folder"
        )


def _files(
    document: Document, shelf: Shelf, kinds: list[str], target: str, batch: BatchOptions, path: str
) -> dict[Path, bytes]:
    from ocria.batch.outputs import contents
    from ocria.document.write import EXTENSIONS

    outputs = targets(path, kinds, target)
    stem = outputs[0].name.removesuffix(EXTENSIONS[kinds[0]])
    places = {stem + EXTENSIONS[kind]: output for kind, output in zip(kinds, outputs, strict=True)}
    wanted = BatchOptions(formats=tuple(kinds), page_markers=batch.page_markers)
    files: dict[Path, bytes] = {}
    for name, content in contents(document, stem, shelf.options, wanted, Path(path)).items():
        data = content.encode("utf-8", "replace") if isinstance(content, str) else content
        files[places.get(name, outputs[0].parent / name)] = data
    return files
