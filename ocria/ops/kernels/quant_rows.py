"""Norm or gate and quantiser in one launch: the kernel of `ocria.ops.quant_rows`.

A program has a row, or of a kind without a norm and with scales of blocks a part of one. Only its codes and scales are
written.
"""

import torch
import triton
import triton.language as tl

from ocria.errors import UsageError
from ocria.ops.kernels.aot import SHAPES_4B, AotVariant
from ocria.ops.kernels.quant_grid import from_e4m3, swizzled_at, to_e2m1, to_e4m3
from ocria.ops.kernels.rounding import rounded
from ocria.ops.quant_grid import FP8_BLOCK, LEAST_SCALE
from ocria.ops.quant_rows import outputs
from ocria.ops.register import INTERPRETED, wrap

_LEAST_SCALE = tl.constexpr(LEAST_SCALE)
_PART = 2048  # columns of a program that need not have the whole row


@triton.jit
def quant_rows_kernel(
    a, b, weight, pre, factor, codes, scales, added, kept, a_stride, a_stride_head, b_stride, b_stride_head, rows,
    KIND: tl.constexpr, TARGET: tl.constexpr, PRE: tl.constexpr, KEEP: tl.constexpr, EPS: tl.constexpr,
    K: tl.constexpr, D: tl.constexpr, COLUMNS: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Grid (rows, parts of a row); with TARGET nvfp4_swizzled (rows padded to 128, parts)."""
    row = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    columns = tl.where(row < rows, K, 0)  # none of a row that pads the scales
    real = k < columns
    values = tl.load(a + row * a_stride + k // D * a_stride_head + k % D, real, 0.0).to(tl.float32)
    DTYPE: tl.constexpr = a.dtype.element_ty
    if KIND == "add_norm":
        values += tl.load(b + row * b_stride + k, real, 0.0).to(tl.float32)
        summed = rounded(values, added.dtype.element_ty, INTERPRETED)
        tl.store(added + row * K + k, summed, real)
        values = summed.to(tl.float32)
    if KIND == "norm" or KIND == "add_norm":
        values *= tl.rsqrt(tl.sum(values * values, 0) / K + EPS)
        values *= tl.load(weight + k, k < K, 0.0)
    if KIND == "gated_norm":
        heads = tl.reshape(values, [COLUMNS // D, D])
        heads *= tl.rsqrt(tl.sum(heads * heads, 1) / D + EPS)[:, None]
        values = rounded(tl.reshape(heads, [COLUMNS]), DTYPE, INTERPRETED).to(tl.float32)
        values *= tl.load(weight + k % D, k < K, 0.0)
    if KIND == "gated_norm" or KIND == "silu_mul" or KIND == "sigmoid_mul":
        other = tl.load(b + row * b_stride + k // D * b_stride_head + k % D, real, 0.0).to(tl.float32)
        if KIND == "gated_norm":
            values *= other / (1.0 + tl.exp(-other))
        elif KIND == "silu_mul":
            values = rounded(values / (1.0 + tl.exp(-values)), DTYPE, INTERPRETED).to(tl.float32) * other
        else:
            values = values / (1.0 + tl.exp(-other))
    if KIND != "plain":
        made = rounded(values, DTYPE, INTERPRETED)
        if KEEP:
            tl.store(kept + row * K + k, made, real)
        values = made.to(tl.float32)
    elif KEEP:
        tl.store(kept + row * K + k, rounded(values, DTYPE, INTERPRETED), real)
    if PRE:
        values *= tl.load(pre + k, k < K, 0.0)

    if TARGET == "token":
        scale = tl.maximum(tl.div_rn(_greatest(values, 0), 448.0), _LEAST_SCALE, propagate_nan=tl.PropagateNan.ALL)
        tl.store(codes + row * K + k, to_e4m3(tl.div_rn(values, scale + tl.zeros_like(values)), INTERPRETED), real)
        tl.store(scales + row, scale)
    elif TARGET == "static":
        scale = tl.load(factor) + tl.zeros_like(values)
        tl.store(codes + row * K + k, to_e4m3(tl.div_rn(values, scale), INTERPRETED), real)
    elif TARGET == "block":
        blocks = tl.reshape(values, [COLUMNS // 128, 128])
        scale = tl.div_rn(_greatest(blocks, 1), tl.full([COLUMNS // 128], 448.0, tl.float32))
        scale = tl.maximum(scale, _LEAST_SCALE, propagate_nan=tl.PropagateNan.ALL)
        blocks = tl.div_rn(blocks, scale[:, None] + tl.zeros_like(blocks))
        tl.store(codes + row * K + k, to_e4m3(tl.reshape(blocks, [COLUMNS]), INTERPRETED), real)
        block = tl.program_id(1) * (COLUMNS // 128) + tl.arange(0, COLUMNS // 128)
        tl.store(scales + row * ((K + 127) // 128) + block, scale, block < (K + 127) // 128)
    else:
        GROUPS: tl.constexpr = K // 16
        multiplier = tl.load(factor)
        blocks = tl.reshape(values, [COLUMNS // 16, 16])
        scale = tl.div_rn(_greatest(blocks, 1), 6.0 * multiplier + tl.zeros([COLUMNS // 16], tl.float32))
        scale = to_e4m3(scale, INTERPRETED)
        step = from_e4m3(scale, INTERPRETED) * multiplier
        step = tl.where(step > 0.0, step, float("inf"))
        code = to_e2m1(tl.div_rn(blocks, step[:, None] + tl.zeros_like(blocks)))
        low, high = tl.split(tl.reshape(code, [COLUMNS // 2, 2]))
        byte = tl.program_id(1) * (COLUMNS // 2) + tl.arange(0, COLUMNS // 2)
        packed = (low | (high << 4)).to(tl.uint8)
        tl.store(codes + row * (K // 2) + byte, packed, byte < columns // 2)
        group = tl.program_id(1) * (COLUMNS // 16) + tl.arange(0, COLUMNS // 16)
        if TARGET == "nvfp4_swizzled":
            # Padding takes part in products: its scales have to be zero, as those of no values are.
            tl.store(scales + swizzled_at(row, group, GROUPS), scale, group < (GROUPS + 3) // 4 * 4)
        else:
            tl.store(scales + row * GROUPS + group, scale, group < GROUPS)


@triton.jit
def _greatest(x, AXIS: tl.constexpr):
    """The greatest size along an axis, NaN where there is one: of sizes, the order of the bits is that of the numbers,
    and NaN comes last."""
    return tl.max(tl.abs(x).to(tl.int32, bitcast=True), AXIS).to(tl.float32, bitcast=True)


def launch(a, b, weight, eps, kind, target, factor, pre, keep):
    """As `ocria.ops.quant_rows.quant_rows_op`. Raises UsageError for gated norms of heads of no power of two."""
    found = outputs(a, b, kind, target, keep)
    codes, scales, added, kept = found
    rows, heads, size = a.shape
    if kind == "gated_norm" and size & (size - 1):
        raise UsageError(f"gated norms are quantised in heads of a power of two, not {size}")
    other = a if b is None else b
    block, parts, warps = _tile(kind, target, heads * size)
    padded = triton.cdiv(rows, 128) * 128 if target == "nvfp4_swizzled" else rows
    if rows:
        wrap(quant_rows_kernel)[(padded, parts)](
            a, other, _any(weight, a), _any(pre, a), _any(factor, a), codes, scales, added, kept,
            *a.stride()[:2], *other.stride()[:2], rows, KIND=kind, TARGET=target, PRE=pre is not None, KEEP=keep,
            EPS=eps, K=heads * size, D=size, COLUMNS=block, INTERPRETED=INTERPRETED, num_warps=warps,
        )  # fmt: skip
    return found


def aot_variants() -> list[AotVariant]:
    """The makers of quantised rows of the 4B model in bf16."""
    s = SHAPES_4B
    targets = ("token", "static", "block", "nvfp4", "nvfp4_swizzled")
    cases = [("add_norm", target, 1, s.hidden) for target in targets]
    cases += [("gated_norm", target, s.value_heads, s.value_dim) for target in ("token", "block", "nvfp4")]
    cases += [("silu_mul", target, 1, s.intermediate) for target in ("token", "block", "nvfp4_swizzled")]
    cases += [("sigmoid_mul", target, s.heads, s.head_dim) for target in ("token", "nvfp4")]
    cases += [("plain", "token", 1, s.intermediate), ("norm", "nvfp4", 1, s.hidden)]
    variants = []
    for kind, target, heads, size in cases:
        block, _, warps = _tile(kind, target, heads * size)
        norms = kind in ("norm", "add_norm")
        constants = {
            "KIND": kind, "TARGET": target, "PRE": norms, "KEEP": norms, "EPS": 1e-6, "K": heads * size, "D": size,
            "COLUMNS": block, "INTERPRETED": False,
        }  # fmt: skip
        fp4 = target.startswith("nvfp4")
        kinds = dict.fromkeys(("weight", "pre", "factor"), "*fp32") | {"rows": "i32"}
        kinds |= {"codes": "*u8" if fp4 else "*fp8e4nv", "scales": "*fp8e4nv" if fp4 else "*fp32"}
        arguments = [argument for argument in quant_rows_kernel.arg_names if argument not in constants]
        kinds |= {argument: "i32:16" for argument in arguments if "stride" in argument}
        signature = {argument: kinds.get(argument, "*bf16") for argument in arguments}
        variants.append(AotVariant(f"{kind} to {target}", quant_rows_kernel, signature, constants, num_warps=warps))
    return variants


def _tile(kind: str, target: str, columns: int) -> tuple[int, int, int]:
    """Columns of a program, programs of a row, and warps."""
    block = triton.next_power_of_2(max(columns, FP8_BLOCK))
    if target != "token" and kind in ("plain", "silu_mul", "sigmoid_mul"):
        block = min(block, _PART)
    warps = 16 if block > 8192 else 8 if block > 2048 else 4
    if target.startswith("nvfp4"):
        warps = max(1, block // 1024)  # a block of 16 and its divisions in one thread; with more, ptxas spills
    return block, triton.cdiv(columns, block), min(warps, 16)


def _any(x: torch.Tensor | None, other: torch.Tensor) -> torch.Tensor:
    """A tensor for an argument that the kernel does not read."""
    return other if x is None else x
