"""The documents that a command line means: files, folders, patterns, lists of files and standard input."""

from __future__ import annotations

import glob
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import BinaryIO

from ocria.batch.manifest import known_outputs
from ocria.batch.patterns import Patterns
from ocria.errors import InputError, OcriaError, UsageError

STDIN = "-"
# What ocria.document.kind knows by content or name; other files of a folder are left alone.
SUFFIXES = frozenset({
    ".pdf", ".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".gif", ".tif", ".tiff", ".bmp", ".dib", ".jp2", ".j2k",
    ".avif", ".heic", ".heif", ".pnm", ".pbm", ".pgm", ".ppm", ".epub", ".mobi", ".fb2", ".xps", ".oxps", ".cbz",
    ".docx", ".pptx", ".xlsx", ".html", ".htm", ".xhtml", ".xht", ".svg", ".md", ".markdown", ".txt", ".text",
})  # fmt: skip
_NUMBER = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Input:
    """One document to parse."""

    path: str
    """As it is opened and shown; `-` is standard input."""
    place: str
    """Its path in the tree of outputs, parted by slashes, suffix and all."""

    @property
    def identity(self) -> str:
        """The same for all ways to spell the path. A link is a document of its own."""
        if self.path == STDIN:
            return STDIN
        folder, name = os.path.split(self.path)
        return os.path.join(os.path.realpath(folder), name)


@dataclass(slots=True)
class Found:
    """What was found."""

    inputs: list[Input] = field(default_factory=list)
    many: bool = False
    """Whether folders, patterns or several inputs were given, also where one document came of them."""
    ignored: list[str] = field(default_factory=list)
    """Files of folders that are of no kind that can be read."""
    repeated: list[str] = field(default_factory=list)
    """Inputs that were named before."""
    unreadable: list[str] = field(default_factory=list)
    """Folders in folders that cannot be read."""


def find_inputs(
    names: Sequence[str],
    *,
    recursive: bool = False,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    output_dir: str | os.PathLike[str] | None = None,
) -> Found:
    """The documents, each once, in the order of the names; those of a folder or pattern in natural order.

    Args:
        names: files, folders, patterns with `*`, `?`, `[...]` or `**`, and `-` for standard input.
        recursive: take the folders in a folder too.
        include, exclude: patterns for the paths of files in their folder.
        output_dir: a folder to pass over.

    Raises:
        InputError: nothing was found, or a folder that was named cannot be read. A file that is missing is an input:
            its turn will tell.
    """
    search = _Search(recursive, Patterns(include, exclude), output_dir)
    folders = [os.path.abspath(name) for name in names if name != STDIN and os.path.isdir(name)]
    found = Found(many=len(names) > 1)
    seen: set[str] = set()
    for name in names:
        for item in search.expand(name, len(set(folders)) > 1):
            if item.identity in seen:
                found.repeated.append(item.path)
                continue
            seen.add(item.identity)
            found.inputs.append(item)
    found.many |= search.many
    found.ignored, found.unreadable = search.ignored, search.unreadable
    if not found.inputs:
        raise _nothing(names, found.ignored, recursive, bool(include or exclude))
    return found


def names_from(file: str, nul: bool = False) -> list[str]:
    """The names in a list, one a line or ended by NUL bytes; `-` reads standard input. Empty lines are passed over.

    Raises:
        UsageError: the list cannot be read.
    """
    try:
        if file == STDIN:
            content = standard_input().read()
        else:
            with open(file, "rb") as stream:
                content = stream.read()
    except OSError as error:
        raise UsageError(f"the list of files cannot be read ({error.strerror})", path=file) from error
    lines = content.split(b"\0") if nul else (line.removesuffix(b"\r") for line in content.split(b"\n"))
    return [os.fsdecode(line) for line in lines if line]


def open_input(item: Input) -> str | BinaryIO:
    """What the parser opens: the path, or standard input."""
    return io.BytesIO(standard_input().read()) if item.path == STDIN else item.path


def standard_input() -> BinaryIO:
    """Standard input as bytes. Raises InputError where there is none."""
    if sys.stdin is None:
        raise InputError("standard input is closed")
    return sys.stdin.buffer


def natural_key(path: str) -> tuple[tuple[tuple[int, int, str], ...], str]:
    """Sorts `page2` before `page10` and is blind to case until nothing else decides."""
    stem = os.path.splitext(path)[0]  # `page.pdf` goes before `page2.pdf`
    parts = _NUMBER.split(stem.casefold().replace("/", "\0"))  # and a folder's files before those of `folder-2`
    return tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts), path


class _Search:
    def __init__(self, recursive: bool, patterns: Patterns, output_dir: str | os.PathLike[str] | None):
        self.recursive, self.patterns = recursive, patterns
        self.output_dir = None if output_dir is None else os.path.realpath(output_dir)
        self.many = False
        self.ignored: list[str] = []
        self.unreadable: list[str] = []

    def expand(self, name: str, several_folders: bool) -> Iterator[Input]:
        """The documents that one name means."""
        if name == STDIN:
            yield Input(STDIN, "stdin")
        elif os.path.isdir(name):
            self.many = True
            yield from self._of_folder(name, several_folders)
        elif glob.has_magic(name) and not os.path.lexists(name):
            self.many = True
            yield from self._of_pattern(name)
        else:
            yield Input(name, _place_as_typed(name))

    def _of_folder(self, folder: str, several_folders: bool) -> Iterator[Input]:
        top = os.path.basename(os.path.abspath(folder))
        for relative in sorted(self._walk(folder), key=natural_key):
            if self.patterns.take(relative):
                yield from self._readable(os.path.join(folder, relative), f"{top}/{relative}", several_folders)

    def _readable(self, path: str, place: str, with_top: bool) -> Iterator[Input]:
        if PurePath(path).suffix.lower() in SUFFIXES:
            yield Input(path, place if with_top else place.split("/", 1)[1])
        else:
            self.ignored.append(path)

    def _of_pattern(self, pattern: str) -> Iterator[Input]:
        paths = [path for path in glob.iglob(pattern, recursive=True) if os.path.isfile(path)]
        suffix = PurePath(pattern).suffix
        named = bool(suffix) and not glob.has_magic(suffix)
        for path in sorted(paths, key=natural_key):
            inside = self.output_dir is not None and os.path.realpath(path).startswith(self.output_dir + os.sep)
            if inside or not self.patterns.take(path):
                continue
            if named or PurePath(path).suffix.lower() in SUFFIXES:
                yield Input(path, _place_as_typed(path))
            else:
                self.ignored.append(path)

    def _walk(self, top: str) -> Iterator[str]:
        """Paths of the files under a folder, relative to it. Hidden ones and outputs of ocria are passed over, and a
        folder that a link leads back to is entered once."""
        entered = {os.path.realpath(top)}
        outputs: set[str] = set()
        waiting = [""]
        while waiting:
            relative = waiting.pop()
            folder = os.path.join(top, relative) if relative else top
            outputs.update(os.path.join(relative, name) for name in known_outputs(Path(folder)))
            for entry in self._entries(folder, top):
                path = os.path.join(relative, entry.name)
                if entry.name.startswith(".") or path in outputs:
                    continue
                if entry.is_file():
                    yield path
                elif self.recursive and entry.is_dir():
                    real = os.path.realpath(entry.path)
                    if real not in entered and real != self.output_dir:
                        entered.add(real)
                        waiting.append(path)

    def _entries(self, folder: str, top: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if os.path.samefile(folder, top):
                raise InputError(f"the folder cannot be read ({error.strerror})", path=folder) from error
            self.unreadable.append(folder)
            return []


def _place_as_typed(path: str) -> str:
    """A relative path keeps its folders; of an absolute one, or one that climbs, the name alone is left."""
    place = os.path.normpath(path)
    if os.path.isabs(place) or place.startswith(".."):
        return os.path.basename(place) or "root"
    return place


def _nothing(names: Sequence[str], ignored: Sequence[str], recursive: bool, chosen: bool) -> OcriaError:
    if not names:
        return UsageError("no inputs", cure="Name files or folders, or - for standard input")
    cures = []
    if chosen:
        cures.append("loosen --include and --exclude")
    if not recursive:
        cures.append("look into subfolders with -r")
    if ignored:
        cures.append("name a file itself to have it tried whatever its suffix is")
    cure = "; ".join(cures) or "Check the names"
    files = "1 file is" if len(ignored) == 1 else f"{len(ignored)} files are"
    there = f"; {files} of no kind that can be read" if ignored else ""
    return InputError(f"no documents found{there}", path=", ".join(names), cure=cure[0].upper() + cure[1:])
