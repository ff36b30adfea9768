"""Products with FP8 weights: the kernel of `ocria.ops.quant_fp8`.

Weights are the left factor: a tile of 64 or more of their rows fills the tensor cores however few rows x has. e4m3 by
e4m3 is an instruction of Hopper and Blackwell; with bf16 activations the codes become bf16, which is exact.
"""

import triton
import triton.language as tl

from ocria.errors import UsageError
from ocria.ops.kernels.aot import SHAPES_4B, AotVariant
from ocria.ops.kernels.quant_grid import from_e4m3
from ocria.ops.kernels.quant_join import finished, launch_join, parts_of, scale_kinds, share, tile_rows
from ocria.ops.kernels.rounding import rounded
from ocria.ops.quant_fp8 import is_blocks
from ocria.ops.quant_grid import FP8_BLOCK
from ocria.ops.register import INTERPRETED, wrap


@triton.jit
def fp8_matmul_kernel(
    x, x_scale, codes, scale, bias, out, parts, x_stride, rows,
    N: tl.constexpr, K: tl.constexpr, W_BLOCKS: tl.constexpr, X_BLOCKS: tl.constexpr, PARTS: tl.constexpr,
    BY_ROW: tl.constexpr, BY_COLUMN: tl.constexpr, HAS_BIAS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Grid (tiles of N, tiles of rows, parts of K). A step is 128 columns, as a block scale is."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.arange(0, 128)
    STEPS: tl.constexpr = (K + 127) // 128
    SHARE: tl.constexpr = (STEPS + PARTS - 1) // PARTS
    first = tl.program_id(2) * SHARE
    w_at = codes + n[:, None].to(tl.int64) * K + k[None, :]
    x_at = x + m[None, :].to(tl.int64) * x_stride + k[:, None]
    acc = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
    for step in range(first, tl.minimum(first + SHARE, STEPS)):
        inside = step * 128 + k < K
        w = tl.load(w_at + step * 128, (n < N)[:, None] & inside[None, :], 0.0)
        values = tl.load(x_at + step * 128, (m < rows)[None, :] & inside[:, None], 0.0)
        if INTERPRETED or x.dtype.element_ty == tl.float32:
            w = from_e4m3(w, INTERPRETED)
            values = from_e4m3(values, INTERPRETED) if x.dtype.element_ty == tl.float8e4nv else values.to(tl.float32)
        elif x.dtype.element_ty == tl.bfloat16:
            w = w.to(tl.bfloat16)
        if W_BLOCKS or X_BLOCKS:
            product = tl.dot(w, values, input_precision="ieee")
            if W_BLOCKS:
                # A tile may have fewer rows than a block but never parts of two.
                product *= tl.load(scale + tl.program_id(0) * BLOCK_N // 128 * STEPS + step)
            if X_BLOCKS:
                product *= tl.load(x_scale + m.to(tl.int64) * STEPS + step, m < rows, 0.0)[None, :]
            acc += product
        else:
            # Hopper adds products of e4m3 with 14 bits: every 128 of them go into a sum of fp32.
            acc = tl.dot(w, values, acc, input_precision="ieee", max_num_imprecise_acc=128)
    at = m[None, :].to(tl.int64) * N + n[:, None]
    real = (m < rows)[None, :] & (n < N)[:, None]
    if PARTS > 1:
        tl.store(parts + tl.program_id(2).to(tl.int64) * rows * N + at, acc, real)
    else:
        acc = finished(
            acc, m[None, :], n[:, None], (m < rows)[None, :], (n < N)[:, None], x_scale, scale, bias,
            BY_ROW, BY_COLUMN, HAS_BIAS,
        )  # fmt: skip
        tl.store(out + at, rounded(acc, out.dtype.element_ty, INTERPRETED), real)


def launch(x, x_scale, codes, scale, bias, dtype):
    """As `ocria.ops.quant_fp8.fp8_matmul`. Raises UsageError for codes that are not contiguous."""
    (rows, columns), outputs = x.shape, codes.shape[0]
    if not (codes.is_contiguous() and scale.is_contiguous() and (x_scale is None or x_scale.is_contiguous())):
        raise UsageError("FP8 codes and scales have to be contiguous")
    x = x if x.stride(-1) == 1 else x.contiguous()
    out = x.new_empty(rows, outputs, dtype=dtype)
    if not rows:
        return out
    w_blocks = is_blocks(scale, outputs, columns)
    x_blocks = x_scale is not None and x_scale.dim() == 2 and x_scale.shape[1] > 1
    constants = scale_kinds(None if x_blocks else x_scale, None if w_blocks else scale, bias)
    block_m, block_n, warps, stages = _tile(rows, w_blocks or x_blocks)
    count = share(rows, outputs, block_n, triton.cdiv(columns, FP8_BLOCK))
    parts = parts_of(x, count, rows, outputs)
    scales = (scale if x_scale is None else x_scale), scale
    bias = scale if bias is None else bias
    wrap(fp8_matmul_kernel)[(triton.cdiv(outputs, block_n), triton.cdiv(rows, block_m), count)](
        x, scales[0], codes, scale, bias, out, parts, x.stride(0), rows,
        N=outputs, K=columns, W_BLOCKS=w_blocks, X_BLOCKS=x_blocks, PARTS=count, **constants,
        BLOCK_M=block_m, BLOCK_N=block_n, INTERPRETED=INTERPRETED, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    if count > 1:
        launch_join(parts, *scales, bias, out, constants)
    return out


def aot_variants() -> list[AotVariant]:
    """Up and down projections of the 4B model: bf16 activations, FP8 rows, and blocks."""
    s = SHAPES_4B
    cases = {
        "high": ("bf16", "fp32", {"BY_ROW": 0, "BY_COLUMN": 2, "W_BLOCKS": False, "X_BLOCKS": False}),
        "high, blocks": ("bf16", "fp32", {"BY_ROW": 0, "BY_COLUMN": 0, "W_BLOCKS": True, "X_BLOCKS": False}),
        "token": ("fp8e4nv", "fp32", {"BY_ROW": 2, "BY_COLUMN": 2, "W_BLOCKS": False, "X_BLOCKS": False}),
        "static": ("fp8e4nv", "fp32", {"BY_ROW": 1, "BY_COLUMN": 1, "W_BLOCKS": False, "X_BLOCKS": False}),
        "blocks": ("fp8e4nv", "fp32", {"BY_ROW": 0, "BY_COLUMN": 0, "W_BLOCKS": True, "X_BLOCKS": True}),
    }
    variants = []
    for kinds, (kind, scale_kind, flags) in cases.items():
        for rows in (8, 64, 256):
            block_m, block_n, warps, stages = _tile(rows, flags["W_BLOCKS"])
            outputs, columns = s.hidden, s.intermediate
            constants = {
                "N": outputs, "K": columns, "PARTS": share(rows, outputs, block_n, columns // FP8_BLOCK), **flags,
                "HAS_BIAS": False, "BLOCK_M": block_m, "BLOCK_N": block_n, "INTERPRETED": False,
            }  # fmt: skip
            signature = {
                "x": f"*{kind}", "x_scale": f"*{scale_kind}", "codes": "*fp8e4nv", "scale": f"*{scale_kind}",
                "bias": "*fp32", "out": "*bf16", "parts": "*fp32", "x_stride": "i32:16", "rows": "i32",
            }  # fmt: skip
            name = f"fp8 {kinds} M={rows}"
            variants.append(AotVariant(name, fp8_matmul_kernel, signature, constants, warps, stages, needs_dot=True))
    return variants


def _tile(rows: int, blocks: bool) -> tuple[int, int, int, int]:
    """Rows and outputs of a tile, warps and stages. With scales of blocks every product is kept beside the sum."""
    if rows > 64:
        return (128, 64, 4, 3) if blocks else (128, 128, 8, 3)
    return tile_rows(rows), 64, 4, 4
