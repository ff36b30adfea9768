"""The tensors in a checkpoint folder: one safetensors file, or shards with an index.

Names, shapes and dtypes are known before any data is read, and a tensor is copied straight to where it will
live. Files are mapped for a few tensors at a time, so that the mapped pages never add up to a second copy,
and a file that is replaced later cannot pull the weights away from a running model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from ocria.errors import CheckpointError, ConfigError
from ocria.model.strict import read_json

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
_MAPPED_BYTES = 16 * 2**20
_CURE = "Fetch the file again."


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor as its file describes it."""

    name: str
    file: Path
    shape: tuple[int, ...]
    dtype: str
    """As safetensors spells it: `F32`, `BF16`, `U8` ..."""


def is_whole(folder: Path) -> bool:
    """Whether a folder has a configuration and every weight file, looking at names only."""
    if not (folder / "config.json").is_file():
        return False
    try:
        return all(path.is_file() for path in weight_files(folder))
    except (CheckpointError, ConfigError):
        return False


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint. Raises CheckpointError when there are none."""
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    if (folder / INDEX).is_file():
        return [folder / name for name in sorted(set(_weight_map(folder / INDEX).values()))]
    others = sorted(path.name for path in folder.glob("*.bin")) if folder.is_dir() else []
    cure = "Convert its .bin weights to safetensors." if others else "Is the checkpoint whole?"
    raise CheckpointError(f"has no weights ({SINGLE} or {INDEX})", path=folder, cure=cure)


def list_tensors(folder: Path) -> dict[str, TensorInfo]:
    """Every tensor of a checkpoint by name.

    Raises CheckpointError for a file that is missing, truncated or corrupt, for a tensor that two files hold,
    and when the index and the shards disagree.
    """
    files = weight_files(folder)
    found: dict[str, TensorInfo] = {}
    for path in files:
        for info in _list_file(path):
            if info.name in found:
                message = f"tensor {info.name} is also in {found[info.name].file.name}"
                raise CheckpointError(message, path=path)
            found[info.name] = info
    if files != [folder / SINGLE]:
        index = folder / INDEX
        placed = {name: folder / file for name, file in _weight_map(index).items()}
        wrong = [name for name in placed.keys() | found.keys() if placed.get(name) != _file_of(found, name)]
        if wrong:
            raise CheckpointError(f"disagrees with the shards about {names(sorted(wrong))}", path=index)
    return found


def read_tensors(infos: Sequence[TensorInfo]) -> Iterator[tuple[TensorInfo, torch.Tensor]]:
    """Each tensor as a view into its mapped file; copy it before asking for the next one."""
    position = 0
    while position < len(infos):
        path, mapped = infos[position].file, 0
        try:
            with safe_open(str(path), framework="pt") as file:
                while position < len(infos) and infos[position].file == path and mapped < _MAPPED_BYTES:
                    tensor = file.get_tensor(infos[position].name)
                    mapped += tensor.nbytes
                    yield infos[position], tensor
                    position += 1
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"not a whole safetensors file: {error}", path=path, cure=_CURE) from error


def names(items: Sequence[str], most: int = 40) -> str:
    """The names for a message, the first ones of a very long list."""
    rest = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + rest


def _list_file(path: Path) -> list[TensorInfo]:
    if not path.is_file():
        raise CheckpointError("the index names this file, and it is missing", path=path, cure=_CURE)
    try:
        with safe_open(str(path), framework="pt") as file:
            slices = [(name, file.get_slice(name)) for name in file.keys()]  # noqa: SIM118, it is no dict
            return [TensorInfo(name, path, tuple(s.get_shape()), s.get_dtype()) for name, s in slices]
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"not a whole safetensors file: {error}", path=path, cure=_CURE) from error


def _weight_map(index: Path) -> dict[str, str]:
    placed = read_json(index).get("weight_map")
    if not isinstance(placed, dict) or not placed:
        raise CheckpointError("has no weight_map", path=index, cure=_CURE)
    for name in placed.values():
        if not isinstance(name, str) or Path(name).name != name:
            raise CheckpointError(f"{name!r} is not a file beside the index", path=index)
    return placed


def _file_of(found: dict[str, TensorInfo], name: str) -> Path | None:
    return found[name].file if name in found else None
