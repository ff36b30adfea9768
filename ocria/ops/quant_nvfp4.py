"""Linear layers with NVFP4 weights: `x @ (codes * scales * multiplier).T + bias`.

The activations stay as they are (W4A16) or are NVFP4 too (W4A4). A code times its scale has at most six significant
bits: it is exact in bf16, so weights are decoded to bf16 and not rounded; the multipliers come in after the sum. Layers
that were joined and have multipliers of their own give one for each output.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ocria.errors import UsageError
from ocria.ops.quant_grid import FP4_BLOCK, decode_nvfp4
from ocria.ops.quant_rows import Fp4Rows, Target, quantise
from ocria.ops.quant_swizzle import swizzled_size, unswizzle_scales
from ocria.ops.register import register


def nvfp4_linear(
    x: Tensor,
    codes: Tensor,
    scales: Tensor,
    multiplier: Tensor,
    bias: Tensor | None = None,
    activations: Target | None = None,
) -> Tensor:
    """x `[..., K]` -> `[..., N]`, both of one dtype.

    codes uint8 `[N, K / 2]`, the even column in the low nibble; scales float8_e4m3fn `[N, K / 16]`, or swizzled, of one
    dimension; multiplier fp32 of one element or `[N]`; bias `[N]`. activations: the NVFP4 to quantise x to first; None:
    nothing.
    Raises UsageError where shapes do not fit.
    """
    if activations is not None:
        rows = quantise(x, activations)
        return nvfp4_linear_rows(rows, codes, scales, multiplier, bias, x.dtype).view(*x.shape[:-1], -1)
    flat = x.reshape(-1, x.shape[-1])
    y = nvfp4_matmul(flat, None, None, codes, scales, multiplier, bias, x.dtype)
    return y.view(*x.shape[:-1], codes.shape[0])


def nvfp4_linear_rows(
    rows: Fp4Rows,
    codes: Tensor,
    scales: Tensor,
    multiplier: Tensor,
    bias: Tensor | None = None,
    dtype: torch.dtype = torch.bfloat16,
) -> Tensor:
    """The same for M rows that are quantised already -> `[M, N]` of `dtype`."""
    return nvfp4_matmul(rows.codes, rows.scales, rows.multiplier, codes, scales, multiplier, bias, dtype)


def check_shapes(codes: Tensor, scales: Tensor, multiplier: Tensor | None, columns: int) -> None:
    """Raises UsageError unless codes `[rows, columns / 2]`, their scales and multipliers fit together."""
    rows = codes.shape[0]
    fits = columns % FP4_BLOCK == 0 and codes.shape[1] * 2 == columns
    groups = columns // FP4_BLOCK
    fits &= scales.numel() == (rows * groups if scales.dim() == 2 else swizzled_size(rows, groups))
    fits &= multiplier is None or multiplier.numel() in (1, rows)
    if not fits:
        given = [list(x.shape) for x in (codes, scales, multiplier) if x is not None]
        raise UsageError(f"NVFP4 codes, scales and multipliers of {given} do not fit {columns} columns")


def nvfp4_matmul_reference(x, x_scales, x_multiplier, codes, scales, multiplier, bias, dtype):
    """What `nvfp4_matmul` computes: everything decoded, then one product in fp64."""
    x = x.double() if x_scales is None else _decoded(x, x_scales).double() * x_multiplier.double()
    y = x @ (_decoded(codes, scales).double() * multiplier.double().view(-1, 1)).T
    return (y if bias is None else y + bias.double()).to(dtype)


def _decoded(codes: Tensor, scales: Tensor) -> Tensor:
    if scales.dim() == 1:
        scales = unswizzle_scales(scales, codes.shape[0], codes.shape[1] * 2 // FP4_BLOCK)
    return decode_nvfp4(codes, scales)


def _torch_form(x, x_scales, x_multiplier, codes, scales, multiplier, bias, dtype):
    check_shapes(codes, scales, multiplier, x.shape[1] if x_scales is None else x.shape[1] * 2)
    x = x.float() if x_scales is None else _decoded(x, x_scales)
    y = F.linear(x, _decoded(codes, scales)) * multiplier.view(1, -1)
    y = y if x_multiplier is None else y * x_multiplier
    return (y if bias is None else y + bias.float()).to(dtype)


def _launch(
    x: Tensor, x_scales: Tensor | None, x_multiplier: Tensor | None, codes: Tensor, scales: Tensor, multiplier: Tensor,
    bias: Tensor | None, dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    from ocria.ops.kernels.quant_nvfp4 import launch

    return launch(x, x_scales, x_multiplier, codes, scales, multiplier, bias, dtype)


def _fake(x, x_scales, x_multiplier, codes, scales, multiplier, bias, dtype):
    return x.new_empty(x.shape[0], codes.shape[0], dtype=dtype)


nvfp4_matmul = register("nvfp4_matmul", torch_form=_torch_form, launch=_launch, fake=_fake)
"""nvfp4_matmul(x, x_scales, x_multiplier, codes, scales, multiplier, bias, dtype) -> `[M, N]` of dtype

x `[M, K]` bf16 or fp32, contiguous in K, with x_scales and x_multiplier None; or codes uint8 `[M, K / 2]` with scales
like those of weights and a multiplier fp32 of one element. The others as in `nvfp4_linear`.
"""
