"""All metadata of a step in one launch: the kernel of `ocria.ops.metadata`.

One program a request writes the whole of its rows, padding included, so that buffers of a captured graph hold
nothing of an earlier step. Sizes that change with the engine's memory are not specialised: a new one compiles nothing.
"""

import triton
import triton.language as tl

from ocria.errors import EngineError
from ocria.ops.kernels.aot import SHAPES_4B, AotVariant
from ocria.ops.register import wrap


@triton.jit(do_not_specialize=["table_rows", "max_len"])
def metadata_kernel(
    slots, pending, given, drafted, length, folded, rope_delta, done, cos, sin,
    out_ids, out_length, out_folded, out_count, out_flush, out_kv_rows, out_cos, out_sin,
    pending_stride, table_rows, max_len,
    T: tl.constexpr, T_MAX: tl.constexpr, RING: tl.constexpr, R: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_R: tl.constexpr,
):  # fmt: skip
    """Grid (B,)."""
    b = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + b)
    start = tl.load(length + slot)
    old = tl.load(folded + slot)
    idle = (tl.load(done + slot) != 0) | (slot == 0)
    count = tl.minimum(tl.load(given + slot) + tl.maximum(tl.load(drafted + slot), 0), max_len - start)
    count = tl.where(idle, 0, tl.minimum(tl.maximum(count, 0), T))
    flush = (RING > 0) & (count > 0) & (start - old > RING - T - T_MAX)
    tl.store(out_length + b, start)
    tl.store(out_folded + b, old)
    tl.store(out_count + b, count)
    tl.store(out_flush + b, flush)

    t = tl.arange(0, BLOCK_T)
    inside = t < T
    live = t < count
    tl.store(out_ids + b * T + t, tl.load(pending + slot * pending_stride + t, live, 0), inside)
    tl.store(out_kv_rows + b * T + t, tl.where(live, slot * max_len + start + t, 0), inside)

    position = start + t + tl.load(rope_delta + slot)
    position = tl.minimum(tl.maximum(position, 0), table_rows - 1)
    r = tl.arange(0, BLOCK_R)
    stored = inside[:, None] & (r < R)[None, :]
    source = position[:, None] * R + r[None, :]
    target = (b * T + t)[:, None] * R + r[None, :]
    tl.store(out_cos + target, tl.load(cos + source, stored), stored)
    tl.store(out_sin + target, tl.load(sin + source, stored), stored)


def launch(slots, pending, given, drafted, length, folded, rope_delta, done, cos, sin, rows, ring, max_len):
    """Arguments and results as `ocria.ops.metadata.metadata` describes them."""
    dense = (slots, given, drafted, length, folded, rope_delta, done, cos, sin)
    if not all(x.is_contiguous() for x in dense) or pending.stride(1) != 1:
        raise EngineError("metadata: tensors must be contiguous")
    batch, (table_rows, rotary) = slots.shape[0], cos.shape
    ids, kv_rows = (slots.new_empty(batch, rows) for _ in range(2))
    out_length, out_folded, count = (slots.new_empty(batch) for _ in range(3))
    flush = done.new_empty(batch)
    out_cos, out_sin = (cos.new_empty(batch, rows, rotary) for _ in range(2))
    wrap(metadata_kernel)[(batch,)](
        slots, pending, given, drafted, length, folded, rope_delta, done, cos, sin,
        ids, out_length, out_folded, count, flush, kv_rows, out_cos, out_sin,
        pending.stride(0), table_rows, max_len,
        T=rows, T_MAX=pending.shape[1], RING=ring, R=rotary,
        BLOCK_T=triton.next_power_of_2(rows), BLOCK_R=triton.next_power_of_2(rotary),
    )  # fmt: skip
    return ids, out_length, out_folded, count, flush, kv_rows, out_cos, out_sin


def aot_variants() -> list[AotVariant]:
    """Plain decoding and verification of the 4B model, with and without a ring."""
    s = SHAPES_4B
    signature = dict.fromkeys(metadata_kernel.arg_names[:18], "*i64")
    signature |= dict.fromkeys(("done", "out_flush"), "*i1")
    signature |= dict.fromkeys(("cos", "sin", "out_cos", "out_sin"), "*fp32")
    signature |= {"table_rows": "i32", "max_len": "i32"}
    variants = []
    for rows in s.rows:
        constants = {
            "pending_stride": rows, "T": rows, "T_MAX": rows, "RING": 0 if rows == 1 else s.rings[-1],
            "R": s.rotary, "BLOCK_T": triton.next_power_of_2(rows), "BLOCK_R": triton.next_power_of_2(s.rotary),
        }  # fmt: skip
        variants.append(AotVariant(f"metadata T={rows}", metadata_kernel, signature, constants))
    return variants
