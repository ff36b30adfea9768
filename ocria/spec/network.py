"""DFlash and DFlash2 as a source of drafts: one pass of a small network for a block of drafts of every slot."""

import torch
import torch.nn.functional as F

from ocria.ops.philox import DRAFT, SAMPLE, window_keys
from ocria.spec.arena import DraftState
from ocria.spec.dflash import DFlash, Target
from ocria.spec.draws import Draws
from ocria.spec.source import Admission, Drafts, Seen

MOST_CANDIDATES = 64
"""Tokens that a draft is drawn from where its probability is compared with the target's."""


class NetworkDrafts:
    """A block drafter behind `target`, whose embeddings and head it borrows. inputs: as of `Preparable.prepare`."""

    prior = 0.8

    def __init__(self, network: DFlash, target: Target, inputs: bool = False):
        self.network, self.target, self.config = network, target, network.config
        self.name = "dflash2" if self.config.version == 2 else "dflash"
        self.taps = self.config.target_layer_ids
        self.state: DraftState | None = None
        network.prepare(inputs=inputs)

    def allocate(self, slots: int, max_len: int, device: torch.device) -> None:
        self.state = None
        self.state = DraftState.allocate(self.config, slots, max_len, self.network.dtype, device)

    def bytes_per_slot(self, max_len: int) -> int:
        return DraftState.bytes_per_slot(self.config, max_len, self.network.dtype)

    def admit(self, admissions: list[Admission]) -> None:
        self.state.reset(admission.slot for admission in admissions)

    def propose(self, seen: Seen) -> Drafts:
        """As many drafts as the step has room for, at most those of a block."""
        rows = self.config.block_size
        if self.config.any_block_size:
            rows = min(rows, seen.rows)
        hidden = self.network.draft(
            self.target, seen.anchor, seen.position, self.state, seen.slots, seen.length, seen.live, rows,
            seen.kv_len - 1 + rows, seen.first_slot,
        )[:, : seen.rows - 1]  # fmt: skip
        drafts = hidden.shape[1]
        room = (0, seen.rows - 1 - drafts)
        count = torch.full_like(seen.length, drafts)
        at = seen.length[:, None] + torch.arange(drafts, device=hidden.device)
        if seen.greedy or seen.exact:
            draws = None if seen.greedy else Draws(seen.temperature, seen.seed, at, SAMPLE)
            made = self.network.propose(self.target, hidden, seen.anchor, draws)
            return Drafts(F.pad(made.tokens, room), count)
        draws = Draws(seen.temperature, seen.seed, window_keys(at), DRAFT)
        made = self.network.propose(self.target, hidden, seen.anchor, draws, MOST_CANDIDATES)
        ids, probability = (F.pad(part, (0, 0, *room)) for part in (made.ids, made.probability))
        return Drafts(F.pad(made.tokens, room), count, ids, probability)

    def extend(
        self,
        features: torch.Tensor,
        position: torch.Tensor,
        slots: torch.Tensor,
        start: torch.Tensor,
        count: torch.Tensor,
    ) -> None:
        self.network.extend(features, position, self.state, slots, start, count)
