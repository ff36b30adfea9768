"""What a drafter is trained on: each row's own token, and for DFlash2 the selector's choice among candidates."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from ocria.spec.dflash import DFlash, Target
from ocria.spec.dflash2 import DFlash2
from ocria.train.drafter.blocks import IGNORED


@dataclass(frozen=True, slots=True)
class Losses:
    """Nats a row, weighted means over the rows that have a label. selector is 0 for DFlash."""

    unary: torch.Tensor
    selector: torch.Tensor

    @property
    def total(self) -> torch.Tensor:
        return self.unary + self.selector


def row_weights(labels: torch.Tensor, gamma: float) -> torch.Tensor:
    """Labels `[..., n]` -> fp32 weights that sum to 1: exp(-i / gamma) for row i from 0, as a draft counts only if all
    before it hold; 0 where the label is IGNORED."""
    weight = torch.exp(-torch.arange(labels.shape[-1], device=labels.device) / gamma)
    weight = weight * (labels != IGNORED)
    return weight / weight.sum()


def losses(
    drafter: DFlash, target: Target, hidden: torch.Tensor, anchor: torch.Tensor, labels: torch.Tensor, gamma: float
) -> Losses:
    """hidden `[N, n, H]` as `draft` gives it, anchor int64 `[N]`, labels int64 `[N, n]`."""
    weight = row_weights(labels, gamma)
    logits = drafter.capped(target.logits(hidden))
    unary = (weight * cross_entropy(logits, labels)).sum()
    if not isinstance(drafter, DFlash2):
        return Losses(unary, torch.zeros_like(unary))
    selector = drafter.candidate_selector
    ids, place = candidates(logits.detach(), labels, selector.top_k)
    before = torch.cat([anchor[:, None], labels[:, :-1]], dim=1).clamp(min=0)
    scores = logits.gather(2, ids) + successors(selector, hidden, before, ids)
    return Losses(unary, (weight * cross_entropy(scores, place)).sum())


def candidates(logits: torch.Tensor, labels: torch.Tensor, top_k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The K likeliest tokens int64 `[N, n, K]` of logits `[N, n, V]`, and the place of each label among them, or
    IGNORED. A label that is missing takes the last place, so that the selector learns from every row."""
    ids = logits.topk(top_k, dim=-1).indices
    equal = ids == labels[..., None]
    missing = ~equal.any(dim=-1) & (labels != IGNORED)
    ids[..., -1] = torch.where(missing, labels, ids[..., -1])
    place = torch.where(missing, top_k - 1, equal.int().argmax(dim=-1))
    return ids, place.masked_fill(labels == IGNORED, IGNORED)


def successors(selector, hidden: torch.Tensor, before: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """What the selector adds to candidates `[N, n, K]` behind the tokens `before` `[N, n]`: fp32 `[N, n, K]`."""
    first = F.embedding(before, selector.predecessor_codebook).float()
    second = F.embedding(ids, selector.successor_codebook).float()
    return ((first * selector.hidden_projection(hidden).float())[:, :, None] * second).sum(-1)


def cross_entropy(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """scores `[..., K]`, labels `[...]` -> `[...]`, 0 where IGNORED."""
    flat = F.cross_entropy(scores.flatten(0, -2).float(), labels.flatten(), ignore_index=IGNORED, reduction="none")
    return flat.view(labels.shape)
