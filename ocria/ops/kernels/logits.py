"""What kernels do with one row of logits, chunk by chunk: a vocabulary does not fit a program.

Searches need the maximum of every chunk, `highest`, and leave out the chunks that do not reach what they look for: of
a peaked distribution nearly all.
"""

import triton
import triton.language as tl

from ocria.ops.kernels.fixed import weight

CHUNK = 2048
WARPS = 8
"""Of a program that holds a chunk."""
_INF = tl.constexpr(float("inf"))
_BIG = tl.constexpr(2**31 - 1)


@triton.jit
def summary(logits, chunk, V, CHUNK: tl.constexpr):
    """A chunk of a row as fp32 (-inf behind the end), its ids, its maximum and the sum of exp over that; the sum is NaN
    where a logit is not finite."""
    column = chunk * CHUNK + tl.arange(0, CHUNK)
    inside = column < V
    x = tl.load(logits + column, inside, -_INF).to(tl.float32)
    highest = tl.max(x)
    total = tl.sum(tl.where(inside, tl.exp(x - highest), 0.0))
    # Comparisons with NaN are false, so this counts whatever is not a finite number.
    strange = tl.sum((inside & ~(tl.abs(x) < _INF)).to(tl.int32))
    return x, column, highest, tl.where(strange > 0, float("nan"), total)


@triton.jit
def tempered(logits, chunk, t, V, CHUNK: tl.constexpr):
    """A chunk of a row's logits over the temperature, -inf behind the end, and the ids."""
    column = chunk * CHUNK + tl.arange(0, CHUNK)
    x = tl.load(logits + column, column < V, -_INF).to(tl.float32)
    return tl.div_rn(x, t), column


@triton.jit
def weight_of_chunk(logits, highest, chunk, t, V, CHUNKS, CHUNK: tl.constexpr, BLOCK_C: tl.constexpr):
    """What a chunk of a row's tempered logits weighs; `highest` has those of all chunks."""
    c = tl.arange(0, BLOCK_C)
    top = tl.div_rn(tl.max(tl.load(highest + c, c < CHUNKS, -_INF)), t)
    y, _ = tempered(logits, chunk, t, V, CHUNK)
    return tl.sum(weight(top - y))


@triton.jit
def best(key, column, inside):
    """The largest key among `inside`, and the lowest id that has it."""
    most = tl.max(tl.where(inside, key, -_INF))
    return most, tl.min(tl.where(inside & (key == most), column, _BIG))


@triton.jit
def weight_from(logits, highest, floor, top, t, V, CHUNKS, CHUNK: tl.constexpr):
    """What the tempered logits of a row weigh that reach `floor`; `top` is the largest."""
    total = tl.cast(0, tl.int64)
    for chunk in range(CHUNKS):
        if tl.div_rn(tl.load(highest + chunk), t) >= floor:
            y, column = tempered(logits, chunk, t, V, CHUNK)
            total += tl.sum(tl.where((y >= floor) & (column < V), weight(top - y), 0))
    return total


@triton.jit
def lowest(
    logits, highest, top, limit, t, V, CHUNKS, WEIGHED: tl.constexpr, CHUNK: tl.constexpr, BLOCK_C: tl.constexpr
):  # fmt: skip
    """What exactly those tempered logits of a row reach that have less than `limit`, fp64, above them: in number or in
    weight. It is the lowest of them, or -inf where that is all; the largest, `top`, is always one.

    Halves the values between the lowest known to have less and the lowest not known not to, both of them logits, so
    that it takes about as many rounds as the number of logits between has bits.
    """
    c = tl.arange(0, BLOCK_C)
    peaks = tl.div_rn(tl.load(highest + c, c < CHUNKS, -_INF), t)
    kept, after = top, tl.cast(-_INF, tl.float32)
    step = tl.cast(1.0, tl.float32)
    while kept > after:
        middle = 0.5 * after + 0.5 * kept
        pivot = tl.where(after > -_INF, tl.where(middle < kept, middle, after), kept - step)
        step *= 2
        above, over, under = _split(logits, highest, pivot, top, t, V, CHUNKS, WEIGHED, CHUNK)
        under = tl.maximum(under, tl.max(tl.where(peaks > pivot, -_INF, peaks)))
        fewer = above.to(tl.float64) < limit
        kept = tl.where(fewer, under, kept)
        after = tl.where(fewer, after, over)
    return kept


@triton.jit
def _split(logits, highest, pivot, top, t, V, CHUNKS, WEIGHED: tl.constexpr, CHUNK: tl.constexpr):
    """Of the tempered logits of a row above `pivot`: their number or weight, and the lowest. Of the others in chunks
    that reach higher: the largest."""
    total = tl.cast(0, tl.int64)
    over, under = tl.cast(_INF, tl.float32), tl.cast(-_INF, tl.float32)
    for chunk in range(CHUNKS):
        if tl.div_rn(tl.load(highest + chunk), t) > pivot:
            y, _ = tempered(logits, chunk, t, V, CHUNK)
            high = y > pivot
            if WEIGHED:
                total += tl.sum(tl.where(high, weight(top - y), 0))
            else:
                total += tl.sum(high.to(tl.int64))
            over = tl.minimum(over, tl.min(tl.where(high, y, _INF)))
            under = tl.maximum(under, tl.max(tl.where(high, -_INF, y)))
    return total, over, under
