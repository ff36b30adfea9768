"""Counter-based random numbers: Philox4x32-10.

A number is a function of its key and counter alone, so a request draws the same whatever shares its batch, and a
replayed step draws again what it drew before. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
as 1, 2, 3", SC 2011.
"""

import torch

from ocria.ops.fixed import gumbel

_MASK = 0xFFFFFFFF
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10

SAMPLE, DRAFT, ACCEPT, RESIDUAL = range(4)
"""Streams: of the same seed and position each has numbers of its own. For the draws of `ocria.ops.sample`; for drafts,
whether they are taken and what comes instead, where that is decided by probabilities (`ocria.ops.verify`)."""

Words = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def philox(key: tuple[torch.Tensor, torch.Tensor], counter: Words) -> Words:
    """Four 32-bit words for a key of two and a counter of four; int64 tensors that broadcast, values below 2^32."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(_ROUNDS):
        (high0, low0), (high1, low1) = _product(c0, _MULTIPLIERS[0]), _product(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + _WEYL[0] & _MASK, k1 + _WEYL[1] & _MASK
    return c0, c1, c2, c3


def gumbel_noise(seed: torch.Tensor, position: torch.Tensor, size: int, stream: int = SAMPLE) -> torch.Tensor:
    """Independent standard Gumbel noise fp32 `[R, size]` for int64 seeds and positions `[R]`.

    Column i is word i % 4 of the counter (i // 4, position, stream) under the key `seed`; seed and position are 64 bits
    wide, low word first.
    """
    # Masked, since Inductor takes products of a bare arange for index arithmetic, which overflows in 32 bits.
    lane = torch.arange((size + 3) // 4, device=seed.device) & _MASK
    seed, position = seed[:, None], position[:, None]
    counter = (lane, position & _MASK, position >> 32 & _MASK, torch.full_like(position, stream))
    words = torch.stack(philox((seed & _MASK, seed >> 32 & _MASK), counter), dim=-1)
    return gumbel(words.flatten(1)[:, :size])


def uniform(seed: torch.Tensor, position: torch.Tensor, stream: int) -> torch.Tensor:
    """Independent numbers fp64 between 0 and 1, both excluded, for int64 seeds and positions that broadcast: the middle
    of the 2^-32 that word 0 of the counter (0, position, stream) names."""
    seed, position = torch.broadcast_tensors(seed, position)
    counter = (torch.zeros_like(position), position & _MASK, position >> 32 & _MASK, torch.full_like(position, stream))
    word = philox((seed & _MASK, seed >> 32 & _MASK), counter)[0]
    return (word.double() + 0.5) * 2.0**-32


def window_keys(position: torch.Tensor) -> torch.Tensor:
    """Positions for noise that is drawn once, in this window alone: int64 `[B, n]` for those, below 2^32, of the rows
    0 .. n - 1 of a window.

    A position comes again in the next window when a draft before it was refused. Noise that took part in that decision,
    or whose draft did, is no longer random then: block verification looks at all drafts of a window. Two windows of a
    request start at different positions, so the pair of a position and its row never comes again.
    """
    row = torch.arange(position.shape[1], device=position.device) & _MASK  # masked as in `gumbel_noise`
    return position + (row << 32)


def _product(a: torch.Tensor, odd: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Upper and lower 32 bits of the product with an odd number, without overflow of int64."""
    half = a * (odd >> 1)
    low = ((half & 0x7FFFFFFF) << 1) + a
    return (half >> 31) + (low >> 32), low & _MASK
