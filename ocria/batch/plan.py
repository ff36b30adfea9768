"""What a run would do: documents, pages, routes, places of outputs. No model is loaded and nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ocria.batch.folder import is_done, names_of
from ocria.batch.inputs import Input, open_input
from ocria.batch.key import pages_key, settings_key
from ocria.batch.manifest import Manifest
from ocria.batch.names import assign_stems
from ocria.batch.options import BatchOptions
from ocria.batch.outputs import check_free, output_names
from ocria.batch.shared_reader import SharedReader
from ocria.batch.store import PageStore, is_good
from ocria.document.options import ParseOptions
from ocria.document.ranges import select_pages
from ocria.errors import OcriaError, OutputError

if TYPE_CHECKING:
    from ocria.document.source import Source

_DAMAGED = "damaged"


@dataclass(slots=True)
class Planned:
    """One document."""

    path: str
    pages: int = 0
    """To read or to take over."""
    kept: int = 0
    """Of them, kept from an earlier run."""
    routes: dict[str, int] = field(default_factory=dict)
    """Pages by their route, `blank`, `text` or `model`, or `damaged`; those that are kept are not among them."""
    outputs: tuple[str, ...] = ()
    done: str | None = None
    """The status with which an earlier run has ended it, where it would be passed over."""
    fault: OcriaError | None = None
    """Why it would fail."""


def plan(inputs: Sequence[Input], options: ParseOptions, batch: BatchOptions) -> Iterator[Planned]:
    """Look at the documents, one after the other.

    Raises:
        OutputError: what an earlier run has left in the output folder cannot be read.
    """
    folder = None if batch.output_dir is None else _Folder(batch, options, inputs)
    for item in inputs:
        planned = Planned(item.path)
        if folder is not None:
            folder.place(item, planned)
        if planned.done is None:
            try:
                _look(item, options, planned, folder)
            except OcriaError as error:
                planned.fault = error
            except Exception as error:  # what a damaged file makes a library raise is of any kind
                planned.fault = OcriaError(f"unexpected {type(error).__name__}: {error}")
        yield planned


class _Folder:
    """What an earlier run has left in a folder of outputs; there may be no such folder yet."""

    def __init__(self, batch: BatchOptions, options: ParseOptions, inputs: Sequence[Input]):
        self._batch = batch
        self._root = Path(batch.output_dir)
        model = None if options.mode == "text" else SharedReader(options).identity
        self._settings = settings_key(options, batch.page_markers, model)
        self._manifest = Manifest(self._root, read_only=True)
        self._names = names_of(inputs, self._root)
        places = {self._names[item.path]: item.place for item in inputs}
        self._stems = assign_stems(places, self._manifest.stems)

    def place(self, item: Input, planned: Planned) -> None:
        """Say where the outputs go, and whether they are there already."""
        name = self._names[item.path]
        outputs = list(output_names(self._stems[name], self._batch.formats).values())
        planned.outputs = tuple(str(self._root / output) for output in outputs)
        entry = self._manifest.entries.get(name)
        if entry is not None and is_done(entry, item, self._manifest, self._batch, self._settings):
            planned.done = entry.status
        elif not self._batch.overwrite:
            try:
                check_free(outputs, self._manifest)
            except OutputError as error:
                planned.fault = error

    def kept(self, item: Input, sha256: str) -> set[int]:
        """The pages that would be taken over."""
        if not self._batch.resume:
            return set()
        pages, _ = PageStore(self._root, pages_key(self._settings, sha256, item.path)).load()
        return {number for number, page in pages.items() if not self._batch.retry_failed or is_good(page)}


def _look(item: Input, options: ParseOptions, planned: Planned, folder: _Folder | None) -> None:
    from ocria.document.source import open_source

    source = open_source(open_input(item), options.password)
    try:
        numbers = select_pages(options.pages, source.page_count)
        kept = set() if folder is None else folder.kept(item, source.sha256) & set(numbers)
        routes = Counter(_route(source, number, options.mode) for number in numbers if number not in kept)
    finally:
        source.close()
    planned.pages, planned.kept = len(numbers), len(kept)
    planned.routes = {name: routes[name] for name in ("blank", "text", "model", _DAMAGED) if routes[name]}


def _route(source: Source, number: int, mode: str) -> str:
    from ocria.document.route import choose_route

    try:
        return choose_route(source.page(number).look(), mode).kind
    except Exception:  # whatever a damaged page does, the others are looked at
        return _DAMAGED
