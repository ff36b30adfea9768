"""Tesseract as the peer: the same images through the `tesseract` command.

Tesseract's threads share one line at a time, and more of them may well be slower: each image is read with one thread
and with as many as the other side has, and the better time counts. `pin` gives both sides the same cores.

Results are kept by the hash of the image, so that a bench that is run again during development
pays for the peer once; `seconds` are then those of the run that filled the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

PAGE, LINE, RAW_LINE = 3, 7, 13  # page segmentation modes


def cache_folder() -> Path:
    """Where benches keep rendered pages and the peer's results."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ocria-bench"


class PeerError(Exception):
    """Tesseract is missing or failed."""


@dataclass(frozen=True, slots=True)
class PeerText:
    """What Tesseract read in one image and the wall seconds of its process."""

    text: str
    seconds: float
    """The better of the times below."""
    seconds_by_threads: dict[int, float]
    """By OMP_THREAD_LIMIT."""


def pin(threads: int) -> list[int]:
    """Keep this process to `threads` of its cores, and with it what it starts from now on: call it before a library
    starts threads. Returns the cores. Raises PeerError where there are fewer."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < threads:
        raise PeerError(f"{threads} threads need as many cores, and this process may use {len(cores)}")
    os.sched_setaffinity(0, cores[:threads])
    return cores[:threads]


class Tesseract:
    """Runs `tesseract IMAGE stdout --psm N` with OMP_THREAD_LIMIT=1, and again with `threads`, on the cores that this
    process may use."""

    def __init__(self, cache: Path | None, threads: int = 1):
        """`cache`: folder of earlier results, or None to run always. Raises PeerError if not installed."""
        self._cache = cache / "tesseract" if cache else None
        self._limits = sorted({1, threads})
        if shutil.which("tesseract") is None:
            raise PeerError("the tesseract command is not installed; or use --peer none")

    @cached_property
    def version(self) -> str:
        run = subprocess.run(["tesseract", "--version"], capture_output=True, text=True, check=True)
        return (run.stdout or run.stderr).split()[1]

    def read(self, image: Path, psm: int) -> PeerText:
        """Read one image file; `psm` is one of the modes above."""
        digest = hashlib.sha256(image.read_bytes())
        digest.update(f"{self.version} {psm} eng {self._limits} {len(os.sched_getaffinity(0))} cores".encode())
        kept = self._cache and self._cache / f"{digest.hexdigest()[:32]}.json"
        if kept and kept.exists():
            return _from_dict(json.loads(kept.read_text(encoding="utf-8")))
        seconds = {}
        for limit in self._limits:
            start = time.perf_counter()
            text = self._run(image, psm, limit)
            seconds[limit] = time.perf_counter() - start
        result = PeerText(text, min(seconds.values()), seconds)
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(asdict(result)), encoding="utf-8")
        return result

    def read_crops(self, crops: list, dpi: int) -> list[str]:
        """Read uint8 [h, w] line crops in one process; one text each, in order."""
        from PIL import Image

        if not crops:
            return []
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for number, crop in enumerate(crops):
                files.append(f"{folder}/{number}.png")
                Image.fromarray(crop).save(files[-1], dpi=(dpi, dpi))
            names = Path(folder, "names.txt")
            names.write_text("\n".join(files), encoding="utf-8")
            texts = self._run(names, LINE, 1).split("\f")  # a form feed parts the images
        if len(texts) != len(crops):
            raise PeerError(f"tesseract gave {len(texts)} texts for {len(crops)} line images")
        return [text.strip() for text in texts]

    def _run(self, image: Path, psm: int, threads: int) -> str:
        command = ["tesseract", str(image), "stdout", "--psm", str(psm), "-l", "eng"]
        environment = {**os.environ, "OMP_THREAD_LIMIT": str(threads)}
        run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if run.returncode:
            raise PeerError(f"tesseract failed on {image}: {run.stderr.strip()}")
        return run.stdout


def _from_dict(kept: dict) -> PeerText:
    by_threads = {int(threads): seconds for threads, seconds in kept["seconds_by_threads"].items()}
    return PeerText(kept["text"], kept["seconds"], by_threads)
