"""Random numbers for drafts: each a function of seed, position and token, whatever shares the batch."""

from dataclasses import dataclass

import torch

from ocria.ops.fixed import gumbel
from ocria.ops.philox import SAMPLE, philox

_MASK = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Draws:
    """How drafts are drawn. temperature fp32 `[B]`, 0 for the likeliest; seed int64 `[B]`; position int64 `[B, n]` of
    the rows before the drafts.

    stream: `SAMPLE` draws with the very noise of `ocria.ops.sample`, so that a draft from nearly the target's
    distribution is nearly always the token that the target draws. Where drafts are accepted by comparing probabilities
    (`ocria.ops.verify`) take `DRAFT`, and `window_keys` of the positions.
    """

    temperature: torch.Tensor
    seed: torch.Tensor
    position: torch.Tensor
    stream: int = SAMPLE

    def noise(self, ids: torch.Tensor) -> torch.Tensor:
        """Gumbel noise fp32 `[B, n, K]` of tokens `[B, n, K]`."""
        return gumbel_at(self.seed[:, None, None], self.position[:, :, None], ids, self.stream)


def gumbel_at(seed: torch.Tensor, position: torch.Tensor, ids: torch.Tensor, stream: int = SAMPLE) -> torch.Tensor:
    """Standard Gumbel noise fp32 of tokens `ids`, int64 tensors that broadcast to its shape.

    That of `ocria.ops.philox.gumbel_noise`: column `ids` of the row for seed and position.
    """
    seed, position = seed.expand_as(ids), position.expand_as(ids)
    counter = (ids >> 2, position & _MASK, position >> 32 & _MASK, torch.full_like(ids, stream))
    words = torch.stack(philox((seed & _MASK, seed >> 32 & _MASK), counter), dim=-1)
    return gumbel(words.gather(-1, (ids & 3)[..., None])[..., 0])


def choose(scores: torch.Tensor, temperature: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """An index by the Gumbel-max trick, int64 `[...]`, and the distribution it is from, fp32 `[..., K]`.

    scores, noise fp32 `[..., K]`; temperature fp32 broadcasts to `[...]`. At 0 the first of the highest scores is taken
    and has all probability.
    """
    sampled = (temperature > 0)[..., None]
    tempered = scores / torch.where(sampled, temperature[..., None], 1.0)
    index = torch.where(sampled, tempered + noise, scores).argmax(dim=-1)
    certain = torch.arange(scores.shape[-1], device=scores.device) == index[..., None]
    return index, torch.where(sampled, tempered.softmax(dim=-1), certain.float())
