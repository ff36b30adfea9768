"""Write a folder with everything that one training run needs: source, texts, fonts, weights, run.py, README.txt."""

import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path

import ocria
from ocria.errors import InputError, OutputError, UsageError
from ocria.spec.vision import CONFIG, WEIGHTS
from ocria.train import corpus
from ocria.train.fonts import font_set, glyphs, glyphs_file
from ocria.train.lines import SPLITS
from ocria.train.prepared import launcher, licences
from ocria.train.prepared.readme import readme

LIMIT = 60_000_000
"""Bytes of a folder: a checkout and the folder have to fit into what a machine takes at once."""
TEXT_LIMIT = 3_000_000
"""Characters of a text source. A run of eight minutes reads about 30 million in all."""


def prepare(folder: Path, init: Path | None = None, text_limit: int = TEXT_LIMIT) -> dict:
    """Write `folder` anew; returns its manifest, which is manifest.json there.

    init: exported weights with their CTC head, to start from. Raises InputError where they are incomplete, UsageError
    for a folder with something else in it, MissingDependencyError without fonts or texts, OutputError where the result
    is over LIMIT.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / "manifest.json").exists():
        raise UsageError("is not empty and no prepared run", path=folder, cure="name a new folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    texts = _pack_texts(folder / "texts.tar.xz", text_limit)
    fonts = _pack_fonts(folder / "fonts.tar.xz")
    _pack_source(folder / "source.tar.xz")
    if init is not None:
        _copy_weights(init, folder / "init")
    found = licences.collect(fonts, list(texts))
    licences.write(found, folder / "licences.txt")
    shutil.copyfile(launcher.__file__, folder / "run.py")
    manifest = {
        "ocria": ocria.__version__,
        "texts": {name: {"characters": size, "packages": found.texts[name]} for name, size in texts.items()},
        "fonts": {Path(path).name: found.fonts[path] for path in fonts},
        "init": init is not None,
        "bytes": {path.name: _size(path) for path in sorted(folder.iterdir())},
    }
    (folder / "README.txt").write_text(readme(manifest), encoding="utf-8")
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    if (total := _size(folder)) > LIMIT:
        raise OutputError(f"{total / 1e6:.0f} MB are more than {LIMIT / 1e6:.0f}", path=folder,
                          cure="keep less of each text: --text-limit")  # fmt: skip
    return manifest


def _pack_texts(target: Path, limit: int) -> dict[str, int]:
    """The cache of the corpus, each source thinned to `limit` characters, the glyphs of every font, and the seal.
    Returns source -> characters."""
    for split in SPLITS:
        corpus.Corpus(split)  # fills the cache
    sizes = {}
    with tarfile.open(target, "w:xz") as tar:
        for name in sorted(_source_names()):
            path = corpus.cache_file(name)
            if path.exists():
                text = _thinned(path.read_text("utf-8").split("\n"), limit)
                sizes[name] = len(text)
                _add(tar, f"texts/{path.name}", text.encode())
        _add(tar, "texts/sealed", b"")
        for path in _font_paths():
            glyphs(path)  # read now if they were not
            kept = glyphs_file(path)
            _add(tar, f"texts/fonts/{kept.name}", kept.read_bytes())
    return sizes


def _source_names() -> set[str]:
    kinds = (corpus._PROSE, corpus._TECHNICAL, corpus._PLAYS, corpus._FOREIGN)
    return {name for kind in kinds for split in SPLITS for name in kind[split]} | set(corpus._LISTS)


def _thinned(paragraphs: list[str], limit: int) -> str:
    """Paragraphs spread evenly over the source, about `limit` characters."""
    total = sum(map(len, paragraphs))
    if total <= limit:
        return "\n".join(paragraphs)
    count = max(1, len(paragraphs) * limit // total)
    return "\n".join(paragraphs[i * len(paragraphs) // count] for i in range(count))


def _font_paths() -> list[str]:
    return sorted({face.path for split in SPLITS for faces in font_set(split).faces.values() for face in faces})


def _pack_fonts(target: Path) -> list[str]:
    paths = _font_paths()
    with tarfile.open(target, "w:xz") as tar:
        # Of one family side by side: they share tables, and xz sees 8 MB back.
        for path in paths:
            info = tar.gettarinfo(os.path.realpath(path), f"fonts/{Path(path).name}")
            info.mtime = int(os.stat(path).st_mtime)  # part of the name under which its glyphs are kept
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            with open(path, "rb") as file:
                tar.addfile(info, file)
    return paths


def _pack_source(target: Path) -> None:
    """All Python of the package; nothing else of it is read in training."""
    root = Path(ocria.__file__).parent
    with tarfile.open(target, "w:xz") as tar:
        for path in sorted(root.rglob("*.py")):
            _add(tar, f"source/ocria/{path.relative_to(root).as_posix()}", path.read_bytes())


def _copy_weights(init: Path, target: Path) -> None:
    target.mkdir()
    for name in ("model.safetensors", WEIGHTS, CONFIG):
        if not (init / name).exists():
            raise InputError(f"has no {name}", path=init, cure="name a folder exported by ocria.train.nano")
        shutil.copyfile(init / name, target / name)


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    tar.addfile(info, io.BytesIO(data))


def _size(path: Path) -> int:
    files: Iterable[Path] = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
