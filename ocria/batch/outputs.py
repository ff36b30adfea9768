"""The files that a document becomes."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from ocria.batch.manifest import Manifest
from ocria.batch.options import BatchOptions
from ocria.document.options import ParseOptions
from ocria.document.result import Document
from ocria.errors import OutputError

# What concerns the whole disk, so that the next document will not do better.
_HOPELESS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


def output_names(stem: str, formats: tuple[str, ...]) -> dict[str, str]:
    """The name of the file of each format."""
    from ocria.document.write import EXTENSIONS

    return {kind: stem + EXTENSIONS[kind] for kind in formats}


def contents(
    document: Document, stem: str, options: ParseOptions, batch: BatchOptions, source: Path | bytes | None
) -> dict[str, str | bytes]:
    """What to write, by names relative to the folder of outputs: figures first.

    Raises:
        OcriaError: the document cannot be rendered in one of the formats.
    """
    from ocria.document.write import figure_files, figure_targets, render

    folder, name = os.path.split(stem)
    files: dict[str, str | bytes] = {}
    target = None
    if options.images == "extract":
        target = figure_targets(document, name)
        files = {os.path.join(folder, figure): data for figure, data in figure_files(document, name).items()}
    for kind, output in output_names(stem, batch.formats).items():
        files[output] = render(
            document, kind, options=options, page_markers=batch.page_markers, source=source, picture_target=target
        )
    return files


def check_free(names: list[str], manifest: Manifest) -> None:
    """Raises OutputError where a file stands that is not ocria's, or no longer as ocria wrote it."""
    for name in names:
        path = manifest.root / name
        if os.path.lexists(path) and not manifest.is_own(name):
            raise OutputError(
                "the output exists already, and ocria did not write it so",
                path=path,
                cure="Replace it with --overwrite, or choose another --output-dir",
            )


def write_all(files: Mapping[str, str | bytes], name: str, manifest: Manifest, overwrite: bool) -> dict[str, str]:
    """Write the outputs of the input `name`, each whole or not at all; returns the SHA-256 of each.

    Raises:
        OutputError: one cannot be written, or stands there already.
    """
    from ocria.document.write import write_atomically

    data = {output: _bytes(content) for output, content in files.items()}
    digests = {output: hashlib.sha256(content).hexdigest() for output, content in data.items()}
    if not overwrite:
        check_free(list(data), manifest)
    manifest.announce(name, digests)
    for output, content in data.items():
        path = manifest.root / output
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"its folder cannot be made: {error.strerror}", path=path) from error
        write_atomically(path, content)
    return digests


def sweep(manifest: Manifest) -> None:
    """Remove the temporary files of a run that was killed while it wrote."""
    for outputs in manifest.unfinished.values():
        for folder in {(manifest.root / output).parent for output in outputs}:
            for path in folder.glob(".ocria-*.tmp"):
                with contextlib.suppress(OSError):  # it does no harm
                    path.unlink()


def is_hopeless(error: OutputError) -> bool:
    """Whether nothing else can be written either."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in _HOPELESS


def _bytes(content: str | bytes) -> bytes:
    return content.encode("utf-8", "replace") if isinstance(content, str) else content
