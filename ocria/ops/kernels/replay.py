"""The replay step in one launch: every row of the batch, with its own history, flushing or not."""

import torch
import triton
import triton.language as tl

from ocria.ops.kernels.aot import SHAPES_4B, AotVariant
from ocria.ops.kernels.rounding import rounded
from ocria.ops.register import INTERPRETED, wrap

BLOCK_V = 32
BLOCK_HISTORY = 16
CHUNK = 32
WARPS = 4


@triton.jit
def replay_kernel(
    q, k, v, g, beta, checkpoint, ring_k, ring_v, ring_u, ring_gates, slots, length, folded, count, flush, o,
    T: tl.constexpr, L: tl.constexpr, HK: tl.constexpr, HV: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_P: tl.constexpr, CHUNK: tl.constexpr,
    EXACT: tl.constexpr, PRECISION: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Program (i, h, b): columns i * BLOCK_V.. of value head h of batch row b; shapes as in `ocria.ops.replay`.

    A tile of 2 * BLOCK_T rows x holds the window's k, then its q. BLOCK_T is a power of two, at least T and 8; BLOCK_K
    at least DK. EXACT: inputs and rings are bf16, which tf32 holds; PRECISION: of the products of two of them.
    """
    h, b = tl.program_id(1), tl.program_id(2)
    hk = h // (HV // HK)
    dk = tl.arange(0, BLOCK_K)
    dv = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    row = tl.arange(0, 2 * BLOCK_T)
    t = row % BLOCK_T
    is_k = row < BLOCK_T
    n = tl.load(count + b).to(tl.int32)
    slot, start, end, flushing = tl.load(slots + b), tl.load(folded + b), tl.load(length + b), tl.load(flush + b)
    column = dv < DV
    out = o + ((b * T + t) * HV + h)[:, None] * DV + dv[None, :]
    written = ((row >= BLOCK_T) & (t < T))[:, None] & column[None, :]
    if n == 0:
        tl.store(out, tl.zeros([2 * BLOCK_T, BLOCK_V], o.dtype.element_ty), written)
        return

    history = (end - start).to(tl.int32)
    ring = slot * L
    if flushing:
        _fold(
            checkpoint + ((slot * HV + h) * DK + dk)[:, None] * DV + dv[None, :],
            ring_k + hk * DK + dk, ring_v + h * DV + dv, ring_gates + h, ring, start, history,
            L, HK * DK, HV * DV, HV, DK, DV, dk, dv,
        )  # fmt: skip
        history = 0
        # What one thread stored another may load.
        tl.debug_barrier()

    used = t < n
    source = (b * T + tl.minimum(t, T - 1))[:, None]
    at_k = (source * HK + hk) * DK
    values = tl.load(v + (source * HV + h) * DV + dv[None, :], is_k[:, None] & column[None, :], 0.0).to(tl.float32)
    values = tl.where(used[:, None], values, 0.0)

    hidden = tl.zeros([2 * BLOCK_T, BLOCK_V], tl.float32)
    gram = tl.zeros([2 * BLOCK_T, 2 * BLOCK_T], tl.float32)
    state_at = checkpoint + (slot * HV + h) * DK * DV + dv[None, :]
    for c in tl.static_range(0, BLOCK_K, CHUNK):
        x, d = _window_rows(q, k, at_k, is_k, used, c, DK, CHUNK)
        state = tl.load(state_at + d[:, None] * DV, (d < DK)[:, None] & column[None, :], 0.0)
        hidden = _dot_state(x, state, hidden, EXACT)
        gram = tl.dot(x, tl.trans(x), gram, input_precision=PRECISION)
    for first in range(0, history, BLOCK_P):
        j = first + tl.arange(0, BLOCK_P)
        past = j < history
        place = ring + ((start + j) & (L - 1))
        scores = tl.zeros([2 * BLOCK_T, BLOCK_P], tl.float32)
        for c in tl.static_range(0, BLOCK_K, CHUNK):
            x, d = _window_rows(q, k, at_k, is_k, used, c, DK, CHUNK)
            keys = tl.load(ring_k + (place * HK + hk)[None, :] * DK + d[:, None], (d < DK)[:, None], 0.0)
            keys = tl.where(past[None, :], keys.to(tl.float32), 0.0)
            scores = tl.dot(x, keys, scores, input_precision=PRECISION)
        u = tl.load(ring_u + (place * HV + h)[:, None] * DV + dv[None, :], column[None, :], 0.0).to(tl.float32)
        u = tl.where(past[:, None], u, 0.0)
        gates = ring_gates + h
        g_past = tl.load(gates + place * 2 * HV, past, 0.0)
        # Of the rows after j, so that every exponent is a sum and none a difference of sums.
        later = (j + 1 < history) & (j + 1 < first + BLOCK_P)
        g_later = tl.load(gates + (ring + ((start + j + 1) & (L - 1))) * 2 * HV, later, 0.0)
        scores *= tl.exp(tl.cumsum(g_later, 0, reverse=True))[None, :]
        hidden = tl.dot(scores, u, hidden * tl.exp(tl.sum(g_past, 0)), input_precision="tf32x3")

    result = tl.zeros_like(hidden)
    for j in range(n):
        gate = (b * T + j) * HV + h
        hidden *= tl.exp(tl.load(g + gate))
        mine = (row == j)[:, None]
        u = tl.sum(tl.where(mine, values - hidden, 0.0), 0) * tl.load(beta + gate)
        weight = tl.sum(tl.where((row == j)[None, :], gram, 0.0), 1)
        hidden += weight[:, None] * u[None, :]
        result = tl.where(mine, u[None, :], tl.where((row == BLOCK_T + j)[:, None], hidden, result))

    tl.store(out, rounded(result, o.dtype.element_ty, INTERPRETED), written)
    appended = is_k & used
    place = ring + ((end + t) & (L - 1))
    at_v = (place * HV + h)[:, None] * DV + dv[None, :]
    filled = appended[:, None] & column[None, :]
    tl.store(ring_u + at_v, rounded(result, ring_u.dtype.element_ty, INTERPRETED), filled)
    tl.store(ring_v + at_v, values.to(ring_v.dtype.element_ty), filled)
    if tl.program_id(0) == 0:
        gates = (b * T + t) * HV + h
        to = ring_gates + place * 2 * HV + h
        tl.store(to, tl.load(g + gates, appended, 0.0), appended)
        tl.store(to + HV, tl.load(beta + gates, appended, 0.0), appended)
        if h % (HV // HK) == 0:
            moved = appended[:, None] & (dk < DK)[None, :]
            to_k = ring_k + (place * HK + hk)[:, None] * DK + dk[None, :]
            tl.store(to_k, tl.load(k + at_k + dk[None, :], moved, 0.0), moved)


@triton.jit
def _window_rows(q, k, at, is_k, used, first, DK: tl.constexpr, CHUNK: tl.constexpr):
    """Columns first..first + CHUNK - 1 of x, fp32, rows out of use zero whatever they hold; and their numbers."""
    d = first + tl.arange(0, CHUNK)
    channel = (d < DK)[None, :]
    x = tl.load(k + at + d[None, :], is_k[:, None] & channel, 0.0).to(tl.float32)
    x += tl.load(q + at + d[None, :], (is_k[:, None] == 0) & channel, 0.0).to(tl.float32)
    return tl.where(used[:, None], x, 0.0), d


@triton.jit
def _fold(
    state_at, keys, values, gates, ring, start, history,
    L: tl.constexpr, ROW_K: tl.constexpr, ROW_V: tl.constexpr, HV: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    dk, dv,
):  # fmt: skip
    """Replay the history into the checkpoint. Loads, loop and store depend on no block size but that of the state:
    however many rows are folded at once and whatever the width of the window, a row is folded in the same way.
    """
    inside = (dk < DK)[:, None] & (dv < DV)[None, :]
    state = tl.load(state_at, inside, 0.0)
    k, v, g, beta = _ring_row(keys, values, gates, ring + (start & (L - 1)), ROW_K, ROW_V, HV, DK, DV, dk, dv)
    for j in range(history):
        # One row ahead, to hide its way from memory; the one after the last is loaded in vain.
        following = ring + ((start + j + 1) & (L - 1))
        k_next, v_next, g_next, beta_next = _ring_row(keys, values, gates, following, ROW_K, ROW_V, HV, DK, DV, dk, dv)
        state *= tl.exp(g)
        delta = (v - tl.sum(state * k[:, None], 0)) * beta
        state += k[:, None] * delta[None, :]
        k, v, g, beta = k_next, v_next, g_next, beta_next
    tl.store(state_at, state, inside)


@triton.jit
def _ring_row(
    keys, values, gates, place,
    ROW_K: tl.constexpr, ROW_V: tl.constexpr, HV: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, dk, dv,
):  # fmt: skip
    k = tl.load(keys + place * ROW_K, dk < DK, 0.0).to(tl.float32)
    v = tl.load(values + place * ROW_V, dv < DV, 0.0).to(tl.float32)
    at = gates + place * 2 * HV
    return k, v, tl.load(at), tl.load(at + HV)


@triton.jit
def _dot_state(x, state, sum, EXACT: tl.constexpr):
    """sum + x @ state to about fp32. EXACT: tf32 takes x as it is, and the state in two parts, its upper bits and the
    rest."""
    if EXACT:
        upper = (state.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
        sum = tl.dot(x, state - upper, sum, input_precision="tf32")
        return tl.dot(x, upper, sum, input_precision="tf32")
    return tl.dot(x, state, sum, input_precision="tf32x3")


def launch(q, k, v, g, beta, checkpoint, ring_k, ring_v, ring_u, ring_gates, slots, length, folded, count, flush):
    """Arguments and result as `ocria.ops.replay.replay` describes them."""
    q, k, v, g, beta = (row.contiguous() for row in (q, k, v, g, beta))
    o = torch.empty_like(v)
    grid, constants = _plan(q.shape, v.shape, ring_k.shape[1], v.dtype)
    wrap(replay_kernel)[grid](
        q, k, v, g, beta, checkpoint, ring_k, ring_v, ring_u, ring_gates, slots, length, folded, count, flush, o,
        **constants, num_warps=WARPS,
    )  # fmt: skip
    return o


def _plan(q_shape, v_shape, ring, dtype):
    (batch, rows, key_heads, key_dim), (value_heads, value_dim) = q_shape, v_shape[2:]
    block_k = max(16, triton.next_power_of_2(key_dim))
    block_v = min(BLOCK_V, max(16, triton.next_power_of_2(value_dim)))
    exact = dtype == torch.bfloat16
    constants = {
        "T": rows, "L": ring, "HK": key_heads, "HV": value_heads, "DK": key_dim, "DV": value_dim,
        "BLOCK_T": max(8, triton.next_power_of_2(rows)), "BLOCK_K": block_k, "BLOCK_V": block_v,
        "BLOCK_P": BLOCK_HISTORY, "CHUNK": min(CHUNK, block_k),
        "EXACT": exact, "PRECISION": "tf32" if exact else "tf32x3", "INTERPRETED": INTERPRETED,
    }  # fmt: skip
    return (triton.cdiv(value_dim, block_v), value_heads, batch), constants


def aot_variants() -> list[AotVariant]:
    """Decoding and verification of the 4B model with the rings that hold two windows."""
    s = SHAPES_4B
    signature = dict.fromkeys(replay_kernel.arg_names[:16], "*bf16")
    signature |= dict.fromkeys(("g", "beta", "checkpoint", "ring_gates"), "*fp32")
    signature |= dict.fromkeys(("slots", "length", "folded", "count"), "*i64") | {"flush": "*i1"}
    variants = []
    for rows in s.rows:
        for ring in s.rings:
            if ring >= 2 * rows:
                shapes = (1, rows, s.key_heads, s.key_dim), (1, rows, s.value_heads, s.value_dim)
                _, constants = _plan(*shapes, ring, torch.bfloat16)
                variants.append(
                    AotVariant(f"replay T={rows} L={ring}", replay_kernel, signature, constants, WARPS, needs_dot=True)
                )
    return variants
