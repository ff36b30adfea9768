"""Which model a name stands for, told without loading it: for those who keep what it has read."""

import hashlib
import os
from pathlib import Path

from ocria.errors import CheckpointError, ConfigError
from ocria.model.files import weight_files
from ocria.model.hub import EMBEDDED

EMBEDDED_DEFAULT = "nano"
"""The model that is taken where none is named."""
_MOST_HASHED_BYTES = 256 * 2**20


def identity(model: str | os.PathLike[str]) -> str:
    """The same for the same weights, configuration, tokenizer and profile: a digest of a folder's files, of large
    weights by their names, sizes and times alone. A model of the hub is its name and revision, fetched or not. Whether
    a model can be loaded is not looked at.
    """
    text = os.fspath(model)
    folder = Path(text).expanduser()
    if not folder.is_dir():
        if text not in EMBEDDED:
            return text
        folder = Path(__file__).parent.parent / "assets" / EMBEDDED[text]
    try:
        weights = weight_files(folder)
        large = sum(file.stat().st_size for file in weights) > _MOST_HASHED_BYTES
        digest = hashlib.sha256()
        for file in sorted([*folder.glob("*.json"), *folder.glob("*.jinja"), *weights]):
            state = file.stat()
            small = file not in weights or not large
            what = file.read_bytes() if small else f"{state.st_size} {state.st_mtime_ns}".encode()
            digest.update(f"{file.name}\0{len(what)}\0".encode() + what)
    except (CheckpointError, ConfigError, OSError):
        return text  # no checkpoint: it reads nothing that could be kept
    return digest.hexdigest()[:16]


def weights_version(folder: Path) -> str | None:
    """The start of the weights' SHA-256; None for a checkpoint too large to hash at every start."""
    files = weight_files(folder)
    if sum(file.stat().st_size for file in files) > _MOST_HASHED_BYTES:
        return None
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
