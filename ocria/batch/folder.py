"""A folder of outputs: what is in it, what to pass over, what to write."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ocria.batch.fault import DocumentFault
from ocria.batch.inputs import STDIN, Input
from ocria.batch.kept import Kept, forget_pages
from ocria.batch.key import settings_key
from ocria.batch.lock import Lock
from ocria.batch.manifest import Entry, Manifest, Stamp, sha256_of
from ocria.batch.names import assign_stems
from ocria.batch.options import BatchOptions
from ocria.batch.outputs import check_free, contents, is_hopeless, output_names, sweep, write_all
from ocria.batch.tally import document_code
from ocria.document.options import ParseOptions
from ocria.document.result import CANCELLED, Document
from ocria.errors import EncryptedError, OcriaError, OutputError
from ocria.events import DocumentWritten


class OutputFolder:
    """Held for one run.

    Args:
        model: tells the model from others; None where none is asked.

    Raises:
        OutputError: it cannot be written, or another run has it.
    """

    def __init__(self, batch: BatchOptions, options: ParseOptions, model: str | None, inputs: Sequence[Input]):
        self.root = Path(batch.output_dir)
        self._batch, self._options = batch, options
        self._settings = settings_key(options, batch.page_markers, model)
        self.lock = Lock(self.root)
        try:
            self._manifest = Manifest(self.root)
        except OutputError:
            self.lock.release()
            raise
        sweep(self._manifest)
        self._names = names_of(inputs, self.root)
        places = {self._names[item.path]: item.place for item in inputs}
        self._stems = assign_stems(places, self._manifest.stems)
        self._stamp: Stamp | None = None
        self._kept: Kept | None = None

    def close(self) -> None:
        self._manifest.close()
        self.lock.release()

    def done_before(self, item: Input) -> Entry | None:
        """How an earlier run has ended this document, where nothing that matters has changed since."""
        name = self._names[item.path]
        entry = self._manifest.entries.get(name)
        if entry is None or not is_done(entry, item, self._manifest, self._batch, self._settings):
            return None
        stamp = Stamp.of(item.path)
        if stamp is not None and stamp != entry.stamp:
            entry = replace(entry, stamp=stamp)
            self._manifest.end(entry)
        if entry.status == "ok" and name in self._manifest.stores:
            forget_pages(self.root, self._manifest.stores[name])
        return entry

    def begin(self, item: Input) -> Kept:
        """A document is about to be read.

        Raises:
            DocumentFault: an output stands there that ocria may not replace.
        """
        name = self._names[item.path]
        stem = self._stems[name]
        if not self._batch.overwrite:
            try:
                check_free(list(output_names(stem, self._batch.formats).values()), self._manifest)
            except OutputError as error:
                raise DocumentFault(error) from error
        self._stamp = None if item.path == STDIN else Stamp.of(item.path)
        fresh, only_good = not self._batch.resume, self._batch.retry_failed
        self._kept = Kept(
            self._manifest, name, stem, self._settings, item.path, fresh=fresh, only_good=only_good
        )
        return self._kept

    def write(self, item: Input, document: Document, source: Path | bytes) -> DocumentWritten:
        """Write a document's outputs and note that it is done.

        Args:
            source: the document itself, to be printed under its text.

        Raises:
            DocumentFault: an output cannot be written.
            OutputError: none can.
        """
        name = self._names[item.path]
        stem = self._stems[name]
        files = contents(document, stem, self._options, self._batch, source)
        try:
            digests = write_all(files, name, self._manifest, self._batch.overwrite)
        except OutputError as error:
            if is_hopeless(error):
                raise
            raise DocumentFault(error) from error
        status, code = document.status, document_code(document)
        cancelled = any(page.status == CANCELLED for page in document.pages)
        entry = Entry(
            name, stem, self._settings, document.sha256, self._stamp, status, _reason(document), code,
            cancelled=cancelled, outputs=digests,
        )  # fmt: skip
        self._manifest.end(entry)
        self._kept.close(forget=status == "ok" and not self._batch.keep_pages)
        return DocumentWritten(document.path, tuple(str(self.root / output) for output in digests))

    def leave(self) -> None:
        """The document that was begun is not done: its pages wait for the next run."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def fail(self, item: Input, error: OcriaError) -> None:
        """Note that a document cannot be parsed, so that the next run need not try. What another password or a free
        output may cure is tried again."""
        if isinstance(error, (EncryptedError, OutputError)) or item.path == STDIN:
            return
        sha256 = sha256_of(item.path)
        if sha256 is not None:
            name = self._names[item.path]
            self._manifest.end(
                Entry(
                    name, self._stems[name], self._settings, sha256, self._stamp, "failed", error.message,
                    error.exit_code, error.cure,
                )
            )  # fmt: skip


def names_of(inputs: Sequence[Input], root: Path) -> dict[str, str]:
    """What the manifest calls the inputs: their paths from the folder, so that both can be moved together."""
    base = os.path.realpath(root)
    return {item.path: STDIN if item.path == STDIN else os.path.relpath(item.identity, base) for item in inputs}


def is_done(entry: Entry, item: Input, manifest: Manifest, batch: BatchOptions, settings: str) -> bool:
    """Whether what an entry says still holds for this input and these options."""
    if not batch.resume or entry.cancelled or entry.settings != settings or item.path == STDIN:
        return False
    if entry.status != "ok" and batch.retry_failed:
        return False
    stamp = Stamp.of(item.path)
    if (stamp is None or stamp != entry.stamp) and sha256_of(item.path) != entry.sha256:
        return False
    if not entry.outputs:
        return entry.status == "failed"
    wanted = set(output_names(entry.stem, batch.formats).values())
    return wanted <= entry.outputs.keys() and manifest.are_whole(entry)


def _reason(document: Document) -> str:
    bad = [page for page in document.pages if page.status not in ("ok", "blank")]
    if not bad:
        return ""
    where = f"page {bad[0].index}" if len(bad) == 1 else f"pages {', '.join(str(page.index) for page in bad)}"
    return f"{where} {bad[0].status}: {bad[0].error}" if bad[0].error else f"{where} {bad[0].status}"
