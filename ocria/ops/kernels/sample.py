"""The kernels of `ocria.ops.sample`.

Two launches choose greedily: every chunk of a row on its own, then one program a row over the chunks. Sampling adds
noise to the first and one launch between them, the mass of each chunk, which top-p is measured against.

Filters are not applied, they are checked: the token with the largest noisy logit of all is the draw if the filters
keep it. They keep it when few enough tokens and little enough mass lie above it, which takes one pass over the chunks
that reach so high. If they do not keep it, they keep nothing that is not above it, and the best of what is above is
next. Each round halves what is above or better, in expectation, and the first is mostly the last. Only top-p after
top-k needs the k-th logit itself, for the mass it keeps; it is searched for (`lowest`).
"""

import torch
import triton
import triton.language as tl

from ocria.errors import EngineError
from ocria.ops.kernels.aot import SHAPES_4B, AotVariant
from ocria.ops.kernels.fixed import noise, weight
from ocria.ops.kernels.logits import CHUNK, WARPS, best, lowest, summary, tempered, weight_from, weight_of_chunk
from ocria.ops.register import wrap

_INF = tl.constexpr(float("inf"))


@triton.jit
def chunk_kernel(
    logits, temperature, seed, position, out_highest, out_sum, out_key, out_id, stride, V, CHUNKS,
    SAMPLED: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Grid (R, chunks). Of each chunk: its maximum, the sum of exp over it, and the best (noisy) logit with its id."""
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    x, column, highest, total = summary(logits + row * stride, chunk, V, CHUNK)
    key = x
    if SAMPLED:
        t = tl.load(temperature + row)
        if t > 0:
            key = tl.div_rn(x, t) + noise(tl.load(seed + row), tl.load(position + row), chunk * CHUNK, CHUNK)
    most, first = best(key, column, column < V)
    at = row * CHUNKS + chunk
    tl.store(out_highest + at, highest)
    tl.store(out_sum + at, total)
    tl.store(out_key + at, most)
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
        own = weight_of_chunk(logits + row * stride, highest + row * CHUNKS, chunk, t, V, CHUNKS, CHUNK, BLOCK_C)
        tl.store(out_mass + row * CHUNKS + chunk, own)


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
    _, token = best(tl.load(keys + of_row + c, real, -_INF), tl.load(ids + of_row + c, real, 0), real)
    token = tl.where(finite, token, 0)
    logits += row * stride
    if SAMPLED:
        t, k, p = tl.load(temperature + row), tl.load(top_k + row), tl.load(top_p + row)
        k = tl.where(k > 0, tl.minimum(k, V), V).to(tl.int32)
        checked = finite & (t > 0) & ((k < V) | (p < 1))
        if checked:
            draw, place = tl.load(seed + row), tl.load(position + row)
            highest += of_row
            top = tl.div_rn(peak, t)
            limit = tl.cast(_INF, tl.float64)
            if p < 1:
                if k < V:
                    floor = lowest(logits, highest, top, k.to(tl.float64), t, V, CHUNKS, False, CHUNK, BLOCK_C)
                    kept = weight_from(logits, highest, floor, top, t, V, CHUNKS, CHUNK)
                else:
                    kept = tl.sum(tl.load(mass + of_row + c, real, 0))
                limit = p.to(tl.float64) * kept.to(tl.float64)
            while checked:
                pivot = tl.div_rn(tl.load(logits + token).to(tl.float32), t)
                count, over, below = _above(logits, highest, pivot, top, draw, place, t, V, CHUNKS, CHUNK)
                checked = (count >= k) | ((count > 0) & (over.to(tl.float64) >= limit))
                token = tl.where(checked, below, token)
    tl.store(out_token + row, token.to(tl.int64))
    tl.store(out_probability + row, tl.exp(tl.load(logits + token).to(tl.float32) - peak) / total)


@triton.jit
def _above(logits, highest, pivot, top, seed, position, t, V, CHUNKS, CHUNK: tl.constexpr):
    """Of the tempered logits of a row above `pivot`: count, weight, and the id with the largest noisy one."""
    count, mass = tl.cast(0, tl.int32), tl.zeros([CHUNK], tl.int64)
    key, token = tl.cast(-_INF, tl.float32), tl.cast(0, tl.int32)
    for chunk in range(CHUNKS):
        if tl.div_rn(tl.load(highest + chunk), t) > pivot:
            y, column = tempered(logits, chunk, t, V, CHUNK)
            over = y > pivot
            count += tl.sum(over.to(tl.int32))
            mass += tl.where(over, weight(top - y), 0)
            most, first = best(y + noise(seed, position, chunk * CHUNK, CHUNK), column, over)
            token = tl.where(most > key, first, token)
            key = tl.maximum(most, key)
    return count, tl.sum(mass), token


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
        SAMPLED=sampled, CHUNK=CHUNK, num_warps=WARPS,
    )  # fmt: skip
    mass = token
    if sampled:
        mass = logits.new_empty(rows * chunks, dtype=torch.int64)
        wrap(mass_kernel)[(rows, chunks)](
            logits, temperature, top_k, top_p, highest, mass, *size, CHUNK=CHUNK, BLOCK_C=block, num_warps=WARPS
        )
    wrap(row_kernel)[(rows,)](
        logits, temperature, top_k, top_p, seed, position, highest, sums, keys, ids, mass, token, probability, *size,
        SAMPLED=sampled, CHUNK=CHUNK, BLOCK_C=block, num_warps=WARPS,
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
            variants.append(AotVariant(name, kernel, signature, constants, num_warps=WARPS))
    return variants
