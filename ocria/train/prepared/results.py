"""What a run brings back: few files, each small enough, never half written."""

import json
import tarfile
import tempfile
import time
from pathlib import Path

from ocria.train.export import export
from ocria.train.learner import Learner

PART = 15 * 2**20
"""Bytes of a part of a file that is larger than that. At most 16 MiB a file come back from some machines."""


class Results:
    """The folder `out`: `log.txt`, `export.tar` (or `export.tar.00`, `.01`, ... in parts), `scores.json`."""

    def __init__(self, out: Path, started: float):
        self.out, self.started = out, started
        out.mkdir(parents=True, exist_ok=True)
        self._log = (out / "log.txt").open("a", encoding="utf-8")

    def say(self, text: str) -> None:
        """A line of the log with the seconds since the run began."""
        line = f"{time.time() - self.started:6.1f} s  {text}"
        print(line, flush=True)
        self._log.write(line + "\n")
        self._log.flush()

    def weights(self, learner: Learner) -> None:
        """The learner in the shipped format, bf16, as one tar whose files lie in `export/`."""
        with tempfile.TemporaryDirectory() as folder:
            export(learner, Path(folder) / "export")
            packed = Path(folder) / "export.tar"
            with tarfile.open(packed, "w") as tar:
                tar.add(Path(folder) / "export", "export")
            _deliver(packed, self.out / "export.tar")

    def scores(self, scores: dict) -> None:
        part = self.out / "scores.json.part"
        part.write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
        part.replace(self.out / "scores.json")

    def close(self) -> None:
        self._log.close()


def _deliver(source: Path, target: Path) -> None:
    """Copy beside the target and rename, whole or in parts: a run that is killed leaves the old file or the new one.
    (In parts, of a kill between two renames, a mixture: the last part is as old as the oldest.)"""
    data = source.read_bytes()
    pieces = [data[start : start + PART] for start in range(0, len(data), PART)]
    names = [target] if len(pieces) == 1 else [target.with_name(f"{target.name}.{i:02d}") for i in range(len(pieces))]
    for name, piece in zip(names, pieces, strict=True):
        name.with_name(name.name + ".part").write_bytes(piece)
    for name in names:
        name.with_name(name.name + ".part").replace(name)
