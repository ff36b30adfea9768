"""What ocria keeps on disk beside its outputs."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ocria.doctor.sizes import folder_bytes
from ocria.errors import OutputError
from ocria.model.hub_cache import hub_cache
from ocria.runtime.places import compiled_root


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of things that can be made or fetched again."""

    name: str
    folder: Path
    bytes: int
    ours: bool
    """Whether `clear` may empty it."""


def caches() -> list[Cache]:
    """Compiled code, where the user keeps it instead, and what was fetched from the hub."""
    compiled, elsewhere = compiled_root(), os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    found = [Cache("compiled", compiled, folder_bytes(compiled), True)]
    if elsewhere:
        found.append(Cache("compiled (TORCHINDUCTOR_CACHE_DIR)", Path(elsewhere), folder_bytes(Path(elsewhere)), False))
    return [*found, Cache("hub", hub_cache(), folder_bytes(hub_cache()), False)]


def clear_caches() -> int:
    """Remove what ocria made itself; returns how many bytes it took. Raises OutputError where that is not allowed."""
    freed = 0
    for cache in caches():
        if cache.ours and cache.folder.is_dir():
            try:
                shutil.rmtree(cache.folder)
            except OSError as error:
                raise OutputError(f"cannot be removed: {error.strerror}", path=cache.folder) from error
            freed += cache.bytes
    return freed
