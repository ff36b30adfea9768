"""Convolution, SiLU, L2 norms and gates in one launch: the kernel of `ocria.ops.conv.gated_conv`.

A program computes up to `BLOCK_T` rows of one head of one request, so that the norm of q and k needs no second pass;
the last program of a request computes the gates of all heads. Within a step no program writes a ring row that
another one reads: the window follows the history, and both fit the ring. A window too long for that reads a copy of
the history, and only its last K - 1 rows are written.
"""

import torch
import triton
import triton.language as tl

from ocria.ops.kernels.aot import SHAPES_4B, AotVariant
from ocria.ops.kernels.rounding import rounded
from ocria.ops.register import INTERPRETED, wrap

_EPS = 1e-6


@triton.jit
def gated_conv_kernel(
    qkv, a, b, weight, rate, dt_bias, ring, history, slots, length, count, q, k, v, g, beta,
    qkv_stride_b, qkv_stride_t, a_stride_b, a_stride_t, b_stride_b, b_stride_t, weight_stride_c, weight_stride_k,
    T, EPS: tl.constexpr, SCALE: tl.constexpr, KEY_HEADS: tl.constexpr, KEY_DIM: tl.constexpr,
    VALUE_HEADS: tl.constexpr, VALUE_DIM: tl.constexpr, K: tl.constexpr, RING: tl.constexpr, LONG: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_H: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Grid (row blocks, heads of q, k and v + 1 for the gates, B)."""
    head = tl.program_id(1)
    row = tl.program_id(2).to(tl.int64)
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    slot = tl.load(slots + row)
    start = tl.load(length + row)
    used = tl.load(count + row)
    inside = t < T
    live = inside & (t < used)
    out_row = row * T + t

    if head == 2 * KEY_HEADS + VALUE_HEADS:
        h = tl.arange(0, BLOCK_H)
        of_head = h < VALUE_HEADS
        wanted = live[:, None] & of_head[None, :]
        step = tl.load(a + row * a_stride_b + t[:, None] * a_stride_t + h[None, :], wanted, 0.0).to(tl.float32)
        step += tl.load(dt_bias + h, of_head, 0.0)[None, :]
        # log(1 + exp(step)) without losing what is small to the sum; linear above 20, as torch has it.
        small = tl.exp(tl.minimum(step, 20.0))
        whole = 1.0 + small
        softplus = tl.where(whole == 1.0, small, tl.log(whole) * (small / tl.where(whole == 1.0, 1.0, whole - 1.0)))
        softplus = tl.where(step > 20.0, step, softplus)
        strength = tl.load(b + row * b_stride_b + t[:, None] * b_stride_t + h[None, :], wanted, 0.0).to(tl.float32)
        gate = out_row[:, None] * VALUE_HEADS + h[None, :]
        of_row = inside[:, None] & of_head[None, :]
        tl.store(g + gate, tl.where(wanted, tl.load(rate + h, of_head, 0.0)[None, :] * softplus, 0.0), of_row)
        tl.store(beta + gate, tl.where(wanted, 1.0 / (1.0 + tl.exp(-strength)), 0.0), of_row)
    else:
        C: tl.constexpr = 2 * KEY_HEADS * KEY_DIM + VALUE_HEADS * VALUE_DIM
        is_value = head >= 2 * KEY_HEADS
        size = tl.where(is_value, VALUE_DIM, KEY_DIM)
        d = tl.arange(0, BLOCK_D)
        real = d < size
        value_head = head - 2 * KEY_HEADS
        channel = tl.where(is_value, 2 * KEY_HEADS * KEY_DIM + value_head * VALUE_DIM, head * KEY_DIM) + d
        acc = tl.zeros([BLOCK_T, BLOCK_D], tl.float32)
        for tap in tl.static_range(K):
            source = t + (tap - (K - 1))
            fresh = (live & (source >= 0))[:, None] & real[None, :]
            at = row * qkv_stride_b + source[:, None] * qkv_stride_t + channel[None, :]
            x = tl.load(qkv + at, fresh, 0.0).to(tl.float32)
            if tap < K - 1:
                earlier = (live & (source < 0))[:, None] & real[None, :]
                if LONG:
                    at = (row * (K - 1) + source + K - 1)[:, None] * C + channel[None, :]
                    x += tl.load(history + at, earlier, 0.0).to(tl.float32)
                else:
                    at = (slot * RING + ((start + source) & (RING - 1)))[:, None] * C + channel[None, :]
                    x += tl.load(ring + at, earlier, 0.0).to(tl.float32)
            taps = tl.load(weight + channel * weight_stride_c + tap * weight_stride_k, real, 0.0).to(tl.float32)
            acc += x * taps[None, :]
        y = acc / (1.0 + tl.exp(-acc))
        if not is_value:
            y *= tl.rsqrt(tl.sum(y * y, 1) + EPS)[:, None]
        if head < KEY_HEADS:
            y *= SCALE

        keep = live
        if LONG:
            keep = live & (t >= used - (K - 1))
        kept = keep[:, None] & real[None, :]
        raw = tl.load(qkv + row * qkv_stride_b + t[:, None] * qkv_stride_t + channel[None, :], kept)
        at = (slot * RING + ((start + t) & (RING - 1)))[:, None] * C + channel[None, :]
        tl.store(ring + at, raw, kept)

        stored = inside[:, None] & real[None, :]
        y = rounded(y, v.dtype.element_ty, INTERPRETED)
        if head < KEY_HEADS:
            tl.store(q + (out_row[:, None] * KEY_HEADS + head) * KEY_DIM + d[None, :], y, stored)
        elif not is_value:
            tl.store(k + (out_row[:, None] * KEY_HEADS + head - KEY_HEADS) * KEY_DIM + d[None, :], y, stored)
        else:
            tl.store(v + (out_row[:, None] * VALUE_HEADS + value_head) * VALUE_DIM + d[None, :], y, stored)


def launch(qkv, a, b, weight, rate, dt_bias, conv_ring, slots, length, count, key_heads, key_dim):
    """Arguments and results as `ocria.ops.conv.gated_conv` describes them."""
    (batch, window, channels), width, ring = qkv.shape, weight.shape[1], conv_ring.shape[1]
    heads = a.shape[-1]
    value_dim = (channels - 2 * key_heads * key_dim) // heads
    q, k = (qkv.new_empty(batch, window, key_heads, key_dim) for _ in range(2))
    v = qkv.new_empty(batch, window, heads, value_dim)
    g, beta = (rate.new_empty(batch, window, heads) for _ in range(2))
    long = window + width - 1 > ring
    history = conv_ring
    if long:
        before = (length[:, None] + torch.arange(1 - width, 0, device=length.device)) & (ring - 1)
        history = conv_ring[slots[:, None], before]
    block_t = min(16, triton.next_power_of_2(window))
    grid = (triton.cdiv(window, block_t), 2 * key_heads + heads + 1, batch)
    wrap(gated_conv_kernel)[grid](
        qkv, a, b, weight, rate, dt_bias, conv_ring, history, slots, length, count, q, k, v, g, beta,
        *qkv.stride()[:2], *a.stride()[:2], *b.stride()[:2], *weight.stride(), window,
        EPS=_EPS, SCALE=key_dim**-0.5, KEY_HEADS=key_heads, KEY_DIM=key_dim, VALUE_HEADS=heads, VALUE_DIM=value_dim,
        K=width, RING=ring, LONG=long, BLOCK_T=block_t, BLOCK_D=triton.next_power_of_2(max(key_dim, value_dim)),
        BLOCK_H=triton.next_power_of_2(heads), INTERPRETED=INTERPRETED, num_warps=_warps(block_t),
    )  # fmt: skip
    return q, k, v, g, beta


def _warps(block_t: int) -> int:
    # One row of a head is four channels per lane of one warp: no exchange between warps.
    return 1 if block_t == 1 else 4


def aot_variants() -> list[AotVariant]:
    """Steps and a prefill window of the 4B model in bf16."""
    s = SHAPES_4B
    pointers = dict.fromkeys(("qkv", "a", "b", "weight", "ring", "history", "q", "k", "v"), "*bf16")
    pointers |= dict.fromkeys(("dt_bias", "rate", "g", "beta"), "*fp32")
    pointers |= dict.fromkeys(("slots", "length", "count"), "*i64")
    names = [name for name in gated_conv_kernel.arg_names if "stride" in name or name == "T"]
    variants = []
    for rows in (*s.rows, 4096):
        # Rows of all projections side by side, so that their strides are no channel counts of their own.
        strides = dict.fromkeys(names, "i32:16")
        constants = {
            "EPS": _EPS, "SCALE": s.key_dim**-0.5, "KEY_HEADS": s.key_heads, "KEY_DIM": s.key_dim,
            "VALUE_HEADS": s.value_heads, "VALUE_DIM": s.value_dim, "K": s.conv_kernel, "RING": s.conv_ring,
            "LONG": rows + s.conv_kernel - 1 > s.conv_ring, "BLOCK_T": min(16, triton.next_power_of_2(rows)),
            "BLOCK_D": max(s.key_dim, s.value_dim), "BLOCK_H": triton.next_power_of_2(s.value_heads),
            "INTERPRETED": False, "weight_stride_c": 1,
        }  # fmt: skip
        del strides["weight_stride_c"]
        if rows % 16:
            strides["T"] = "i32"
        warps = _warps(constants["BLOCK_T"])
        variants.append(AotVariant(f"gated_conv T={rows}", gated_conv_kernel, pointers | strides, constants, warps))
    return variants
