"""The text sources, read once into a cache folder, and draws of passages from them.

The cache folder is the environment variable OCRIA_TRAIN_CACHE or ~/.cache/ocria/train. The splits share
no source; word lists are split by a checksum of the word. Beside a file named `sealed` the cache is all there is: the
machine's own texts and fonts are not looked at, so that a prepared run draws the same lines everywhere.
"""

import os
import random
import subprocess
import zlib
from functools import lru_cache
from pathlib import Path

from ocria.errors import MissingDependencyError
from ocria.train import sources
from ocria.train.charset import fold, in_charset

_VERSION = "v2"
_LIMIT = 6_000_000  # characters kept of one source

# What running text is drawn from, with weights: a source is the reader of that name in sources.py.
_PROSE = {
    "train": {
        "web_bible": 0.17,
        "kjv_bible": 0.06,
        "plays": 0.13,
        "austen": 0.25,
        "gcide": 0.16,
        "wordnet": 0.06,
        "fortunes": 0.07,
        "jargon": 0.05,
        "constitution": 0.02,
        "python_doc": 0.03,
    },
    "held_out": {"devil": 0.55, "austen_held_out": 0.25, "plays_held_out": 0.1, "sqlite_doc": 0.1},
}
_TECHNICAL = {
    "train": {"wordnet": 0.25, "perl_doc": 0.2, "python_doc": 0.3, "jargon": 0.1, "gcide": 0.15},
    "held_out": {"sqlite_doc": 0.8, "devil": 0.2},
}
_FOREIGN = {"train": {"manuals": 0.75, "spanish_bible": 0.25}, "held_out": {}}
_PLAYS = {"train": {"plays": 1.0}, "held_out": {"plays_held_out": 1.0}}
_LISTS = ("english_words", "names", "foreign_words", "code")


def cache_dir() -> Path:
    return Path(os.environ.get("OCRIA_TRAIN_CACHE") or "~/.cache/ocria/train").expanduser()


def cache_file(name: str) -> Path:
    """Where the text of a source is kept."""
    return cache_dir() / f"{name}-{_VERSION}.txt"


def sealed() -> bool:
    return (cache_dir() / "sealed").exists()


class Corpus:
    """Passages and words of one split. `missing` names the sources that are not installed here."""

    def __init__(self, split: str):
        self.split = split
        self.missing: list[str] = []
        self._texts: dict[str, list[str]] = {}
        for name in dict.fromkeys([*_PROSE[split], *_TECHNICAL[split], *_PLAYS[split], *_FOREIGN[split]]):
            if paragraphs := self._read(name):
                self._texts[name] = paragraphs
        if not self._texts:
            raise MissingDependencyError(
                f"no text source of the {split} split is installed",
                cure="install Debian's sword-text-web dict-jargon dict-devil wordnet-base (see ocria/train/sources.py)",
            )
        lists = {
            name: [w for w in self._read(name) if _is_held_out(w) == (split == "held_out")] for name in _LISTS
        }
        fallback = sorted(
            {w.strip(".,;:") for p in next(iter(self._texts.values()))[:300] for w in p.split()}
        )
        self.words = [w for w in lists["english_words"] if not w.endswith("'s")] or fallback
        self.names = lists["names"] or [w for w in fallback if w.istitle()]
        self.foreign = lists["foreign_words"]
        self._code = lists["code"]

    @property
    def sources(self) -> list[str]:
        """The sources of running text that are installed."""
        return list(self._texts)

    def passage(self, rng: random.Random, topic: str) -> str:
        """A paragraph of a `topic`: "prose", "technical", "play" or "foreign"; of prose where that has none."""
        topics = {"prose": _PROSE, "technical": _TECHNICAL, "play": _PLAYS, "foreign": _FOREIGN}
        weights = topics[topic][self.split] or _PROSE[self.split]
        names = [n for n in weights if n in self._texts] or list(self._texts)
        name = rng.choices(names, [weights.get(n, 1.0) for n in names])[0]
        return rng.choice(self._texts[name])

    def word(self, rng: random.Random) -> str:
        return rng.choice(self.words)

    def name(self, rng: random.Random) -> str:
        return rng.choice(self.names)

    def accented(self, rng: random.Random) -> str:
        return rng.choice(self.foreign) if self.foreign else rng.choice(_ACCENTED)

    def code_line(self, rng: random.Random) -> str:
        return rng.choice(self._code) if self._code else f"{self.word(rng)}({rng.randrange(100)});"

    def _read(self, name: str) -> list[str]:
        try:
            return _cached(name)
        except (FileNotFoundError, subprocess.CalledProcessError):
            self.missing.append(name)
            return []


@lru_cache(maxsize=2)
def corpus(split: str) -> Corpus:
    return Corpus(split)


def _cached(name: str) -> list[str]:
    path = cache_file(name)
    if not path.exists():
        if sealed():
            raise FileNotFoundError(path)
        kept, size = [], 0
        paragraphs = [fold(p) for p in getattr(sources, name)(cache_dir())]
        step = max(1, sum(map(len, paragraphs)) // _LIMIT)
        for paragraph in paragraphs[::step]:
            if paragraph and in_charset(paragraph) and "--+" not in paragraph and size < _LIMIT:
                kept.append(paragraph)
                size += len(paragraph)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.part")
        partial.write_text("\n".join(kept), encoding="utf-8")
        partial.replace(path)  # several readers may fill the cache at once
    return path.read_text("utf-8").split("\n")


def _is_held_out(word: str) -> bool:
    return zlib.crc32(word.encode()) % 12 == 0


_ACCENTED = (  # noqa: SIM905 - a list would be one word a line
    "café naïve façade über Müller Köln Straße señor niño São João coração Åse Øresund smörgåsbord "
    "Łódź Kraków święty žluťoučký kůň Dvořák Győr Şişli fiancée château garçon œuvre élève"
).split()
