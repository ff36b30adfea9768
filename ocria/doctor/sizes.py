"""Sizes on disk."""

from __future__ import annotations

import os
from pathlib import Path


def folder_bytes(folder: Path) -> int:
    """What the files below a folder take, each once even where links lead to it; 0 where there is none."""
    seen: dict[tuple[int, int], int] = {}
    for root, _, files in os.walk(folder):
        for name in files:
            try:
                status = os.stat(os.path.join(root, name))
            except OSError:  # gone meanwhile, or a link to nowhere: it takes nothing
                continue
            seen[status.st_dev, status.st_ino] = status.st_size
    return sum(seen.values())


def told(amount: int) -> str:
    """`1.5 GiB`, `212.0 MiB`, `3 KiB`."""
    if amount >= 1 << 30:
        return f"{amount / (1 << 30):.1f} GiB"
    return f"{amount / (1 << 20):.1f} MiB" if amount >= 1 << 20 else f"{-(-amount // 1024)} KiB"
