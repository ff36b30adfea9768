"""How far a model has moved: its distributions over known answers, against those that it had before."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch

KEPT = 1024
"""Likeliest tokens that are kept of each distribution; all others count as one. The divergence of what is kept so is
never more than the true one, and the same where the vocabulary is not larger."""
_ROWS = 64  # in fp64 at a time


@dataclass(frozen=True, slots=True)
class Divergence:
    """kl: KL divergence of the new distributions from the old ones in nats, mean over the tokens of all answers.
    changed: share of the tokens, in [0, 1], whose likeliest choice is another one."""

    kl: float
    changed: float
    tokens: int

    @property
    def agreement(self) -> float:
        """Share of the tokens whose likeliest choice is the same."""
        return 1.0 - self.changed

    def to_dict(self) -> dict[str, float | int]:
        return asdict(self)


NONE = Divergence(0.0, 0.0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """Of N distributions: logarithms of the largest probabilities `[N, K]` with their tokens, largest first, and of the
    rest `[N]`, all fp64."""

    top: torch.Tensor
    tokens: torch.Tensor
    rest: torch.Tensor


class Reference:
    """What a model says of its own answers. passes: number -> logits fp32 `[N, V]` (`Passes`), of so many answers."""

    def __init__(self, passes: Callable[[int], torch.Tensor], count: int, kept: int = KEPT):
        self._passes = passes
        self._kept = [[_keep(rows, kept) for rows in passes(index).split(_ROWS)] for index in range(count)]

    def compare(
        self,
        on_pass: Callable[[int, int], None] | None = None,
        passes: Callable[[int], torch.Tensor] | None = None,
    ) -> Divergence:
        """The same passes again, whatever has become of the model; or those of another model over the same answers."""
        kl, changed, tokens = 0.0, 0, 0
        passes = passes or self._passes
        for index, held in enumerate(self._kept):
            for old, rows in zip(held, passes(index).split(_ROWS), strict=True):
                new = rows.double().log_softmax(-1)
                at = new.gather(1, old.tokens)
                kl += (old.top.exp() * (old.top - at)).sum().item()
                if old.tokens.shape[1] < new.shape[1]:
                    rest = new.scatter(1, old.tokens, -torch.inf).logsumexp(1)
                    share = old.rest.exp()
                    kl += torch.where(share > 0, share * (old.rest - rest), 0.0).sum().item()
                changed += int((new.argmax(-1) != old.tokens[:, 0]).sum())
                tokens += len(rows)
            if on_pass is not None:
                on_pass(index + 1, len(self._kept))
        return Divergence(max(0.0, kl / tokens), changed / tokens, tokens)


def _keep(rows: torch.Tensor, kept: int) -> _Kept:
    values = rows.double().log_softmax(-1)
    top, tokens = values.topk(min(kept, values.shape[1]), -1)
    rest = values.scatter(1, tokens, -torch.inf).logsumexp(1)
    first = values.argmax(-1, keepdim=True)
    if not torch.equal(first[:, 0], tokens[:, 0]):  # equal probabilities: the choice is that of argmax
        tokens = torch.where(tokens == first, tokens[:, :1], tokens)
        tokens[:, :1] = first
    return _Kept(top, tokens, rest)
