"""Which lines of a batch are worth a step: a trained reader has nothing left to learn from most of them."""

import torch
import torch.nn.functional as F

from ocria.train import vocabulary as V
from ocria.train.batches import Batch
from ocria.train.learner import Learner

UNREADABLE = 2.5  # nats a character; beyond that even the truth is a guess


@torch.no_grad()
def line_losses(learner: Learner, batch: Batch) -> torch.Tensor:
    """The CTC head's loss of every line in nats a character, fp32 `[B]`: an encoder pass, a tenth of a step."""
    log_probs = learner.ctc_logits(learner.encode(torch.from_numpy(batch.images))).log_softmax(-1).transpose(0, 1)
    labels = [V.ctc_labels(text) for text in batch.texts]
    lengths = torch.tensor([len(label) for label in labels])
    frames = torch.full((len(labels),), log_probs.shape[0])
    targets = torch.tensor([x for label in labels for x in label])
    losses = F.ctc_loss(log_probs, targets, frames, lengths, V.CTC_BLANK, reduction="none", zero_infinity=True)
    return losses / lengths


def hardest(learner: Learner, batch: Batch, share: int, generator: torch.Generator) -> Batch:
    """One in `share` of the lines: half of them those of the greatest loss that can be read at all, half drawn from
    the rest, so that what is read well stays known."""
    keep = max(1, len(batch.texts) // share)
    if keep == len(batch.texts):
        return batch
    losses = line_losses(learner, batch)
    order = torch.where(losses < UNREADABLE, losses, -1.0).argsort(descending=True)
    hard, rest = order[: (keep + 1) // 2], order[(keep + 1) // 2 :]
    drawn = rest[torch.randperm(len(rest), generator=generator)[: keep - len(hard)]]
    chosen = torch.cat([hard, drawn]).tolist()
    return Batch(batch.images[chosen], [batch.texts[i] for i in chosen])
