"""What drafts tokens, and what it may look at.

A source proposes tokens behind the last one that was chosen. Whatever it proposes, the output is the target's: a source
decides how fast an answer comes, never what it says. All of it happens inside a step, without a host read.
"""

from dataclasses import dataclass
from typing import Protocol

import torch


@dataclass(frozen=True, slots=True)
class Seen:
    """B slots before a step of T = `rows` rows: the anchor and at most T - 1 drafts.

    slots int64 `[B]`, consecutive from `first_slot` where that is given, 0 the dummy; live bool `[B]`: the others are
    padding. anchor int64 `[B]`: the last token chosen, not fed yet; length int64 `[B]`: rows committed, so the row of
    the anchor; position int64 `[B]`: its rotary position; first int64 `[B]`: the row of the last prompt token.
    history int64 `[slots, max_len]` of ALL slots: tokens by row, of which first + 1 .. length - 1 are output.
    temperature fp32 `[B]`, seed int64 `[B]`: how the target draws; greedy: no slot draws. exact: a draft holds when it
    equals the target's draw, so that it should be drawn with the very same noise; otherwise with noise of its own, and
    the distribution it is from must be told. kv_len: host upper bound of the rows filled after the step, above length.
    """

    slots: torch.Tensor
    first_slot: int | None
    live: torch.Tensor
    anchor: torch.Tensor
    length: torch.Tensor
    position: torch.Tensor
    first: torch.Tensor
    history: torch.Tensor
    temperature: torch.Tensor
    seed: torch.Tensor
    greedy: bool
    exact: bool
    rows: int
    kv_len: int


@dataclass(frozen=True, slots=True)
class Drafts:
    """tokens int64 `[B, T - 1]`, of which the first `count` int64 `[B]` are proposed. ids int64, probability fp32
    `[B, T - 1, K]`: what each was drawn from, zero elsewhere; None where a draft is the only one possible."""

    tokens: torch.Tensor
    count: torch.Tensor
    ids: torch.Tensor | None = None
    probability: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """A request that got a slot. first: row of the last prompt token; chosen: output tokens that are part of the prompt
    since a restart; guess: tokens of the answer as somebody presumes it, without the one that ends it; features: image
    tokens `[N, D]` of each image; stop_id: a token that ends the answer."""

    slot: int
    first: int
    chosen: int = 0
    guess: tuple[int, ...] | None = None
    features: tuple[torch.Tensor, ...] = ()
    stop_id: int | None = None


class Source(Protocol):
    """Drafts for every slot at once. Its tensors live on the target's device."""

    name: str
    prior: float
    """The share of its drafts that is presumed to hold before anything is known."""
    taps: tuple[int, ...]
    """Layers of the target whose outputs it wants of every committed row; () for none."""

    def allocate(self, slots: int, max_len: int, device: torch.device) -> None:
        """State for so many slots (the dummy included) of so many rows; the old one is gone."""

    def bytes_per_slot(self, max_len: int) -> int:
        """Memory of one slot."""

    def admit(self, admissions: list[Admission]) -> None:
        """These slots have new owners."""

    def propose(self, seen: Seen) -> Drafts:
        """Drafts for a step."""

    def extend(
        self,
        features: torch.Tensor,
        position: torch.Tensor,
        slots: torch.Tensor,
        start: torch.Tensor,
        count: torch.Tensor,
    ) -> None:
        """The target committed the first `count` `[B]` of these rows, `start` `[B]` being the index of the first.

        features `[B, T, taps * D]`: outputs of the tapped layers side by side; position int64 `[B, T]`: rotary
        positions by `drafter_position`. Called of sources with taps alone.
        """


def drafter_position(positions: torch.Tensor) -> torch.Tensor:
    """A drafter's rotary positions `[...]` of the target's `[3, ...]`: its own in text, where the three are one; the
    furthest axis in an image, along a line its column, and text goes on from there."""
    return positions.amax(dim=0)
