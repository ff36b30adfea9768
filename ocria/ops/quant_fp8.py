"""Linear layers with FP8 weights: `x @ (codes * scale).T + bias`.

The scale of the weights is one number, one for each output or one for each block of 128 x 128; the activations stay as
they are (W8A16) or are e4m3 too, with one scale, one for each row or one for each 128 columns of a row. Products of
codes are exact in fp32 and summed in fp32. Scales that do not vary along K come in after the sum.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ocria.errors import UsageError
from ocria.ops.quant_grid import FP8_BLOCK, decode_fp8
from ocria.ops.quant_rows import Fp8Rows, Target, quantise
from ocria.ops.register import register


def fp8_linear(
    x: Tensor, codes: Tensor, scale: Tensor, bias: Tensor | None = None, activations: Target | None = None
) -> Tensor:
    """x `[..., K]` -> `[..., N]`, both of one dtype.

    codes float8_e4m3fn `[N, K]`; scale fp32 of one element, of `[N]` or `[N, 1]`, or of blocks
    `[ceil(N / 128), ceil(K / 128)]`; bias `[N]`. activations: what to quantise x to first; None: nothing. Raises
    UsageError where a scale fits none of these.
    """
    if activations is not None:
        return fp8_linear_rows(quantise(x, activations), codes, scale, bias, x.dtype).view(*x.shape[:-1], -1)
    flat = x.reshape(-1, x.shape[-1])
    return fp8_matmul(flat, None, codes, scale, bias, x.dtype).view(*x.shape[:-1], codes.shape[0])


def fp8_linear_rows(
    rows: Fp8Rows, codes: Tensor, scale: Tensor, bias: Tensor | None = None, dtype: torch.dtype = torch.bfloat16
) -> Tensor:
    """The same for M rows that are quantised already -> `[M, N]` of `dtype`."""
    return fp8_matmul(rows.codes, rows.scale, codes, scale, bias, dtype)


def is_blocks(scale: Tensor, rows: int, columns: int) -> bool:
    """Whether the scale of codes `[rows, columns]` is one of blocks. Raises UsageError when it fits nothing."""
    if scale.numel() == 1 or (scale.numel() == rows and scale.shape[0] == rows):
        return False
    if scale.shape != (-(-rows // FP8_BLOCK), -(-columns // FP8_BLOCK)):
        raise UsageError(f"a scale of {list(scale.shape)} does not fit FP8 codes of {[rows, columns]}")
    return True


def fp8_matmul_reference(x, x_scale, codes, scale, bias, dtype):
    """What `fp8_matmul` computes: everything decoded, then one product in fp64."""
    x = x.double()
    if x_scale is not None:
        if x_scale.dim() == 2:
            x_scale = x_scale.repeat_interleave(FP8_BLOCK, 1)[:, : x.shape[1]] if x_scale.shape[1] > 1 else x_scale
        x = x * x_scale.double()
    y = x @ decode_fp8(codes, scale.double()).T
    return (y if bias is None else y + bias.double()).to(dtype)


def _torch_form(x, x_scale, codes, scale, bias, dtype):
    x, (rows, columns) = x.float(), codes.shape
    if x_scale is not None and x_scale.dim() == 2 and x_scale.shape[1] > 1:
        x, x_scale = x * x_scale.repeat_interleave(FP8_BLOCK, 1)[:, :columns], None
    if is_blocks(scale, rows, columns):
        y = F.linear(x, decode_fp8(codes, scale))
    else:
        y = F.linear(x, codes.float()) * scale.view(1, -1)
    y = y if x_scale is None else y * x_scale
    return (y if bias is None else y + bias.float()).to(dtype)


def _launch(
    x: Tensor, x_scale: Tensor | None, codes: Tensor, scale: Tensor, bias: Tensor | None, dtype: torch.dtype
) -> Tensor:
    from ocria.ops.kernels.quant_fp8 import launch

    return launch(x, x_scale, codes, scale, bias, dtype)


fp8_matmul = register(
    "fp8_matmul",
    torch_form=_torch_form,
    launch=_launch,
    fake=lambda x, x_scale, codes, scale, bias, dtype: x.new_empty(x.shape[0], codes.shape[0], dtype=dtype),
)
"""fp8_matmul(x, x_scale, codes, scale, bias, dtype) -> `[M, N]` of dtype

x `[M, K]`: bf16 or fp32 with x_scale None, or float8_e4m3fn with x_scale fp32 `[1]`, `[M, 1]` or `[M, ceil(K / 128)]`;
contiguous in K. codes, scale and bias as in `fp8_linear`, codes contiguous.
"""
