"""The kernels of `ocria.ops.sample`.

Two launches choose greedily: every chunk of a row on its own, then one program a row over the chunks. Sampling adds
noise to the first and one launch between them, the mass of each chunk, which top-p is measured against.

Filters are not applied, they are checked: the token with the largest noisy logit of all is the draw if the filters
keep it. They keep it when few enough tokens and little enough mass lie above it, which takes one pass over the chunks
that reach so high. If they do not keep it, they keep nothing that is not above it, and the best of what is above is
next. Each round halves what is above or better, in expectation, and the first is mostly the last. Only top-p after
top-k needs the k-th logit itself, for the mass it keeps; it is found by bisection over the bit patterns of fp32.
"""

import torch
import triton
import triton.language as tl

from ocria.errors import EngineError
from ocria.ops.kernels.aot import SHAPES_4B, AotVariant
from ocria.ops.kernels.fixed import noise, weight
from ocria.ops.register import wrap

CHUNK = 2048
_WARPS = 8
_INF = tl.constexpr(float("inf"))
_BIG = tl.constexpr(2**31 - 1)


@triton.jit
def chunk_kernel(
    logits, temperature, seed, position, out_highest, out_sum, out_key, out_id, stride, V, CHUNKS,
    SAMPLED: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Grid (R, chunks). Of each chunk: its maximum, the sum of exp over it, and the best (noisy) logit with its id."""
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = chunk * CHUNK + tl.arange(0, CHUNK)
    inside = column < V
    x = tl.load(logits + row * stride + column, inside, -_INF).to(tl.float32)
    highest = tl.max(x)
    total = tl.sum(tl.where(inside, tl.exp(x - highest), 0.0))
    # Comparisons with NaN are false, so this counts whatever is not a finite number.
    strange = tl.sum((inside & ~(tl.abs(x) < _INF)).to(tl.int32))
    key = x
    if SAMPLED:
        t = tl.load(temperature + row)
        if t > 0:
            key = tl.div_rn(x, t) + noise(tl.load(seed + row), tl.load(position + row), chunk * CHUNK, CHUNK)
    best, first = _best(key, column, inside)
    at = row * CHUNKS + chunk
    tl.store(out_highest + at, highest)
    tl.store(out_sum + at, tl.where(strange > 0, float("nan"), total))
    tl.store(out_key + at, best)
    tl.store(out_id + at, first)


@triton.jit
def mass_kernel(
    logits, temperature, top_k, top_p, highest, out_mass, stride, V, CHUNKS,
    CHUNK: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Grid (R, chunks). The weight of each chunk, for rows with top-p and without top-k."""
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    t, k = tl.load(temperature + row), tl.load(top_k + row)
    if (t > 0) & (tl.load(top_p + row) < 1) & ((k <= 0) | (k >= V)):
        c = tl.arange(0, BLOCK_C)
        top = tl.div_rn(tl.max(tl.load(highest + row * CHUNKS + c, c < CHUNKS, -_INF)), t)
        y, _ = _tempered(logits + row * stride, chunk, t, V, CHUNK)
        tl.store(out_mass + row * CHUNKS + chunk, tl.sum(weight(top - y)))


@triton.jit
def row_kernel(
    logits, temperature, top_k, top_p, seed, position, highest, sums, keys, ids, mass, out_token, out_probability,
    stride, V, CHUNKS, SAMPLED: tl.constexpr, CHUNK: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Grid (R,). The token of the row and its probability."""
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK_C)
    real = c < CHUNKS
    of_row = row * CHUNKS
    peaks = tl.load(highest + of_row + c, real, -_INF)
    peak = tl.max(peaks)
    total = tl.sum(tl.load(sums + of_row + c, real, 0.0) * tl.exp(peaks - peak))
    finite = total == total
    _, token = _best(tl.load(keys + of_row + c, real, -_INF), tl.load(ids + of_row + c, real, 0), real)
    token = tl.where(finite, token, 0)
    logits += row * stride
    if SAMPLED:
        t, k, p = tl.load(temperature + row), tl.load(top_k + row), tl.load(top_p + row)
        k = tl.where(k > 0, tl.minimum(k, V), V)
        checked = finite & (t > 0) & ((k < V) | (p < 1))
        if checked:
            draw, place = tl.load(seed + row), tl.load(position + row)
            highest += of_row
            top = tl.div_rn(peak, t)
            limit = tl.cast(_INF, tl.float64)
            if p < 1:
                if k < V:
                    floor = _kth(logits, highest, top, k, t, V, CHUNKS, CHUNK)
                    kept = _from(logits, highest, floor, top, t, V, CHUNKS, CHUNK, True)
                else:
                    kept = tl.sum(tl.load(mass + of_row + c, real, 0))
                limit = p.to(tl.float64) * kept.to(tl.float64)
            while checked:
                pivot = tl.div_rn(tl.load(logits + token).to(tl.float32), t)
                count, over, best = _above(logits, highest, pivot, top, draw, place, t, V, CHUNKS, CHUNK)
                checked = (count >= k) | ((count > 0) & (over.to(tl.float64) >= limit))
                token = tl.where(checked, best, token)
    tl.store(out_token + row, token.to(tl.int64))
    tl.store(out_probability + row, tl.exp(tl.load(logits + token).to(tl.float32) - peak) / total)


@triton.jit
def _above(logits, highest, pivot, top, seed, position, t, V, CHUNKS, CHUNK: tl.constexpr):
    """Of the tempered logits of a row above `pivot`: count, weight, and the id with the largest noisy one."""
    count, mass = tl.cast(0, tl.int64), tl.cast(0, tl.int64)
    key, token = tl.cast(-_INF, tl.float32), tl.cast(0, tl.int32)
    for chunk in range(CHUNKS):
        if tl.div_rn(tl.load(highest + chunk), t) > pivot:
            y, column = _tempered(logits, chunk, t, V, CHUNK)
            over = y > pivot
            count += tl.sum(over.to(tl.int64))
            mass += tl.sum(tl.where(over, weight(top - y), 0))
            best, first = _best(y + noise(seed, position, chunk * CHUNK, CHUNK), column, over)
            token = tl.where(best > key, first, token)
            key = tl.maximum(best, key)
    return count, mass, token


@triton.jit
def _kth(logits, highest, top, k, t, V, CHUNKS, CHUNK: tl.constexpr):
    """A number that exactly the k largest tempered logits of a row, and their equals, reach."""
    above = _image(top) + 1
    step = tl.cast(1.0, tl.float32)
    low = top - step
    count = _from(logits, highest, low, top, t, V, CHUNKS, CHUNK, False)
    while (count < k) & (low > -_INF):
        above = _image(low)
        step *= 2
        low = top - step
        count = _from(logits, highest, low, top, t, V, CHUNKS, CHUNK, False)
    reached = _image(low)
    while (above - reached > 1) & (count != k):
        middle = (reached + above) >> 1
        count = _from(logits, highest, _number(middle), top, t, V, CHUNKS, CHUNK, False)
        reached = tl.where(count >= k, middle, reached)
        above = tl.where(count >= k, above, middle)
    return _number(reached)


@triton.jit
def _from(logits, highest, floor, top, t, V, CHUNKS, CHUNK: tl.constexpr, WEIGHED: tl.constexpr):
    """How many tempered logits of a row reach `floor`, or what they weigh."""
    total = tl.cast(0, tl.int64)
    for chunk in range(CHUNKS):
        if tl.div_rn(tl.load(highest + chunk), t) >= floor:
            y, column = _tempered(logits, chunk, t, V, CHUNK)
            over = (y >= floor) & (column < V)
            if WEIGHED:
                total += tl.sum(tl.where(over, weight(top - y), 0))
            else:
                total += tl.sum(over.to(tl.int64))
    return total


@triton.jit
def _tempered(logits, chunk, t, V, CHUNK: tl.constexpr):
    """A chunk of a row's logits over the temperature, -inf behind the end, and the ids."""
    column = chunk * CHUNK + tl.arange(0, CHUNK)
    x = tl.load(logits + column, column < V, -_INF).to(tl.float32)
    return tl.div_rn(x, t), column


@triton.jit
def _best(key, column, inside):
    """The largest key among `inside`, and the lowest id that has it."""
    best = tl.max(tl.where(inside, key, -_INF))
    return best, tl.min(tl.where(inside & (key == best), column, _BIG))


@triton.jit
def _image(x):
    """fp32 as int64 in the same order."""
    bits = x.to(tl.int32, bitcast=True)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64)


@triton.jit
def _number(image):
    bits = image.to(tl.int32)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


def launch_greedy(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Arguments and results as `ocria.ops.sample.greedy` describes them."""
    token, probability = _launch(logits.flatten(0, -2), None)
    return token.view(logits.shape[:-1]), probability.view(logits.shape[:-1])


def launch(logits, temperature, top_k, top_p, seed, position) -> tuple[torch.Tensor, torch.Tensor]:
    """Arguments and results as `ocria.ops.sample.sample` describes them."""
    settings = (temperature, top_k, top_p, seed, position)
    if not all(x.is_contiguous() for x in settings):
        raise EngineError("sample: settings must be contiguous")
    return _launch(logits, settings)


def _launch(logits: torch.Tensor, settings: tuple[torch.Tensor, ...] | None) -> tuple[torch.Tensor, torch.Tensor]:
    if logits.stride(1) != 1:
        raise EngineError("sample: the logits of a row must be contiguous")
    rows, vocab = logits.shape
    chunks = triton.cdiv(vocab, CHUNK)
    block = triton.next_power_of_2(chunks)
    highest, sums, keys, probability = (
        logits.new_empty(n, dtype=torch.float32) for n in (rows * chunks, rows * chunks, rows * chunks, rows)
    )
    ids = logits.new_empty(rows * chunks, dtype=torch.int32)
    token = logits.new_empty(rows, dtype=torch.int64)
    sampled = settings is not None
    # Without settings the kernels take no notice of these arguments.
    temperature, top_k, top_p, seed, position = settings or (probability, token, probability, token, token)
    size = (logits.stride(0), vocab, chunks)
    wrap(chunk_kernel)[(rows, chunks)](
        logits, temperature, seed, position, highest, sums, keys, ids, *size,
        SAMPLED=sampled, CHUNK=CHUNK, num_warps=_WARPS,
    )  # fmt: skip
    mass = token
    if sampled:
        mass = logits.new_empty(rows * chunks, dtype=torch.int64)
        wrap(mass_kernel)[(rows, chunks)](
            logits, temperature, top_k, top_p, highest, mass, *size, CHUNK=CHUNK, BLOCK_C=block, num_warps=_WARPS
        )
    wrap(row_kernel)[(rows,)](
        logits, temperature, top_k, top_p, seed, position, highest, sums, keys, ids, mass, token, probability, *size,
        SAMPLED=sampled, CHUNK=CHUNK, BLOCK_C=block, num_warps=_WARPS,
    )  # fmt: skip
    return token, probability


def aot_variants() -> list[AotVariant]:
    """Greedy and sampled choice over the 4B model's vocabulary, from bf16 logits."""
    chunks = triton.cdiv(SHAPES_4B.vocab, CHUNK)
    kinds = dict.fromkeys(("logits",), "*bf16") | dict.fromkeys(("ids", "out_id"), "*i32")
    kinds |= dict.fromkeys(("top_k", "seed", "position", "mass", "out_mass", "out_token"), "*i64")
    kinds |= {"stride": "i32:16", "V": "i32:16", "CHUNKS": "i32"}
    sizes = {"CHUNK": CHUNK, "BLOCK_C": triton.next_power_of_2(chunks)}
    variants = []
    for sampled in (False, True):
        for kernel in (chunk_kernel, mass_kernel, row_kernel) if sampled else (chunk_kernel, row_kernel):
            constants = {name: value for name, value in sizes.items() if name in kernel.arg_names}
            if kernel is not mass_kernel:
                constants["SAMPLED"] = sampled
            signature = {name: kinds.get(name, "*fp32") for name in kernel.arg_names if name not in constants}
            name = f"{kernel.fn.__name__} {'sampled' if sampled else 'greedy'}"
            variants.append(AotVariant(name, kernel, signature, constants, num_warps=_WARPS))
    return variants
