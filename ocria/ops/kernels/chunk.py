"""The chunked gated delta rule in three launches: the kernels of `ocria.ops.chunk.chunk`.

    prepare   all chunks at once   T = (I + A)^-1,  w = T (beta exp(G) k),  u = T (beta v)
    states    chunk after chunk    d = u - w S,     S <- exp(G_last) S + (exp(G_last - G) k)^T d
    outputs   all chunks at once   o = exp(G) (q S) + ((q k^T) exp(G_i - G_j)) d

G is the running sum of g within a chunk, A the strictly lower part of (beta k) k^T exp(G_i - G_j), S the state before
the chunk. Exponents are differences of G towards the past, masked before exp, so never above 0.

Which chunk belongs to which segment is found out on the device, by the first launch: the grid depends on shapes only.
There are at most N // CHUNK + B chunks; programs beyond the last one leave. Between the launches a chunk of CHUNK
rows takes (CHUNK (Dk + Dv + 1) + Dk Dv) fp32 values per head.

Precision of the dots: k k^T and q k^T of 16-bit inputs are taken in that type, which loses nothing, as the products
are exact and summed in fp32. The inverse is taken in three TF32 products (nearly fp32), since its errors reach all
later rows through the state. The others use TF32, whose 10 bits of mantissa exceed the 7 of the bf16 inputs and
outputs; for fp32 networks they too use three products (a few registers spill then: fp32 on a GPU is for checks).
"""

import torch
import triton
import triton.language as tl

from ocria.ops.chunk import CHUNK
from ocria.ops.kernels.aot import SHAPES_4B, AotVariant
from ocria.ops.kernels.rounding import rounded
from ocria.ops.register import INTERPRETED, wrap

_BLOCK = 16  # of the triangular inverse
_PREPARE_D = 64  # channels per product
_STATES_V = 32  # value channels per program: 4 programs for each of 32 heads fill a GPU with one sequence
_OUTPUTS_V = 64
_OPTIONS = {"num_warps": 4, "num_stages": 2}
_STATES_OPTIONS = {"num_warps": 8, "num_stages": 2}  # with 4, triton 3.9 spills registers on sm_100


@triton.jit
def _locate(chunk, count, SEGMENTS, CHUNK: tl.constexpr, BLOCK_B: tl.constexpr):
    """The segment of a chunk (SEGMENTS when there is none) and the chunk's index within it."""
    i = tl.arange(0, BLOCK_B)
    chunks = tl.cdiv(tl.load(count + i, i < SEGMENTS, 0).to(tl.int32), CHUNK)
    ends = tl.cumsum(chunks, 0)
    segment = tl.sum(((ends <= chunk) & (i < SEGMENTS)).to(tl.int32), 0)
    before = tl.sum(tl.where(i < segment, chunks, 0), 0)
    return segment, chunk - before


@triton.jit
def _dot_rows(x, y, PRECISION: tl.constexpr, INTERPRETED: tl.constexpr):
    """x y^T of rows in the network's dtype."""
    if INTERPRETED or x.dtype == tl.float32:
        return tl.dot(x.to(tl.float32), tl.trans(y.to(tl.float32)), input_precision=PRECISION)
    return tl.dot(x, tl.trans(y))


@triton.jit
def _inverse(A, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    """(I + A)^-1 of a strictly lower triangular A.

    The diagonal blocks by forward substitution, all at once: unlike powers of A it stays accurate when the rows of k
    are alike and those powers grow beyond all bounds. With D their inverses and L the blocks below,
    (I + A)^-1 = (I + DL)^-1 D, and DL is nilpotent in CHUNK // BLOCK steps.
    """
    tl.static_assert(CHUNK == 4 * BLOCK)
    i = tl.arange(0, CHUNK)
    same = (i[:, None] // BLOCK) == (i[None, :] // BLOCK)
    COUNT: tl.constexpr = CHUNK // BLOCK
    blocks = tl.sum(tl.reshape(tl.where(same, -A, 0.0), [COUNT, BLOCK, COUNT, BLOCK]), 2)
    r = tl.arange(0, BLOCK)[None, :, None]
    for step in range(1, BLOCK):
        row = tl.sum(tl.where(r == step, blocks, 0.0), 1)
        row += tl.sum(row[:, :, None] * blocks, 1)
        blocks = tl.where(r == step, row[:, None, :], blocks)
    spread = tl.broadcast_to(blocks[:, :, None, :], [COUNT, BLOCK, COUNT, BLOCK])
    identity = (i[:, None] == i[None, :]).to(tl.float32)
    D = tl.where(same, tl.reshape(spread, [CHUNK, CHUNK]), 0.0) + identity
    N = tl.dot(D, tl.where(same, 0.0, -A), input_precision="tf32x3")
    NN = tl.dot(N, N, input_precision="tf32x3")
    # I + N + N^2 + N^3
    series = identity + N + NN + tl.dot(N, NN, input_precision="tf32x3")
    return tl.dot(series, D, input_precision="tf32x3")


@triton.jit
def _solve(
    T, source, source_row, scale, used, target, target_row, SIZE: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """target = T (scale source), a few channels at a time so that the registers hold them beside T."""
    for block in range(0, SIZE, BLOCK):
        c = block + tl.arange(0, BLOCK)
        real = (c < SIZE)[None, :]
        x = tl.load(source + source_row[:, None] * SIZE + c[None, :], used[:, None] & real, 0.0).to(tl.float32)
        x = tl.dot(T, x * scale[:, None], input_precision=PRECISION)
        tl.store(target + target_row[:, None] * SIZE + c[None, :], x, real)


@triton.jit
def prepare_kernel(
    k, v, g, beta, first, count, place, w, u, decay, SEGMENTS,
    KEY_HEADS: tl.constexpr, VALUE_HEADS: tl.constexpr, KEY_DIM: tl.constexpr, VALUE_DIM: tl.constexpr,
    CHUNK: tl.constexpr, BLOCK: tl.constexpr, BLOCK_B: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Grid (value heads, chunks). place: the segment of each chunk and the chunk's index within it."""
    head = tl.program_id(0)
    chunk = tl.program_id(1)
    segment, within = _locate(chunk, count, SEGMENTS, CHUNK, BLOCK_B)
    if head == 0:
        tl.store(place + 2 * chunk, segment)
        tl.store(place + 2 * chunk + 1, within)
    if segment >= SEGMENTS:
        return
    r = tl.arange(0, CHUNK)
    used = within * CHUNK + r < tl.load(count + segment)
    token = tl.load(first + segment) + within * CHUNK + r
    scratch = (chunk * CHUNK + r).to(tl.int64) * VALUE_HEADS + head
    ck = tl.arange(0, BLOCK_K)

    G = tl.cumsum(tl.load(g + token * VALUE_HEADS + head, used, 0.0), 0)
    tl.store(decay + scratch, G)
    strength = tl.load(beta + token * VALUE_HEADS + head, used, 0.0)
    key_head = head // (VALUE_HEADS // KEY_HEADS)
    key_row = token * KEY_HEADS + key_head
    keys = tl.load(k + key_row[:, None] * KEY_DIM + ck[None, :], used[:, None] & (ck < KEY_DIM)[None, :], 0.0)
    earlier = r[:, None] > r[None, :]
    pair = tl.exp(tl.where(earlier, G[:, None] - G[None, :], 0.0))
    products = _dot_rows(keys, keys, PRECISION, INTERPRETED)
    T = _inverse(tl.where(earlier, products * pair * strength[:, None], 0.0), CHUNK, BLOCK)

    _solve(T, k, key_row, strength * tl.exp(G), used, w, scratch, KEY_DIM, BLOCK_D, PRECISION)
    _solve(T, v, token * VALUE_HEADS + head, strength, used, u, scratch, VALUE_DIM, BLOCK_D, PRECISION)


@triton.jit
def states_kernel(
    k, w, u, decay, states, checkpoint, slots, first, count,
    KEY_HEADS: tl.constexpr, VALUE_HEADS: tl.constexpr, KEY_DIM: tl.constexpr, VALUE_DIM: tl.constexpr,
    CHUNK: tl.constexpr, BLOCK_B: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Grid (blocks of value channels, value heads, segments). Replaces u by d; states get the S before each chunk."""
    head = tl.program_id(1)
    segment = tl.program_id(2)
    rows = tl.load(count + segment).to(tl.int32)
    if rows == 0:
        return
    i = tl.arange(0, BLOCK_B)
    ahead = tl.load(count + i, i < segment, 0).to(tl.int32)
    base = tl.sum(tl.cdiv(ahead, CHUNK), 0)
    start = tl.load(first + segment)
    r = tl.arange(0, CHUNK)
    ck = tl.arange(0, BLOCK_K)
    cv = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    in_k = ck < KEY_DIM
    in_v = cv < VALUE_DIM
    key_head = head // (VALUE_HEADS // KEY_HEADS)
    square = ck[:, None] * VALUE_DIM + cv[None, :]
    in_square = in_k[:, None] & in_v[None, :]
    home = checkpoint + (tl.load(slots + segment) * VALUE_HEADS + head) * KEY_DIM * VALUE_DIM
    S = tl.load(home + square, in_square, 0.0)
    for within in range(tl.cdiv(rows, CHUNK)):
        chunk = (base + within).to(tl.int64)
        tl.store(states + (chunk * VALUE_HEADS + head) * KEY_DIM * VALUE_DIM + square, S, in_square)
        scratch = (chunk * CHUNK + r) * VALUE_HEADS + head
        weights = tl.load(w + scratch[:, None] * KEY_DIM + ck[None, :], in_k[None, :], 0.0)
        at = scratch[:, None] * VALUE_DIM + cv[None, :]
        d = tl.load(u + at, in_v[None, :], 0.0) - tl.dot(weights, S, input_precision=PRECISION)
        tl.store(u + at, d, in_v[None, :])
        G = tl.load(decay + scratch)
        # Unused rows have g = 0: the last row holds the sum in any case.
        last = tl.load(decay + (chunk * CHUNK + CHUNK - 1) * VALUE_HEADS + head)
        row = within * CHUNK + r
        at = ((start + row) * KEY_HEADS + key_head)[:, None] * KEY_DIM + ck[None, :]
        keys = tl.load(k + at, (row < rows)[:, None] & in_k[None, :], 0.0).to(tl.float32)
        keys *= tl.exp(last - G)[:, None]
        S = S * tl.exp(last) + tl.dot(tl.trans(keys), d, input_precision=PRECISION)
    tl.store(home + square, S, in_square)


@triton.jit
def outputs_kernel(
    q, k, d, decay, states, place, first, count, o, SEGMENTS,
    KEY_HEADS: tl.constexpr, VALUE_HEADS: tl.constexpr, KEY_DIM: tl.constexpr, VALUE_DIM: tl.constexpr,
    CHUNK: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,
    PRECISION: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Grid (blocks of value channels, value heads, chunks)."""
    head = tl.program_id(1)
    chunk = tl.program_id(2)
    segment = tl.load(place + 2 * chunk)
    if segment >= SEGMENTS:
        return
    within = tl.load(place + 2 * chunk + 1)
    r = tl.arange(0, CHUNK)
    ck = tl.arange(0, BLOCK_K)
    cv = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    in_k = ck < KEY_DIM
    in_v = cv < VALUE_DIM
    used = within * CHUNK + r < tl.load(count + segment)
    token = tl.load(first + segment) + within * CHUNK + r
    scratch = (chunk * CHUNK + r).to(tl.int64) * VALUE_HEADS + head

    key_head = head // (VALUE_HEADS // KEY_HEADS)
    at = (token * KEY_HEADS + key_head)[:, None] * KEY_DIM + ck[None, :]
    queries = tl.load(q + at, used[:, None] & in_k[None, :], 0.0)
    keys = tl.load(k + at, used[:, None] & in_k[None, :], 0.0)
    G = tl.load(decay + scratch)
    seen = r[:, None] >= r[None, :]
    pair = tl.exp(tl.where(seen, G[:, None] - G[None, :], 0.0))
    scores = tl.where(seen, _dot_rows(queries, keys, PRECISION, INTERPRETED) * pair, 0.0)
    at = (chunk.to(tl.int64) * VALUE_HEADS + head) * KEY_DIM * VALUE_DIM + ck[:, None] * VALUE_DIM + cv[None, :]
    S = tl.load(states + at, in_k[:, None] & in_v[None, :], 0.0)
    deltas = tl.load(d + scratch[:, None] * VALUE_DIM + cv[None, :], in_v[None, :], 0.0)
    y = tl.dot(queries.to(tl.float32), S, input_precision=PRECISION) * tl.exp(G)[:, None]
    y += tl.dot(scores, deltas, input_precision=PRECISION)
    at = (token * VALUE_HEADS + head)[:, None] * VALUE_DIM + cv[None, :]
    tl.store(o + at, rounded(y, o.dtype.element_ty, INTERPRETED), used[:, None] & in_v[None, :])


def launch(q, k, v, g, beta, checkpoint, slots, first, count):
    """Arguments and results as `ocria.ops.chunk.chunk` describes them."""
    q, k, v, g, beta = (x.contiguous() for x in (q, k, v, g, beta))
    (rows, key_heads, key_dim), (heads, value_dim), segments = q.shape, v.shape[1:], count.shape[0]
    chunks = rows // CHUNK + segments
    w = g.new_empty(chunks * CHUNK, heads, key_dim)
    u = g.new_empty(chunks * CHUNK, heads, value_dim)
    decay = g.new_empty(chunks * CHUNK, heads)
    states = g.new_empty(chunks, heads, key_dim, value_dim)
    place = count.new_empty(chunks, 2, dtype=torch.int32)
    o = torch.zeros_like(v)
    shapes = {
        "KEY_HEADS": key_heads, "VALUE_HEADS": heads, "KEY_DIM": key_dim, "VALUE_DIM": value_dim, "CHUNK": CHUNK,
        "BLOCK_K": _block(key_dim), "PRECISION": "tf32x3" if v.dtype == torch.float32 else "tf32",
    }  # fmt: skip
    block_b = triton.next_power_of_2(segments)
    wrap(prepare_kernel)[(heads, chunks)](
        k, v, g, beta, first, count, place, w, u, decay, segments,
        **shapes, BLOCK=_BLOCK, BLOCK_B=block_b, BLOCK_D=min(_PREPARE_D, _block(max(key_dim, value_dim))),
        INTERPRETED=INTERPRETED, **_OPTIONS,
    )  # fmt: skip
    block_v = min(_STATES_V, _block(value_dim))
    wrap(states_kernel)[(triton.cdiv(value_dim, block_v), heads, segments)](
        k, w, u, decay, states, checkpoint, slots, first, count,
        **shapes, BLOCK_B=block_b, BLOCK_V=block_v, **_STATES_OPTIONS,
    )  # fmt: skip
    block_v = min(_OUTPUTS_V, _block(value_dim))
    wrap(outputs_kernel)[(triton.cdiv(value_dim, block_v), heads, chunks)](
        q, k, u, decay, states, place, first, count, o, segments,
        **shapes, BLOCK_V=block_v, INTERPRETED=INTERPRETED, **_OPTIONS,
    )  # fmt: skip
    return o


def _block(size: int) -> int:
    return max(16, triton.next_power_of_2(size))


def aot_variants() -> list[AotVariant]:
    """Prefill of the 4B model in bf16, eight segments."""
    s = SHAPES_4B
    common = {
        "KEY_HEADS": s.key_heads, "VALUE_HEADS": s.value_heads, "KEY_DIM": s.key_dim, "VALUE_DIM": s.value_dim,
        "CHUNK": CHUNK, "BLOCK_K": s.key_dim, "PRECISION": "tf32",
    }  # fmt: skip
    types = dict.fromkeys(("q", "k", "v", "o"), "*bf16") | dict.fromkeys(("slots", "first", "count"), "*i64")
    types |= dict.fromkeys(("g", "beta", "w", "u", "d", "decay", "states", "checkpoint"), "*fp32")
    types |= {"SEGMENTS": "i32", "place": "*i32"}
    parts = (
        ("prepare", prepare_kernel, _OPTIONS,
         {"BLOCK": _BLOCK, "BLOCK_B": 8, "BLOCK_D": _PREPARE_D, "INTERPRETED": False}),
        ("states", states_kernel, _STATES_OPTIONS, {"BLOCK_B": 8, "BLOCK_V": _STATES_V}),
        ("outputs", outputs_kernel, _OPTIONS, {"BLOCK_V": _OUTPUTS_V, "INTERPRETED": False}),
    )  # fmt: skip
    variants = []
    for name, kernel, options, own in parts:
        constants = common | own
        signature = {argument: types[argument] for argument in kernel.arg_names if argument not in constants}
        variants.append(AotVariant(f"chunk {name}", kernel, signature, constants, **options, needs_dot=True))
    return variants
