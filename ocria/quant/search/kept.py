"""Losses that were measured, kept in a file, so that a search that was interrupted goes on."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import torch

from ocria.errors import OutputError
from ocria.model.identity import weights_version
from ocria.model.strict import read_json
from ocria.quant.calibration.pages import Sample
from ocria.quant.search.divergence import Divergence

MEASURED = "measured.json"


class Kept:
    """Losses by what was measured, kept in a file at once. Those of another model or other samples do not count."""

    def __init__(self, out: Path, fingerprint: str):
        self._path, self._fingerprint = out / MEASURED, fingerprint
        self._losses: dict[str, Divergence] = {}
        if self._path.is_file():
            data = read_json(self._path)
            if data.get("of") == fingerprint:
                self._losses = {key: Divergence(**value) for key, value in data["losses"].items()}
        elif out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise OutputError("is there already", path=out, cure="Give a new folder, or that of a search.")
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot be written: {error.strerror or error}", path=out) from error

    def __contains__(self, key: str) -> bool:
        return key in self._losses

    def __getitem__(self, key: str) -> Divergence:
        return self._losses[key]

    def __setitem__(self, key: str, loss: Divergence) -> None:
        self._losses[key] = loss
        data = {"of": self._fingerprint, "losses": {key: loss.to_dict() for key, loss in self._losses.items()}}
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(data), encoding="utf-8")
        part.replace(self._path)


def fingerprint(
    folder: Path, held_out: Sequence[Sample], calibration: Sequence[Sample], dtype: torch.dtype
) -> str:
    """What losses depend on, but for formats and settings of the recipe that is measured."""
    digest = hashlib.sha256(f"{weights_version(folder)} {dtype}".encode())
    for samples in (held_out, calibration):
        for request, result in samples:
            digest.update(repr((request.prompt, result.tokens)).encode())
        digest.update(b"|")
    return digest.hexdigest()
