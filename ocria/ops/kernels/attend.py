"""Gated attention of a step in two or three launches: the kernels of `ocria.ops.attend`.

The first normalises and turns q and k and writes the KV rows. The second computes softmax attention of all query rows
that share a key head at once, over a part of the keys per program; the third joins the parts and applies the gate,
which the second does itself where there is one part. How many parts there are follows from the cache's size, where
they begin from a request's length on the device: no launch depends on data, and a request's result not on others.

Codes of an FP8 cache become the query's dtype, which holds them exactly, as they are loaded; the scale of the keys
joins that of the scores, the scale of the values comes in after the sum.
"""

import math

import torch
import triton
import triton.language as tl

from ocria.errors import EngineError
from ocria.ops import kv_cache
from ocria.ops.attend import MAX_ROWS
from ocria.ops.kernels.aot import SHAPES_4B, AotVariant
from ocria.ops.kernels.quant_grid import from_e4m3, to_e4m3
from ocria.ops.kernels.rounding import rounded
from ocria.ops.register import INTERPRETED, wrap

_MOST_PARTS = 32


@triton.jit
def prepare_kernel(
    qg, k, v, q_scale, k_scale, cos, sin, keys, values, kv_scale, slots, length, count, q_out,
    qg_stride, qg_stride_head, k_stride, k_stride_head, v_stride, v_stride_head, max_len,
    EPS: tl.constexpr, T: tl.constexpr, H: tl.constexpr, HKV: tl.constexpr, D: tl.constexpr, R: tl.constexpr,
    FP8: tl.constexpr, BLOCK_D: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Grid (H + HKV, B * T): one head of one row; a key head brings its values along."""
    head = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    b, t = row // T, row % T
    if t < tl.load(count + b):
        d = tl.arange(0, BLOCK_D)
        real = d < D
        partner = tl.where(d < R // 2, d + R // 2, d - R // 2)
        turns = d < R
        is_key = head >= H
        at = (tl.load(slots + b) * max_len + tl.load(length + b) + t) * HKV * D + (head - H) * D
        if is_key:
            source, scale = k + row * k_stride + (head - H) * k_stride_head, k_scale
        else:
            source, scale = qg + row * qg_stride + head * qg_stride_head, q_scale
        x = tl.load(source + d, real, 0.0).to(tl.float32)
        inverse = tl.rsqrt(tl.sum(x * x, 0) / D + EPS)
        x *= inverse * tl.load(scale + d, real, 0.0)
        other = tl.load(source + partner, turns, 0.0).to(tl.float32)
        other *= inverse * tl.load(scale + partner, turns, 0.0)
        other = tl.where(d < R // 2, -other, other)
        x = x * tl.load(cos + row * R + d, turns, 1.0) + other * tl.load(sin + row * R + d, turns, 0.0)
        x = rounded(x, q_out.dtype.element_ty, INTERPRETED)
        if is_key:
            value = tl.load(v + row * v_stride + (head - H) * v_stride_head + d, real)
            if FP8:
                tl.store(keys + at + d, to_e4m3(x.to(tl.float32) / tl.load(kv_scale), INTERPRETED), real)
                value = value.to(tl.float32) / tl.load(kv_scale + 1)
                tl.store(values + at + d, to_e4m3(value, INTERPRETED), real)
            else:
                tl.store(keys + at + d, x, real)
                tl.store(values + at + d, value, real)
        else:
            tl.store(q_out + (row * H + head) * D + d, x, real)


@triton.jit
def _part_size(total, PARTS: tl.constexpr, LEAST: tl.constexpr, BLOCK_N: tl.constexpr):
    """Keys per part of a request with `total` keys; parts that begin beyond them are empty."""
    return tl.maximum(tl.cdiv(tl.cdiv(total, PARTS), BLOCK_N) * BLOCK_N, LEAST)


@triton.jit
def attention_kernel(
    q, qg, keys, values, kv_scale, slots, length, count, parts, stats, out, qg_stride, qg_stride_head, max_len,
    SCALE: tl.constexpr, T: tl.constexpr, H: tl.constexpr, HKV: tl.constexpr, D: tl.constexpr, PARTS: tl.constexpr,
    LEAST: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, FP8: tl.constexpr, BLOCK_D: tl.constexpr,
    INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Grid (HKV, PARTS, B). Row m of the tile is query head m % G of the window's row m // G. Scores are base 2."""
    G: tl.constexpr = H // HKV
    DTYPE: tl.constexpr = q.dtype.element_ty
    key_head, part = tl.program_id(0), tl.program_id(1)
    b = tl.program_id(2).to(tl.int64)
    used = tl.load(count + b).to(tl.int32)
    start = tl.load(length + b).to(tl.int32)
    total = tl.where(used > 0, start + used, 0)
    size = _part_size(total, PARTS, LEAST, BLOCK_N)
    begin = part * size
    end = tl.minimum(begin + size, total)
    # A sole part always answers: rows that are not used give zeros.
    if (begin < end) | (PARTS == 1):
        m = tl.arange(0, BLOCK_M)
        d = tl.arange(0, BLOCK_D)
        t = m // G
        live = t < used
        row_head = (b * T + t) * H + key_head * G + m % G
        of_row = live[:, None] & (d < D)[None, :]
        query = tl.load(q + row_head[:, None] * D + d[None, :], of_row, 0.0)
        base = (tl.load(slots + b) * max_len * HKV + key_head) * D
        highest = tl.full([BLOCK_M], float("-inf"), tl.float32)
        weight = tl.zeros([BLOCK_M], tl.float32)
        acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
        scale = SCALE
        if FP8:
            scale = SCALE * tl.load(kv_scale)
        if INTERPRETED:
            query = query.to(tl.float32)
        for first in range(begin, end, BLOCK_N):
            n = first + tl.arange(0, BLOCK_N)
            inside = n < end
            at = n * (HKV * D)
            key = tl.load(keys + base + at[None, :] + d[:, None], inside[None, :] & (d < D)[:, None], 0.0)
            if FP8:
                key = rounded(from_e4m3(key, INTERPRETED), DTYPE, INTERPRETED)
            if INTERPRETED:
                key = key.to(tl.float32)
            scores = tl.dot(query, key, input_precision="ieee") * scale
            seen = (n[None, :] <= start + t[:, None]) & inside[None, :]
            scores = tl.where(seen, scores, float("-inf"))
            raised = tl.maximum(highest, tl.max(scores, 1))
            # A row may have seen no key of this part yet.
            anchor = tl.where(raised == float("-inf"), 0.0, raised)
            shrink = tl.exp2(highest - anchor)
            p = tl.exp2(scores - anchor[:, None])
            weight = weight * shrink + tl.sum(p, 1)
            highest = raised
            value = tl.load(values + base + at[:, None] + d[None, :], inside[:, None] & (d < D)[None, :], 0.0)
            p = rounded(p, DTYPE, INTERPRETED)
            if FP8:
                value = rounded(from_e4m3(value, INTERPRETED), DTYPE, INTERPRETED)
            if INTERPRETED:
                p, value = p.to(tl.float32), value.to(tl.float32)
            acc = tl.dot(p, value, acc * shrink[:, None], input_precision="ieee")

        if FP8:
            acc *= tl.load(kv_scale + 1)
        if PARTS == 1:
            gate_at = (b * T + t) * qg_stride + (key_head * G + m % G) * qg_stride_head + D
            gate = tl.load(qg + gate_at[:, None] + d[None, :], of_row, 0.0).to(tl.float32)
            weight = tl.where(live, weight, 1.0)
            o = tl.where(of_row, acc / weight[:, None] / (1.0 + tl.exp(-gate)), 0.0)
            o = rounded(o, out.dtype.element_ty, INTERPRETED)
            tl.store(out + row_head[:, None] * D + d[None, :], o, (t < T)[:, None] & (d < D)[None, :])
        else:
            share = row_head * PARTS + part
            tl.store(parts + share[:, None] * D + d[None, :], acc, of_row)
            tl.store(stats + share * 2, highest, live)
            tl.store(stats + share * 2 + 1, weight, live)


@triton.jit
def join_kernel(
    parts, stats, qg, length, count, out, qg_stride, qg_stride_head,
    T: tl.constexpr, H: tl.constexpr, D: tl.constexpr, PARTS: tl.constexpr, LEAST: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_D: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Grid (H, B * T)."""
    head = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    b, t = row // T, row % T
    d = tl.arange(0, BLOCK_D)
    at = row * H + head
    used = tl.load(count + b).to(tl.int32)
    if t < used:
        total = tl.load(length + b).to(tl.int32) + used
        part = tl.arange(0, BLOCK_P)
        filled = part * _part_size(total, PARTS, LEAST, BLOCK_N) < total
        highest = tl.load(stats + (at * PARTS + part) * 2, filled, float("-inf"))
        share = tl.exp2(highest - tl.max(highest, 0))
        weight = tl.sum(share * tl.load(stats + (at * PARTS + part) * 2 + 1, filled, 0.0), 0)
        of_part = filled[:, None] & (d < D)[None, :]
        acc = tl.load(parts + (at * PARTS + part)[:, None] * D + d[None, :], of_part, 0.0)
        gate = tl.load(qg + row * qg_stride + head * qg_stride_head + D + d, d < D, 0.0).to(tl.float32)
        o = tl.sum(acc * share[:, None], 0) / weight / (1.0 + tl.exp(-gate))
        tl.store(out + at * D + d, rounded(o, out.dtype.element_ty, INTERPRETED), d < D)
    else:
        tl.store(out + at * D + d, tl.zeros([BLOCK_D], out.dtype.element_ty), d < D)


def launch_attend(qg, k, v, q_scale, k_scale, eps, cos, sin, keys, values, slots, length, count, kv_scale=None):
    """As `ocria.ops.attend.attend`. Raises EngineError for more than `MAX_ROWS` rows or caches not contiguous."""
    (batch, rows, heads, _), (_, max_len, kv_heads, head_dim) = qg.shape, keys.shape
    if rows > MAX_ROWS:
        raise EngineError(f"attend: {rows} rows per request, at most {MAX_ROWS}")
    if not (keys.is_contiguous() and values.is_contiguous()):
        raise EngineError("attend: the KV caches must be contiguous")
    qg, k, v = (_rows(x) for x in (qg, k, v))
    sizes = {"T": rows, "H": heads, "D": head_dim}
    tiles, parts, warps = _tiles(rows, heads // kv_heads, max_len, keys.dtype == kv_cache.FP8)
    block_d = triton.next_power_of_2(max(head_dim, 16))
    fp8 = keys.dtype == kv_cache.FP8
    kv_scale = kv_scale.contiguous() if fp8 else q_scale  # any pointer will do where it is not read
    q = qg.new_empty(batch * rows, heads, head_dim)
    wrap(prepare_kernel)[(heads + kv_heads, batch * rows)](
        qg, k, v, q_scale, k_scale, cos.contiguous(), sin.contiguous(), keys, values, kv_scale, slots, length, count, q,
        *qg.stride()[:2], *k.stride()[:2], *v.stride()[:2], max_len, EPS=eps, **sizes, HKV=kv_heads, R=cos.shape[-1],
        FP8=fp8, BLOCK_D=block_d, INTERPRETED=INTERPRETED, num_warps=1,
    )  # fmt: skip
    out = qg.new_empty(batch, rows, heads * head_dim)
    # One part writes its result straight to `out`.
    several = (batch * rows, heads, parts) if parts > 1 else (1, 1, 1)
    shares = q_scale.new_empty(*several, head_dim)
    stats = q_scale.new_empty(*several, 2)
    wrap(attention_kernel)[(kv_heads, parts, batch)](
        q, qg, keys, values, kv_scale, slots, length, count, shares, stats, out, *qg.stride()[:2], max_len,
        SCALE=head_dim**-0.5 * math.log2(math.e), **sizes, HKV=kv_heads, PARTS=parts, **tiles, FP8=fp8,
        BLOCK_D=block_d, INTERPRETED=INTERPRETED, num_warps=warps, num_stages=2,
    )  # fmt: skip
    if parts > 1:
        wrap(join_kernel)[(heads, batch * rows)](
            shares, stats, qg, length, count, out, *qg.stride()[:2], **sizes, PARTS=parts, LEAST=tiles["LEAST"],
            BLOCK_N=tiles["BLOCK_N"], BLOCK_P=triton.next_power_of_2(parts), BLOCK_D=block_d, INTERPRETED=INTERPRETED,
        )  # fmt: skip
    return out


def aot_variants() -> list[AotVariant]:
    """Steps of the 4B model in bf16, with caches in bf16 and FP8; one part for a small cache, 32 for the full one."""
    s = SHAPES_4B
    variants = []
    for rows in s.rows:
        sizes = {"T": rows, "H": s.heads, "D": s.head_dim, "BLOCK_D": s.head_dim, "INTERPRETED": False}
        for fp8, suffix in ((False, ""), (True, " fp8")):
            more = {"EPS": 1e-6, "HKV": s.kv_heads, "R": s.rotary, "FP8": fp8}
            variants.append(_variant(f"attend prepare T={rows}{suffix}", prepare_kernel, sizes | more, num_warps=1))
            for max_len in (64, s.max_len):
                tiles, parts, warps = _tiles(rows, s.heads // s.kv_heads, max_len, fp8)
                more = {"SCALE": s.head_dim**-0.5 * math.log2(math.e), "HKV": s.kv_heads, "PARTS": parts, **tiles}
                name, constants = f"attend T={rows} parts={parts}{suffix}", sizes | more | {"FP8": fp8}
                variants.append(_variant(name, attention_kernel, constants, num_warps=warps, needs_dot=True))
        more = {"PARTS": parts, "LEAST": tiles["LEAST"], "BLOCK_N": tiles["BLOCK_N"], "BLOCK_P": parts}
        variants.append(_variant(f"attend join T={rows}", join_kernel, sizes | more))
    return variants


def _variant(name, kernel, constants, **options):
    kinds = dict.fromkeys(("q_scale", "k_scale", "kv_scale", "cos", "sin", "parts", "stats"), "*fp32")
    kinds |= dict.fromkeys(("slots", "length", "count"), "*i64")
    arguments = [argument for argument in kernel.arg_names if argument not in constants]
    kinds |= {argument: "i32:16" for argument in arguments if "stride" in argument or argument == "max_len"}
    kinds |= dict.fromkeys(("keys", "values"), "*fp8e4nv") if constants.get("FP8") else {}
    return AotVariant(name, kernel, {name: kinds.get(name, "*bf16") for name in arguments}, constants, **options)


def _tiles(rows: int, group: int, max_len: int, fp8: bool) -> tuple[dict[str, int], int, int]:
    """Block sizes and the fewest keys of a part, the number of parts, and warps.

    A part leaves `rows * group * D` fp32 behind for at least that many times eight keys and values read. Tiles of
    keys are small enough for two programs in the shared memory of a Hopper multiprocessor, and one elsewhere. Codes
    take registers to become numbers; more warps have more of them.
    """
    block_m = max(16, triton.next_power_of_2(rows * group))
    tall = block_m > 32
    parts = min(_MOST_PARTS, triton.cdiv(max_len, 8 * block_m))
    return {"LEAST": 8 * block_m, "BLOCK_M": block_m, "BLOCK_N": 32 if tall else 64}, parts, 8 if tall or fp8 else 4


def _rows(x: torch.Tensor) -> torch.Tensor:
    """`[B, T, heads, N]` as `[B * T, heads, N]`: a view of a part of a wider tensor where that is possible."""
    x = x.flatten(0, 1)
    return x if x.stride(-1) == 1 else x.contiguous()
