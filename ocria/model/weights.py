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

from ocria.errors import CheckpointError
from ocria.model.files import CURE, INDEX, SINGLE, weight_files, weight_map

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
_MAPPED_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor as its file describes it."""

    name: str
    file: Path
    shape: tuple[int, ...]
    dtype: str
    """As safetensors spells it: `F32`, `BF16`, `U8` ..."""


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
        placed = {name: folder / file for name, file in weight_map(index).items()}
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
            raise CheckpointError(f"not a whole safetensors file: {error}", path=path, cure=CURE) from error


def names(items: Sequence[str], most: int = 40) -> str:
    """The names for a message, the first ones of a very long list."""
    rest = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + rest


def _list_file(path: Path) -> list[TensorInfo]:
    if not path.is_file():
        raise CheckpointError("the index names this file, and it is missing", path=path, cure=CURE)
    try:
        with safe_open(str(path), framework="pt") as file:
            slices = [(name, file.get_slice(name)) for name in file.keys()]  # noqa: SIM118, it is no dict
            return [TensorInfo(name, path, tuple(s.get_shape()), s.get_dtype()) for name, s in slices]
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"not a whole safetensors file: {error}", path=path, cure=CURE) from error


def _file_of(found: dict[str, TensorInfo], name: str) -> Path | None:
    return found[name].file if name in found else None
