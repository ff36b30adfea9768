"""The model that climbs: its weights, its drafters, its quantised mix, and what it reads."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from gate import TIE
from tesseract import cache_folder

from ocria.document.reader import NANO
from ocria.model.checkpoint import load_model
from ocria.runtime.options import EngineOptions
from ocria.runtime.teacher import Teacher
from ocria.spec.chain import Chain
from ocria.spec.config import DrafterConfig

from .rungs import MIX, Rung
from .sides import Ocria, Peer, Side
from .snapshots import Snapshots
from .work import Work, sampled, shipped

CALIBRATED_ON = 64
"""Lines of made pages that the mix is calibrated on."""

Drafts = str | Callable[[EngineOptions], Chain]
"""What drafts: what `--draft` says, or a chain that is made for an engine."""


@dataclass
class Subject:
    """drafts: by the names that rungs have for them; those it lacks are left out. `mix` loads the quantised model, and
    `peer` the side of transformers for answers of at most so many tokens; None where there is none. made: what there
    is to say of how it came about, such as that weights are random. stops: answers end by a token of the model's, and
    those that do not are left out; otherwise all end by their limit.
    """

    name: str
    loaded: Any
    work: Work
    drafts: dict[str, Drafts]
    mix: Callable[[], Any] | None
    peer: Callable[[int], Side] | None
    made: list[str] = field(default_factory=list)
    stops: bool = True
    options: dict[str, Any] = field(default_factory=dict)
    """Fields of `EngineOptions` for all of its engines."""
    tie: float = TIE
    """Logits that are nearer to each other than this may come out in either order."""
    _mixed: Any = None
    _teachers: dict[bool, Teacher] = field(default_factory=dict)

    @property
    def device(self) -> str:
        """The kind of device."""
        return self.loaded.network.device.type

    def lacks(self, rung: Rung) -> str | None:
        """Why it cannot be on a rung; None where it can."""
        if rung.peer:
            return None if self.peer is not None else "transformers does not run this model here"
        if rung.drafts is not None and rung.drafts not in self.drafts:
            return f"{self.name} has nothing that drafts by {rung.drafts}"
        return f"{self.name} has no quantised mix" if rung.quantised and self.mix is None else None

    def weights(self, quantised: bool) -> Any:
        """The loaded model, or its mix, which is made at the first call."""
        if not quantised:
            return self.loaded
        if self._mixed is None:
            self._mixed = self.mix()
        return self._mixed

    def teacher(self, quantised: bool) -> Teacher:
        """The judge of answers that differ."""
        if quantised not in self._teachers:
            self._teachers[quantised] = Teacher(self.weights(quantised))
        return self._teachers[quantised]

    def engine(self, rung: Rung, most: int) -> Ocria:
        """An engine of a rung for up to `most` requests at once."""
        options, chain = {**self.options, **rung.options, "max_batch": most}, None
        drafts = None if rung.drafts is None else self.drafts[rung.drafts]
        if isinstance(drafts, str):
            options["draft"] = drafts
        elif drafts is not None:
            chain = drafts(EngineOptions(**options))
        state = Snapshots().in_place if rung.snapshots else nullcontext
        return Ocria(self.weights(rung.quantised), EngineOptions(**options), chain, state)


def line_model(folder: Path, device: str, samples: str | None, limit: int | None) -> Subject:
    """A model that reads lines, from its folder: ocria-nano, or another one with transformers' names. In fp32, in which
    all rungs have the same tokens."""
    dtype = torch.float32
    loaded = load_model(folder, dtype=dtype, device=device)
    work = shipped(loaded, limit) if samples is None else sampled(loaded, samples, limit)
    name = "ocria-nano" if folder == NANO else folder.name

    def peer(max_tokens: int) -> Peer:
        from generate import Transformers

        pad = loaded.tokenizer.eos_ids[0]
        model = Transformers(folder, list(work.requests[0].prompt), pad, max_tokens, dtype, device)
        return Peer(model, lambda ids: loaded.tokenizer.decode(list(ids)), device)

    return Subject(name, loaded, work, drafts_of(folder), lambda: mixed(folder, dtype, device), peer)


def drafts_of(folder: Path) -> dict[str, Drafts]:
    """What drafts for the model in a folder: its networks by kind, and what goes without."""
    found: dict[str, Drafts] = {"given": "lookup", "auto": "auto"}
    for config in sorted(folder.glob("drafter*/config.json")):
        kind = "dflash2" if DrafterConfig.from_file(config).version == 2 else "dflash"
        found[kind] = str(config.parent)
    return found


def mixed(folder: Path, dtype: torch.dtype, device: str) -> Any:
    """The model by the recipe `MIX`, calibrated on made pages. It is kept in the benches' cache: made again, it would
    be the same."""
    from ocria.quant.calibration.made import made_pages
    from ocria.quant.calibration.pages import load_samples
    from ocria.quant.calibration.run import quantize
    from ocria.quant.recipe import load_recipe

    recipe = load_recipe(MIX)
    files = [*sorted(folder.glob("*.safetensors")), folder / "config.json"]
    digest = hashlib.sha256(repr((recipe, CALIBRATED_ON)).encode())
    for file in files:
        digest.update(file.read_bytes())
    out = cache_folder() / "mix" / digest.hexdigest()[:16]
    if not out.is_dir():  # it appears when it is complete
        print(f"quantising by {MIX}, once", file=sys.stderr)
        out.parent.mkdir(parents=True, exist_ok=True)
        with made_pages() as pages:
            samples = load_samples(folder, pages, limit=CALIBRATED_ON)
        quantize(folder, recipe, samples, out)
    return load_model(out, dtype=dtype, device=device)
