"""Products with NVFP4 weights: the kernel of `ocria.ops.quant_nvfp4`.

Weights are the left factor: a tile of 64 or more of their rows fills the tensor cores however few rows x has. They are
decoded in registers, to bf16, which is exact. Blackwell multiplies FP4 by FP4 with its scales in one instruction; other
GPUs, and the interpreter, which takes the scales for powers of two, decode both factors.
"""

import torch
import triton
import triton.language as tl

from ocria.errors import UsageError
from ocria.ops.kernels.aot import SHAPES_4B, AotVariant
from ocria.ops.kernels.quant_grid import e2m1_parts, from_e4m3, swizzled_at
from ocria.ops.kernels.quant_join import finished, launch_join, parts_of, scale_kinds, share, tile_rows
from ocria.ops.kernels.rounding import rounded
from ocria.ops.quant_nvfp4 import check_shapes
from ocria.ops.register import INTERPRETED, wrap


@triton.jit
def nvfp4_matmul_kernel(
    x, x_scales, x_multiplier, codes, scales, multiplier, bias, out, parts, x_stride, rows,
    N: tl.constexpr, K: tl.constexpr, X_FP4: tl.constexpr, SCALED_DOT: tl.constexpr,
    X_SWIZZLED: tl.constexpr, W_SWIZZLED: tl.constexpr, PARTS: tl.constexpr,
    BY_ROW: tl.constexpr, BY_COLUMN: tl.constexpr, HAS_BIAS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Grid (tiles of N, tiles of rows, parts of K)."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    STEPS: tl.constexpr = (K + BLOCK_K - 1) // BLOCK_K
    SHARE: tl.constexpr = (STEPS + PARTS - 1) // PARTS
    first = tl.program_id(2) * SHARE
    real_n, real_m = n < N, m < rows
    acc = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
    for step in range(first, tl.minimum(first + SHARE, STEPS)):
        w = _codes(codes, n, real_n, K // 2, step, K, BLOCK_K)
        w_scale = _scales(scales, n, real_n, step, K, W_SWIZZLED, BLOCK_K)
        if X_FP4:
            values = _codes(x, m, real_m, x_stride, step, K, BLOCK_K)
            x_scale = _scales(x_scales, m, real_m, step, K, X_SWIZZLED, BLOCK_K)
            if SCALED_DOT:
                acc = tl.dot_scaled(w, w_scale, "e2m1", tl.trans(values), x_scale, "e2m1", acc)
            else:
                left = _decoded(w, w_scale, BLOCK_N, BLOCK_K, INTERPRETED, INTERPRETED)
                right = _decoded(values, x_scale, BLOCK_M, BLOCK_K, INTERPRETED, INTERPRETED)
                acc = tl.dot(left, tl.trans(right), acc, input_precision="ieee")
        else:
            k = step * BLOCK_K + tl.arange(0, BLOCK_K)
            at = m[None, :].to(tl.int64) * x_stride + k[:, None]
            values = tl.load(x + at, real_m[None, :] & (k < K)[:, None], 0.0)
            if INTERPRETED or x.dtype.element_ty == tl.float32:
                left = _decoded(w, w_scale, BLOCK_N, BLOCK_K, True, INTERPRETED)
                acc = tl.dot(left, values.to(tl.float32), acc, input_precision="ieee")
            else:
                left = _decoded(w, w_scale, BLOCK_N, BLOCK_K, False, INTERPRETED)
                acc = tl.dot(left, values, acc)
    if not SCALED_DOT:
        acc *= 2.0**52 if X_FP4 else 2.0**26
    at = m[None, :].to(tl.int64) * N + n[:, None]
    real = real_m[None, :] & real_n[:, None]
    if PARTS > 1:
        tl.store(parts + tl.program_id(2).to(tl.int64) * rows * N + at, acc, real)
    else:
        acc = finished(
            acc, m[None, :], n[:, None], real_m[None, :], real_n[:, None], x_multiplier, multiplier, bias,
            BY_ROW, BY_COLUMN, HAS_BIAS,
        )  # fmt: skip
        tl.store(out + at, rounded(acc, out.dtype.element_ty, INTERPRETED), real)


@triton.jit
def _codes(codes, row, real, stride, step, K: tl.constexpr, BLOCK_K: tl.constexpr):
    """Bytes `[rows, BLOCK_K / 2]` of a step; zero beyond the matrix."""
    byte = step * (BLOCK_K // 2) + tl.arange(0, BLOCK_K // 2)
    at = row[:, None].to(tl.int64) * stride + byte[None, :]
    return tl.load(codes + at, real[:, None] & (byte < K // 2)[None, :], 0)


@triton.jit
def _scales(scales, row, real, step, K: tl.constexpr, SWIZZLED: tl.constexpr, BLOCK_K: tl.constexpr):
    """Scales `[rows, BLOCK_K / 16]` of a step; zero beyond the matrix."""
    group = step * (BLOCK_K // 16) + tl.arange(0, BLOCK_K // 16)
    wide = row[:, None].to(tl.int64)
    at = swizzled_at(wide, group[None, :], K // 16) if SWIZZLED else wide * (K // 16) + group[None, :]
    return tl.load(scales + at, real[:, None] & (group < K // 16)[None, :], 0.0)


@triton.jit
def _decoded(packed, scale, ROWS: tl.constexpr, BLOCK_K: tl.constexpr, FP32: tl.constexpr, INTERPRETED: tl.constexpr):
    """code * scale * 2^-26 `[ROWS, BLOCK_K]` of bytes and scales, fp32 or bf16; exact in both."""
    low, high = e2m1_parts(packed)
    # The values come times 2^-126. All of it in the scales would make infinities of them: the rest follows the sum.
    factor = (from_e4m3(scale, INTERPRETED) * 2.0**100)[:, :, None] + tl.zeros([ROWS, BLOCK_K // 16, 8], tl.float32)
    factor = tl.reshape(factor, [ROWS, BLOCK_K // 2])
    low *= factor
    high *= factor
    if not FP32:
        low, high = low.to(tl.bfloat16), high.to(tl.bfloat16)
    return tl.reshape(tl.join(low, high), [ROWS, BLOCK_K])


def launch(x, x_scales, x_multiplier, codes, scales, multiplier, bias, dtype):
    """As `ocria.ops.quant_nvfp4.nvfp4_matmul`. Raises UsageError for weights that are not contiguous."""
    rows, outputs, columns = x.shape[0], codes.shape[0], codes.shape[1] * 2
    fp4 = x_scales is not None
    check_shapes(codes, scales, multiplier, x.shape[1] * 2 if fp4 else x.shape[1])
    if fp4:
        check_shapes(x, x_scales, x_multiplier, columns)
    if not all(tensor is None or tensor.is_contiguous() for tensor in (codes, scales, multiplier, x_scales)):
        raise UsageError("NVFP4 codes, scales and multipliers have to be contiguous")
    x = x if x.stride(-1) == 1 else x.contiguous()
    out = x.new_empty(rows, outputs, dtype=dtype)
    if not rows:
        return out
    scaled_dot = fp4 and not INTERPRETED and torch.cuda.get_device_capability(x.device)[0] == 10
    constants = scale_kinds(x_multiplier, multiplier, bias)
    block_m, block_n, block_k, warps, stages = _tile(rows, scaled_dot)
    count = share(rows, outputs, block_n, triton.cdiv(columns, block_k))
    parts = parts_of(x, count, rows, outputs)
    x_scales, x_multiplier, bias = (multiplier if y is None else y for y in (x_scales, x_multiplier, bias))
    wrap(nvfp4_matmul_kernel)[(triton.cdiv(outputs, block_n), triton.cdiv(rows, block_m), count)](
        x, x_scales, x_multiplier, codes, scales, multiplier, bias, out, parts, x.stride(0), rows,
        N=outputs, K=columns, X_FP4=fp4, SCALED_DOT=scaled_dot, X_SWIZZLED=fp4 and x_scales.dim() == 1,
        W_SWIZZLED=scales.dim() == 1, PARTS=count, **constants,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, INTERPRETED=INTERPRETED, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    if count > 1:
        launch_join(parts, x_multiplier, multiplier, bias, out, constants)
    return out


def aot_variants() -> list[AotVariant]:
    """The down projection of the 4B model, W4A16 and W4A4, for Blackwell by its instruction as well."""
    s = SHAPES_4B
    cases = {
        "W4A16": {"X_FP4": False, "SCALED_DOT": False, "X_SWIZZLED": False, "W_SWIZZLED": False, "BY_ROW": 0},
        "W4A4 decoded": {"X_FP4": True, "SCALED_DOT": False, "X_SWIZZLED": False, "W_SWIZZLED": False, "BY_ROW": 1},
        "W4A4": {"X_FP4": True, "SCALED_DOT": True, "X_SWIZZLED": True, "W_SWIZZLED": True, "BY_ROW": 1},
    }
    variants = []
    for name, flags in cases.items():
        for rows in (16, 32, 64, 256):
            block_m, block_n, block_k, warps, stages = _tile(rows, flags["SCALED_DOT"])
            constants = {
                "N": s.hidden, "K": s.intermediate, **flags, "BY_COLUMN": 2, "HAS_BIAS": False,
                "PARTS": share(rows, s.hidden, block_n, s.intermediate // block_k),
                "BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "INTERPRETED": False,
            }  # fmt: skip
            signature = {
                "x": "*u8" if flags["X_FP4"] else "*bf16", "x_scales": "*fp8e4nv", "x_multiplier": "*fp32",
                "codes": "*u8", "scales": "*fp8e4nv", "multiplier": "*fp32", "bias": "*fp32", "out": "*bf16",
                "parts": "*fp32", "x_stride": "i32:16", "rows": "i32",
            }  # fmt: skip
            label = f"nvfp4 {name} M={rows}"
            options = {"num_warps": warps, "num_stages": stages, "needs_dot": True}
            options |= {"capabilities": (100,)} if flags["SCALED_DOT"] else {}
            variants.append(AotVariant(label, nvfp4_matmul_kernel, signature, constants, **options))
    return variants


def _tile(rows: int, scaled_dot: bool) -> tuple[int, int, int, int, int]:
    """Rows, outputs and columns of a tile, warps and stages. The scaled product needs 128 rows on its left."""
    block_m = tile_rows(rows)
    if scaled_dot:
        return block_m, 128, 256, 8, 3
    return block_m, 64 if rows <= 64 else 128, 128, 4 if rows <= 32 else 8, 4
