"""The functions of `ocria.ops.fixed` and `ocria.ops.philox` for kernels: the same bits, in unsigned 32-bit numbers."""

import triton
import triton.language as tl

from ocria.ops import fixed

_LOG2 = tl.constexpr(fixed.LOG2)
_EXP2 = tl.constexpr(fixed.EXP2)
_GAP = tl.constexpr(fixed.GAP)
_LOG2_DEGREE = tl.constexpr(len(fixed.LOG2) - 1)
_EXP2_DEGREE = tl.constexpr(len(fixed.EXP2) - 1)
_GAP_DEGREE = tl.constexpr(len(fixed.GAP) - 1)
_LN2 = tl.constexpr(fixed.LN2)
_LOG2E = tl.constexpr(fixed.LOG2E)
_LN_SCALE = tl.constexpr(fixed.LN_SCALE)
_BITS = tl.constexpr(fixed.GUMBEL_BITS)
_UNIT = tl.constexpr(2.0**-fixed.GUMBEL_BITS)
_FAR = tl.constexpr(33 << fixed.GUMBEL_BITS)
_WHOLE = tl.constexpr(32 << fixed.GUMBEL_BITS)
_WEIGHT_SHIFT = tl.constexpr(fixed.WEIGHT_BITS - 31)
_FARTHEST = tl.constexpr(fixed.FARTHEST)


@triton.jit
def gumbel(word):
    """Gumbel noise fp32 of uniform words uint32: `ocria.ops.fixed.gumbel`."""
    small = word < 0x80000000
    m = 2 * tl.where(small, word, word ^ 0xFFFFFFFF) + 1
    x = m ^ 1  # m is odd, factors are even
    minus_ln = tl.umulhi(tl.zeros_like(m) + _FAR - _log2(m), _LN2)
    below = (minus_ln - (tl.umulhi(_polynomial(x, _GAP, _GAP_DEGREE, False), x) >> (31 - _BITS))).to(tl.int32)
    above = (tl.zeros_like(m) + _LN_SCALE - tl.umulhi(_log2(minus_ln), _LN2)).to(tl.int32)
    return tl.where(small, below, above).to(tl.float32) * _UNIT


@triton.jit
def weight(distance):
    """exp(-distance) in Q40, int64, of fp32: `ocria.ops.fixed.weight`."""
    scaled = (tl.minimum(distance, _FARTHEST) * 67108864.0).to(tl.uint32)
    turns = tl.umulhi(scaled, _LOG2E)
    f = (turns & 0x1FFFFFF) << 7
    power = 0x80000000 - tl.umulhi(_polynomial(f, _EXP2, _EXP2_DEGREE, True), f)
    return (power.to(tl.int64) << _WEIGHT_SHIFT) >> (turns >> 25).to(tl.int64)


@triton.jit
def log_share(word):
    """ln(word / 2^32) fp32 of words uint32 from 1 on: `ocria.ops.fixed.log_share`."""
    minus = tl.umulhi(tl.zeros_like(word) + _WHOLE - _log2(word), _LN2)
    return -(minus.to(tl.float32) * _UNIT)


@triton.jit
def noise(seed, position, first, SIZE: tl.constexpr, STREAM: tl.constexpr = 0):
    """Gumbel noise fp32 `[SIZE]` of the columns from `first` on, both multiples of 4: `philox.gumbel_noise`."""
    lane = (first // 4 + tl.arange(0, SIZE // 4)).to(tl.uint32)
    zero = tl.zeros_like(lane)
    w0, w1, w2, w3 = tl.philox(seed, lane, zero + _low(position), zero + _low(position >> 32), zero + STREAM)
    return gumbel(tl.interleave(tl.interleave(w0, w2), tl.interleave(w1, w3)))


@triton.jit
def uniform(seed, position, STREAM: tl.constexpr):
    """fp64 between 0 and 1 for a seed and a block of positions: `philox.uniform`."""
    low = _low(position)
    zero = tl.zeros_like(low)
    word, _, _, _ = tl.philox(seed, zero, low, _low(position >> 32), zero + STREAM)
    return (word.to(tl.float64) + 0.5) * 2.0**-32


@triton.jit
def _low(x):
    return (x & 0xFFFFFFFF).to(tl.uint32)


@triton.jit
def _log2(x):
    exponent = ((x ^ (x & (x >> 1))).to(tl.float32).to(tl.uint32, bitcast=True) >> 23) - 127
    f = (x << (31 - exponent)) << 1
    return (exponent << _BITS) + (tl.umulhi(_polynomial(f, _LOG2, _LOG2_DEGREE, True), f) >> (31 - _BITS))


@triton.jit
def _polynomial(x, COEFFICIENTS: tl.constexpr, DEGREE: tl.constexpr, ALTERNATING: tl.constexpr):
    # Constants are added to tensors, not tensors to constants: the interpreter takes only the former for a tensor.
    zero = tl.zeros_like(x)
    value = zero + COEFFICIENTS[DEGREE]
    for i in tl.static_range(DEGREE):
        coefficient = zero + COEFFICIENTS[DEGREE - 1 - i]
        value = tl.umulhi(value, x)
        value = coefficient - value if ALTERNATING else coefficient + value
    return value
