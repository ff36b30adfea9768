"""The files of a checkpoint folder, by name: nothing of them is read but the index of shards."""

from pathlib import Path

from ocria.errors import CheckpointError, ConfigError
from ocria.model.strict import read_json

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
CURE = "Fetch the file again."


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
        return [folder / name for name in sorted(set(weight_map(folder / INDEX).values()))]
    others = sorted(path.name for path in folder.glob("*.bin")) if folder.is_dir() else []
    cure = "Convert its .bin weights to safetensors." if others else "Is the checkpoint whole?"
    raise CheckpointError(f"has no weights ({SINGLE} or {INDEX})", path=folder, cure=cure)


def weight_map(index: Path) -> dict[str, str]:
    """The file of every tensor. Raises CheckpointError or ConfigError for an index that is no such thing."""
    placed = read_json(index).get("weight_map")
    if not isinstance(placed, dict) or not placed:
        raise CheckpointError("has no weight_map", path=index, cure=CURE)
    for name in placed.values():
        if not isinstance(name, str) or Path(name).name != name:
            raise CheckpointError(f"{name!r} is not a file beside the index", path=index)
    return placed
