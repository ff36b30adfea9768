"""DFlash and DFlash2 as a source of drafts: one pass of a small network for a block of drafts of every slot."""

import torch

from ocria.spec.arena import DraftState
from ocria.spec.dflash import DFlash, Target
from ocria.spec.draws import Draws
from ocria.spec.source import Admission, Drafts, Seen

DRAFT_STREAM = 1
"""Of the noise of drafts whose probabilities are compared with the target's."""


class NetworkDrafts:
    """A block drafter behind `target`, whose embeddings and head it borrows."""

    prior = 0.8

    def __init__(self, network: DFlash, target: Target):
        self.network, self.target, self.config = network, target, network.config
        self.name = "dflash2" if self.config.version == 2 else "dflash"
        self.taps = self.config.target_layer_ids
        self.state: DraftState | None = None
        network.prepare()

    def allocate(self, slots: int, max_len: int, device: torch.device) -> None:
        self.state = None
        self.state = DraftState.allocate(self.config, slots, max_len, self.network.dtype, device)

    def bytes_per_slot(self, max_len: int) -> int:
        return DraftState.bytes_per_slot(self.config, max_len, self.network.dtype)

    def admit(self, admissions: list[Admission]) -> None:
        self.state.reset(admission.slot for admission in admissions)

    def propose(self, seen: Seen) -> Drafts:
        """As many drafts as the step has room for, at most those of a block."""
        rows = min(seen.rows, self.config.block_size)
        hidden = self.network.draft(
            self.target, seen.anchor, seen.position, self.state, seen.slots, seen.length, seen.live, rows,
            seen.kv_len - 1 + rows, seen.first_slot,
        )  # fmt: skip
        draws = None
        if not seen.greedy:
            at = seen.length[:, None] + torch.arange(rows - 1, device=hidden.device)
            draws = Draws(seen.temperature, seen.seed, at, 0 if seen.exact else DRAFT_STREAM)
        made = self.network.propose(self.target, hidden, seen.anchor, draws)
        room = seen.rows - rows
        tokens = torch.nn.functional.pad(made.tokens, (0, room)) if room else made.tokens
        count = torch.full_like(seen.length, rows - 1)
        if made.probability is None or seen.exact:
            return Drafts(tokens, count)
        ids = made.ids
        if ids is None:
            ids = torch.arange(made.probability.shape[-1], device=hidden.device).expand(made.probability.shape)
        ids, probability = (torch.nn.functional.pad(part, (0, 0, 0, room)) for part in (ids, made.probability))
        return Drafts(tokens, count, ids, probability)

    def extend(
        self,
        features: torch.Tensor,
        position: torch.Tensor,
        slots: torch.Tensor,
        start: torch.Tensor,
        count: torch.Tensor,
    ) -> None:
        self.network.extend(features, position, self.state, slots, start, count)
