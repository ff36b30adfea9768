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
        (high0, low0), (high1, low1) = _product(c0, _MULTIPLIERS[0]), _product(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + _WEYL[0] & _MASK, k1 + _WEYL[1] & _MASK
    return c0, c1, c2, c3


def gumbel_noise(seed: torch.Tensor, position: torch.Tensor, size: int) -> torch.Tensor:
    """Independent standard Gumbel noise fp32 `[R, size]` for int64 seeds and positions `[R]`.

    Column i is word i % 4 of the counter (i // 4, position, 0) under the key `seed`, both 64 bits wide, low word first.
    """
    # Masked, since Inductor takes products of a bare arange for index arithmetic, which overflows in 32 bits.
    lane = torch.arange((size + 3) // 4, device=seed.device) & _MASK
    seed, position = seed[:, None], position[:, None]
    counter = (lane, position & _MASK, position >> 32 & _MASK, torch.zeros_like(position))
    words = torch.stack(philox((seed & _MASK, seed >> 32 & _MASK), counter), dim=-1)
    return gumbel(words.flatten(1)[:, :size])


def _product(a: torch.Tensor, odd: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Upper and lower 32 bits of the product with an odd number, without overflow of int64."""
    half = a * (odd >> 1)
    low = ((half & 0x7FFFFFFF) << 1) + a
    return (half >> 31) + (low >> 32), low & _MASK
