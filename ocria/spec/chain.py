"""Several sources of drafts, of which each request is served by the one that has lately served it best."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from ocria.model.prepared import Preparable
from ocria.ops.upload import upload
from ocria.spec.source import Admission, Drafts, Seen, Source

NONE = -1
"""Number of the source of a step without drafts."""
_PRESUMED = 8.0
"""How many drafts the prior of a source stands for."""
_KEPT = 0.85
"""What a step leaves of the counts before it: the last six or seven steps decide."""
_BEST = 0.995
"""No rate is taken for higher, so that a longer draft is always worth more."""


@dataclass(frozen=True, slots=True)
class Proposed:
    """The drafts of a step, and source int64 `[B]`: whose they are, by its number in the chain, or `NONE`."""

    drafts: Drafts
    source: torch.Tensor


@dataclass(frozen=True, slots=True)
class Verified:
    """What became of a step. slots, start (rows committed before it), drafted, accepted, committed, source int64
    `[B]`; ids int64 `[B, T]`: the tokens fed, kv_rows int64 `[B, T]`: slot * max_len + row of each, padding in the
    dummy; features `[B, T, taps * D]` and their rotary positions, int64 `[B, T]`, both None without taps."""

    slots: torch.Tensor
    start: torch.Tensor
    drafted: torch.Tensor
    accepted: torch.Tensor
    committed: torch.Tensor
    source: torch.Tensor
    ids: torch.Tensor
    kv_rows: torch.Tensor
    features: torch.Tensor | None
    position: torch.Tensor | None


class Chain:
    """The drafter of an engine: `sources` in order of preference, for steps of up to `rows` rows."""

    def __init__(self, sources: Sequence[Source], rows: int):
        self.sources, self.rows = tuple(sources), rows
        self.names = tuple(source.name for source in sources)
        self.taps = next((source.taps for source in sources if source.taps), ())
        self.history = self.first = self.priors = self.held = self.missed = None

    @property
    def has_network(self) -> bool:
        """Whether a network is among the sources, which steps can do without."""
        return bool(self.taps)

    def allocate(self, slots: int, max_len: int, device: torch.device) -> None:
        """State for so many slots, dummy included."""
        self.history = torch.zeros(slots, max_len, dtype=torch.int64, device=device)
        self.first = torch.zeros(slots, dtype=torch.int64, device=device)
        self.priors = torch.tensor([source.prior for source in self.sources], device=device)
        self.held, self.missed = (torch.zeros(slots, len(self.sources), device=device) for _ in range(2))
        for source in self.sources:
            source.allocate(slots, max_len, device)

    @property
    def has_text(self) -> bool:
        """Whether drafts come from texts too, at no cost."""
        return any(not source.taps for source in self.sources)

    @property
    def prior(self) -> float:
        """The share of drafts that is presumed to hold: that of the best source."""
        return max(source.prior for source in self.sources)

    @property
    def networks(self) -> list[Preparable]:
        """Those among the sources."""
        return [source.network for source in self.sources if source.taps]

    def bytes_per_slot(self, max_len: int) -> int:
        """Memory of one slot."""
        return max_len * torch.int64.itemsize + sum(source.bytes_per_slot(max_len) for source in self.sources)

    def admit(self, admissions: list[Admission]) -> None:
        """These slots have new owners."""
        if not admissions:
            return
        slots, first = upload([[a.slot, a.first] for a in admissions], self.first.device).unbind(1)
        self.first[slots] = first
        self.held[slots], self.missed[slots] = self.priors * _PRESUMED, (1 - self.priors) * _PRESUMED
        for source in self.sources:
            source.admit(admissions)

    def propose(self, seen: Seen, network: bool) -> Proposed:
        """The drafts of a step, per slot those of the source that promises most; `network`: also ask the network."""
        nothing = torch.zeros_like(seen.length)
        silent = Drafts(nothing[:, None].expand(-1, seen.rows - 1), nothing)
        offers = [silent if source.taps and not network else source.propose(seen) for source in self.sources]
        counts = torch.stack([offer.count for offer in offers], dim=1).masked_fill(~seen.live[:, None], 0)
        pick = nothing if len(offers) == 1 else self._promise(seen.slots, counts).argmax(dim=1)
        count = counts.gather(1, pick[:, None])[:, 0]
        return Proposed(_picked(offers, pick, count), pick.masked_fill(count < 1, NONE))

    def verified(self, result: Verified) -> None:
        """Learn from a step: tokens, rates, and features of the rows that were committed."""
        self.history.view(-1).index_copy_(0, result.kv_rows.flatten(), result.ids.flatten())
        if len(self.sources) > 1:
            self._learn(result)
        if result.features is not None:
            self.extend(result.features, result.position, result.slots, result.start, result.committed)

    def extend(self, features, position, slots, start, count) -> None:
        """Rows of a prompt or a step are committed (see `Source.extend`)."""
        for source in self.sources:
            if source.taps:
                source.extend(features, position, slots, start, count)

    def _promise(self, slots: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """How many of `counts` drafts `[B, S]` will hold: each holds at the rate of its source, after those before."""
        held, missed = (counted.index_select(0, slots) for counted in (self.held, self.missed))
        rate = (held / (held + missed)).clamp(max=_BEST)
        return rate * (1 - rate**counts) / (1 - rate)

    def _learn(self, result: Verified) -> None:
        number = torch.arange(len(self.sources), device=result.source.device)
        used = (result.source[:, None] == number) & (result.drafted > 0)[:, None]
        kept = torch.where(used, _KEPT, 1.0)
        missed = (result.accepted < result.drafted).long()
        for counted, new in ((self.held, result.accepted), (self.missed, missed)):
            before = counted.index_select(0, result.slots)
            counted.index_copy_(0, result.slots, before * kept + used * new[:, None])


def _picked(offers: list[Drafts], pick: torch.Tensor, count: torch.Tensor) -> Drafts:
    """Of each row the offer with the number `pick`."""
    if len(offers) == 1:
        (offer,) = offers
        return Drafts(offer.tokens, count, offer.ids, offer.probability)
    index = torch.arange(len(pick), device=pick.device)
    tokens = torch.stack([offer.tokens for offer in offers])[pick, index]
    widths = [offer.ids.shape[2] for offer in offers if offer.ids is not None]
    if not widths:
        return Drafts(tokens, count)
    spread = [_spread(offer, max(widths)) for offer in offers]
    ids, probability = (torch.stack(parts)[pick, index] for parts in zip(*spread, strict=True))
    return Drafts(tokens, count, ids, probability)


def _spread(offer: Drafts, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What drafts were drawn from, over `width` tokens each; a certain one has all probability on the first."""
    if offer.ids is not None:
        room = (0, width - offer.ids.shape[2])
        return F.pad(offer.ids, room), F.pad(offer.probability, room)
    ids = F.pad(offer.tokens[:, :, None], (0, width - 1))
    probability = torch.zeros(ids.shape, device=ids.device)
    probability[:, :, 0] = 1.0
    return ids, probability
