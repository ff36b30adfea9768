"""A model with random weights as what climbs: 4B shapes on a GPU, tiny ones to try the ladder anywhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ocria.runtime.options import EngineOptions
from ocria.runtime.request import Request
from ocria.spec.chain import Chain

from .large import ACCEPT, WRONG_EVERY, Large, load
from .peers import RandomTransformers
from .rungs import MIX, Rung
from .shapes import SHAPES
from .sides import Answer, Ocria, Peer, Side
from .subject import Subject
from .work import Work

TIE = {torch.float32: 1e-4, torch.bfloat16: 0.25}
"""Logits that are nearer to each other than this may come out in either order; bf16 rounds those around 50 to 0.25."""


@dataclass
class RandomSubject(Subject):
    """models: bf16 or fp32, and the mix once it is made. compiled: rungs that say so run compiled steps, which takes
    minutes at 4B; otherwise all run kernels launched one by one, but for the last one."""

    models: dict[bool, Large] = field(default_factory=dict)
    accept: dict[str, float] = field(default_factory=dict)
    compiled: bool = False

    def lacks(self, rung: Rung) -> str | None:
        """See `Subject.lacks`."""
        if rung.key == "compiled" and not self.compiled:
            return "compiling at these shapes takes minutes: --compile"
        if rung.beside is not None and self.device == "cuda":
            return "snapshots are kept by torch's operations, which beside a kernel would be no comparison on a GPU"
        return super().lacks(rung)

    def engine(self, rung: Rung, most: int) -> Ocria:
        """See `Subject.engine`. Steps with drafts have all rows of a block: nothing is lost by trying others."""
        if not self.compiled:
            rung = replace(rung, options={**rung.options, "compile": False})
        if rung.drafts is None:
            return super().engine(rung, most)
        options = {"draft_rows": 16, **rung.options}
        drafts = self.drafts[rung.drafts]

        def chain(asked: EngineOptions) -> Chain:
            self.weights(rung.quantised)  # made by now
            return self.models[rung.quantised].chain(drafts, asked.draft_rows, self.accept)

        of_these = replace(self, drafts={**self.drafts, rung.drafts: chain})
        return Subject.engine(of_these, replace(rung, options=options), most)


class RandomPeer(Peer):
    """Answers end by their limit, each by its own."""

    def run(self, requests: list[Request], batch: int) -> list[Answer]:
        """See `Side.run`."""
        return [replace(answer, finish_reason="length") for answer in super().run(requests, batch)]


def random_subject(
    name: str,
    device: str,
    limit: int | None = None,
    longest: int | None = None,
    accept: Sequence[float] = tuple(ACCEPT.values()),
    compiled: bool = False,
    seed: int = 0,
) -> RandomSubject:
    """name: of `SHAPES`. limit: requests, 12 by default. longest: tokens of an answer. accept: lengths that DFlash and
    DFlash2 are forced to. bf16 on CUDA, else fp32."""
    shape, dtype = SHAPES[name], torch.bfloat16 if device == "cuda" else torch.float32
    began = time.perf_counter()
    large = load(shape, dtype, device, seed)
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    requests = large.requests(limit or 12, seed, longest)
    forced = dict(zip(ACCEPT, accept, strict=True))
    models = {False: large}

    def mix() -> Any:
        models[True] = load(shape, dtype, device, seed, MIX)
        return models[True].loaded

    def peer(max_tokens: int) -> Side:
        return RandomPeer(RandomTransformers(large, requests, max_tokens), large.loaded.tokenizer.decode, device)

    drafts: dict[str, Any] = {"given": "lookup", "dflash": "dflash", "dflash2": "dflash2", "auto": "lookup,dflash2"}
    work = Work(requests, [], len(requests), f"{len(requests)} pages of noise")
    rows = sorted({(r.images[0].shape[0] * r.images[0].shape[1]) // 1024 for r in requests})
    made = [
        f"Weights are random, made on the device in {seconds:.1f} s: {shape.note}. The head names the tokens of one "
        "cycle by a wide margin, so that text means nothing and equal tokens say that rows, batches and drafts are "
        f"kept in order, not that numbers are right. Images of {rows[0]} to {rows[-1]} tokens, answers of a forced "
        f"length of up to {max(r.limits.max_tokens for r in requests)} tokens.",
        "FORCED: networks draft in full, and what they draft is replaced so that a window commits "
        f"{', '.join(f'{length:g} tokens with {one}' for one, length in forced.items())} on average (4 to 16 for 9); "
        "how many hold is stated, not measured. Look-up is real, in texts with one token of "
        f"{WRONG_EVERY} wrong. Steps with drafts have 16 rows.",
        "Steps are compiled where a rung says so." if compiled else
        "Steps are not compiled: kernels are launched one by one, but for the rung with graphs.",
    ]  # fmt: skip
    return RandomSubject(
        f"{name}, drafts forced", large.loaded, work, drafts, mix, peer, made, stops=False, tie=TIE[dtype],
        models=models, accept=forced, compiled=compiled,
    )  # fmt: skip
