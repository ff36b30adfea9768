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

Words = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def philox(key: tuple[torch.Tensor, torch.Tensor], counter: Words) -> Words:
    """Four 32-bit words for a key of two and a counter of four; int64 tensors that broadcast, values below 2^32."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(_ROUNDS):
        # int64 products wrap, which leaves all 64 bits of the unsigned product in place.
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (second >> 32 & _MASK) ^ c1 ^ k0,
            second & _MASK,
            (first >> 32 & _MASK) ^ c3 ^ k1,
            first & _MASK,
        )
        k0, k1 = k0 + _WEYL[0] & _MASK, k1 + _WEYL[1] & _MASK
    return c0, c1, c2, c3


def gumbel_noise(seed: torch.Tensor, position: torch.Tensor, size: int) -> torch.Tensor:
    """Independent standard Gumbel noise fp32 `[R, size]` for int64 seeds and positions `[R]`.

    Column i is word i % 4 of the counter (i // 4, position, 0) under the key `seed`, both 64 bits wide, low word first.
    """
    lane = torch.arange((size + 3) // 4, device=seed.device)
    seed, position = seed[:, None], position[:, None]
    counter = (lane, position & _MASK, position >> 32 & _MASK, torch.zeros_like(position))
    words = torch.stack(philox((seed & _MASK, seed >> 32 & _MASK), counter), dim=-1)
    return gumbel(words.flatten(1)[:, :size])
