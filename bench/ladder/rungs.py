"""The rungs of the ladder: what each adds to the one below, as options of an engine.

A rung keeps what the rungs below it added, but for the pair that verifies given drafts: it stands beside the ladder,
because what it shows is the price of taking drafts back, and the drafts of the rungs above it are not given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

GIVEN_ROWS = 8
"""Rows of every step of the rungs with given drafts: the anchor and seven drafts."""
RING = 2 * GIVEN_ROWS
"""The least ring for such steps. Every step then folds the history of the one before, so that a snapshot of it can be
copied back in its place."""
MIX = "nvfp4-mlp+fp8+head"
"""The shipped recipe that quantises all that is worth it in the format that suits it."""


@dataclass(frozen=True, slots=True)
class Rung:
    """options: fields of `EngineOptions`, None for a peer. drafts: who drafts, by a name that the subject resolves
    (`given`, `dflash`, `dflash2`, `auto`), None for nobody. snapshots: the state is kept as a snapshot for each token.
    quantised: of the checkpoint by `MIX`. batch: at this batch size whatever is asked for, None: at that one. needs:
    the kind of device. beside: it is compared with the rung of this key, and no rung above builds on it.
    absent: why there is nothing to run on any device."""

    key: str
    title: str
    what: str
    options: dict[str, Any] | None = field(default_factory=dict)
    drafts: str | None = None
    snapshots: bool = False
    quantised: bool = False
    batch: int | None = None
    needs: str | None = None
    beside: str | None = None
    absent: str | None = None

    @property
    def peer(self) -> bool:
        """Not an engine of ocria."""
        return self.options is None


_EAGER = {"graph": False, "overlap": False}
_COMPILED = {**_EAGER, "compile": True}
REFERENCE = "plain"
"""The rung whose tokens all others must have."""

LADDER = (
    Rung("transformers-1", "transformers, batch 1", "generate, one request after the other", None, batch=1),
    Rung("transformers", "transformers, batched", "generate, as many requests a call as the batch", None),
    Rung(REFERENCE, "ocria, plain", "eager steps of one request, state written in each, no drafts",
         {**_EAGER, "ring": 0}, batch=1),
    Rung("compiled", "+ compiled step", "the step as one graph of Inductor, operations fused", {**_COMPILED, "ring": 0},
         batch=1),
    Rung("batching", "+ batching", "as many requests a step as the batch, new ones enter as others end",
         {**_COMPILED, "ring": 0}),
    Rung("snapshots", "given drafts, snapshots", f"eager; blocks of {GIVEN_ROWS} rows of given drafts, the state "
         "written after each token, copied back where drafts end", {**_EAGER, "draft_rows": GIVEN_ROWS, "ring": RING},
         drafts="given", snapshots=True, beside="replay"),
    Rung("replay", "given drafts, ReplaySSM", "eager; the same blocks, a ring of inputs replayed instead, nothing "
         "copied back", {**_EAGER, "draft_rows": GIVEN_ROWS, "ring": RING}, drafts="given", beside="snapshots"),
    Rung("dflash", "+ DFlash", "a network drafts blocks, verified over ReplaySSM", _COMPILED, drafts="dflash"),
    Rung("dflash2", "+ DFlash2", "the network that knows what it drafted before", _COMPILED, drafts="dflash2"),
    Rung("auto", "+ lookup", "drafts from texts (a PDF's own, the vision encoder's reading) instead: --draft auto",
         _COMPILED, drafts="auto"),
    Rung("mix", "+ quantised mix", f"weights by the recipe {MIX}", _COMPILED, drafts="auto", quantised=True),
    Rung("fused", "+ fused ops", "hand-written kernels in place of torch's operations", None,
         absent="no lever switches them: on CUDA every rung of ocria runs the kernels (bench/ops.py times each of them "
         "against its torch form), on the CPU Inductor fuses the torch forms, which is the rung of the compiled step"),
    Rung("graphs", "+ graphs and overlap", "one CUDA graph a step, launched before the last one is read",
         {"compile": True, "graph": True, "overlap": True}, drafts="auto", quantised=True, needs="cuda"),
)  # fmt: skip
BY_KEY = {rung.key: rung for rung in LADDER}


def unavailable(rung: Rung, device: str) -> str | None:
    """Why a rung cannot run on this kind of device; None where it can."""
    if rung.absent is not None:
        return rung.absent
    if rung.needs not in (None, device):
        return f"not on this device: needs {rung.needs}"
    return None


def same_as_below(rung: Rung, batch: int) -> bool:
    """Whether it is, at this batch, what the rung below it is already."""
    return batch == 1 and rung.key in ("transformers", "batching")
