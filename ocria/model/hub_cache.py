"""What was fetched from the hub before: the folders of its cache, without the network and without the hub's package."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Fetched:
    """A model in the cache, as its revision last asked for."""

    name: str
    """Such as `owner/model`."""
    revision: str
    """The commit."""
    folder: Path


def hub_cache() -> Path:
    """The folder of the cache, chosen as the hub's package chooses it."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return Path(os.environ[name]).expanduser()
    home = os.environ.get("HF_HOME")
    if home:
        return Path(home).expanduser() / "hub"
    return Path(os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache"), "huggingface", "hub")


def fetched_models() -> list[Fetched]:
    """The models of the cache with a configuration and weights, by name. Whether they are whole, and of an
    architecture that ocria runs, is not looked at."""
    root = hub_cache()
    found = []
    for folder in sorted(root.glob("models--*--*")):
        snapshot = _snapshot(folder)
        if snapshot and (snapshot / "config.json").is_file() and any(snapshot.glob("*.safetensors")):
            name = folder.name.removeprefix("models--").replace("--", "/", 1)
            found.append(Fetched(name, snapshot.name, snapshot))
    return found


def _snapshot(folder: Path) -> Path | None:
    """The revision that `main` names, else the newest one."""
    main = folder / "refs" / "main"
    if main.is_file():
        named = folder / "snapshots" / main.read_text(encoding="utf-8").strip()
        if named.is_dir():
            return named
    return max((path for path in folder.glob("snapshots/*") if path.is_dir()), key=_changed, default=None)


def _changed(path: Path) -> float:
    return path.stat().st_mtime
