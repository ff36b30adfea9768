"""Logarithms and exponentials in 32-bit fixed point, for numbers that must be the same everywhere.

`exp` and `log` differ in their last bits between processors, libraries and compilers, and a fused multiply-add changes
sums of products. What decides which token is drawn is therefore computed in integers: torch, the Triton kernels and
any compiler agree bit for bit. The Triton twins, in `ocria.ops.kernels.fixed`, use the polynomials of this file.

Qn stands for integers in units of 2^-n. All values are int64 tensors that hold 32-bit numbers unless said.
"""

import math

import torch

_MASK = 0xFFFFFFFF

LOG2 = (
    3098163993, 1549078679, 1032609095, 773041995, 609200486, 473079330, 326658758, 174654698, 60545955, 9839946,
)  # fmt: skip
"""log2(1 + f) / f on [0, 1] in Q31, signs alternating from +; interpolated at Chebyshev points, error below 1e-8."""
EXP2 = (1488522224, 515881603, 119183688, 20609476, 2773769, 246789)
"""(1 - 2^-f) / f on [0, 1] in Q31, signs alternating from +; error below 1e-8."""
GAP = (536871905, 111829004, 33662760, 11505593, 4253731, 2667402, 0, 0, 651304)
"""ln(-2 ln(1 - x / 2) / x) / x on [0, 1] in Q31, all signs +; non-negative least squares, error below 2e-8."""
LN2 = 2 * round(math.log(2) * 2**31)
"""In Q32; even, as `_high` wants it."""
LOG2E = 2 * round(math.log2(math.e) * 2**30)
"""In Q31; even."""
GUMBEL_BITS = 26
"""Noise is computed in Q26: its range of -3.2 to 22.9 fits 32 bits with sign."""
LN_SCALE = round(GUMBEL_BITS * math.log(2) * 2**GUMBEL_BITS)
"""ln(2^26) in Q26."""
WEIGHT_BITS = 40
"""Weights are in Q40: the sum of 2^22 of them fits 63 bits, and half a million of the smallest are 5e-7."""
FARTHEST = 31.0
"""Weights of anything farther from the maximum are those of this distance: 0."""


def gumbel(word: torch.Tensor) -> torch.Tensor:
    """Standard Gumbel noise, fp32, of uniform 32-bit words: -ln(-ln(1 - v)) at v = (word + 1/2) / 2^32.

    v lies strictly between 0 and 1, so every value is finite: from -3.14 to 22.88. Absolute error below 1e-7 before
    rounding to fp32. It grows with -v: the largest noise comes from the smallest words, where words are densest.
    """
    small = word < 2**31
    m = 2 * torch.where(small, word, word ^ _MASK) + 1  # in Q33: v below 1/2, else 1 - v
    minus_ln = _high(33 * 2**GUMBEL_BITS - _log2(m), LN2)
    below = minus_ln - (_high(_rising(m, GAP), m) >> 31 - GUMBEL_BITS)
    above = LN_SCALE - _high(_log2(minus_ln), LN2)
    return torch.where(small, below, above).float() * 2.0**-GUMBEL_BITS


def weight(distance: torch.Tensor) -> torch.Tensor:
    """exp(-distance) in Q40 as int64; fp32 distance of 0 or more. Relative error below 4e-8, absolute below 2^-40."""
    scaled = (distance.clamp(max=FARTHEST) * 2.0**26).long()
    turns = _high(scaled, LOG2E)  # in Q25
    f = (turns & 2**25 - 1) << 7
    power = 2**31 - _high(_alternating(f, EXP2), f)
    return power << WEIGHT_BITS - 31 >> (turns >> 25)


def log_share(word: torch.Tensor) -> torch.Tensor:
    """ln(word / 2^32), fp32, of words from 1 on. Absolute error below 3e-8 before rounding to fp32."""
    return -_high(32 * 2**GUMBEL_BITS - _log2(word), LN2).float() * 2.0**-GUMBEL_BITS


def _log2(x: torch.Tensor) -> torch.Tensor:
    """log2 in Q26 of integers from 1 to 2^32 - 1."""
    # Without the bit below the leading one, rounding to fp32 cannot reach the next power of two.
    exponent = ((x & ~(x >> 1)).float().view(torch.int32).long() >> 23) - 127
    f = x << (32 - exponent) & _MASK
    return (exponent << GUMBEL_BITS) + (_high(_alternating(f, LOG2), f) >> 31 - GUMBEL_BITS)


def _alternating(x: torch.Tensor, coefficients: tuple[int, ...]) -> torch.Tensor:
    value = torch.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = coefficient - _high(value, x)
    return value


def _rising(x: torch.Tensor, coefficients: tuple[int, ...]) -> torch.Tensor:
    value = torch.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = coefficient + _high(value, x)
    return value


def _high(a: torch.Tensor, b: torch.Tensor | int) -> torch.Tensor:
    """The upper 32 bits of the 64-bit product of a and b without its last bit.

    That bit is left out so that no product overflows int64: C++ compilers build on that never happening.
    """
    return a * (b >> 1) >> 31
