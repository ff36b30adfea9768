"""GPTQ (arXiv 2210.17323): columns are rounded one after the other, and those that follow make up for the error.

The scales stay those that the weight got when it was rounded to nearest, so the result is a weight like any other.
"""

from collections.abc import Callable
from dataclasses import replace

import torch

from ocria.errors import CheckpointError, UsageError
from ocria.ops.quant_grid import from_e2m1, pack_fp4
from ocria.quant.codes import decode_fp8, encode_fp4, encode_fp8
from ocria.quant.round import row_chunks
from ocria.quant.tensors import BLOCK, GROUP, Fp8Weight, Weight

_COLUMNS = 128
"""Columns after which the error reaches those beyond, as one product."""


def gptq(
    weight: torch.Tensor,
    rounded: Weight,
    hessian: torch.Tensor,
    *,
    steps: torch.Tensor | None = None,
    damping: float = 0.01,
    act_order: bool = True,
) -> Weight:
    """The weight `[N, K]` with the scales of `rounded` and codes that leave a smaller error behind the layer.

    hessian: fp32 `[K, K]`, 2 X^T X / n of the layer's input. steps: of an NVFP4 weight, fp32 `[N, K / 16]`, what a code
    of 1 is worth in a block (`nvfp4_grid(...).step`). damping: what is added to the diagonal, as a share of its mean;
    columns that were always 0 count like the mean. act_order: columns of the largest inputs first. With a hessian
    that is diagonal the codes are those of `rounded`, to the bit.
    Raises CheckpointError for a hessian of other size or with NaN or infinity, UsageError for missing steps.
    """
    rows, columns = rounded.shape
    if hessian.shape != (columns, columns) or not hessian.isfinite().all():
        raise CheckpointError(f"a hessian of {list(hessian.shape)} does not fit {columns} columns, or is not finite")
    diagonal = hessian.diagonal()
    order = torch.arange(columns, device=weight.device)
    if act_order:
        order = diagonal.argsort(descending=True, stable=True)
    factor = _inverse_factor(hessian, order, damping)
    if isinstance(rounded, Fp8Weight):
        steps, width = _fp8_steps(rounded), BLOCK if rounded.granularity == "block" else columns
        encode, decode = _fp8_code, _fp8_value
    else:
        width, encode, decode = GROUP, encode_fp4, from_e2m1
        if steps is None:
            raise UsageError("the steps of an NVFP4 weight are missing")
    codes = torch.empty((rows, columns), dtype=torch.uint8, device=weight.device)
    for part in row_chunks(weight):
        turned = weight[part].float().T[order].contiguous()
        found = _round_columns(turned, steps[part].T.contiguous(), order // width, factor, encode, decode)
        codes[part, order] = found.T
    if isinstance(rounded, Fp8Weight):
        return replace(rounded, codes=codes.view(torch.float8_e4m3fn))
    return replace(rounded, codes=pack_fp4(codes))


def _round_columns(
    weight: torch.Tensor,
    steps: torch.Tensor,
    group: torch.Tensor,
    factor: torch.Tensor,
    encode: Callable[[torch.Tensor], torch.Tensor],
    decode: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Codes uint8 `[K, N]`. weight fp32 `[K, N]`, a row for each column of the layer, in the order of rounding, is
    overwritten; steps `[G, N]`; group `[K]`: which of them a column has; factor `[K, K]`, upper triangular."""
    codes = torch.empty(weight.shape, dtype=torch.uint8, device=weight.device)
    for start in range(0, len(weight), _COLUMNS):
        end = min(start + _COLUMNS, len(weight))
        errors = torch.empty_like(weight[start:end])
        for index in range(start, end):
            step = steps[group[index]]
            codes[index] = encode(weight[index] / step)
            error = (weight[index] - decode(codes[index]) * step) / factor[index, index]
            weight[index + 1 : end].addr_(factor[index, index + 1 : end], error, alpha=-1)
            errors[index - start] = error
        weight[end:].addmm_(factor[start:end, end:].T, errors, alpha=-1)
    return codes


def _inverse_factor(hessian: torch.Tensor, order: torch.Tensor, damping: float) -> torch.Tensor:
    """The upper Cholesky factor of the damped hessian's inverse, its columns in this order, fp32."""
    hessian = hessian.double()
    diagonal = hessian.diagonal().clone()
    live = diagonal > 0
    mean = diagonal[live].mean() if live.any() else diagonal.new_ones(())
    hessian = hessian + torch.diag(torch.where(live, 0.0, mean) + damping * mean)
    lower = torch.linalg.cholesky(hessian[order][:, order])
    return torch.linalg.cholesky(torch.cholesky_inverse(lower), upper=True).float()


def _fp8_steps(rounded: Fp8Weight) -> torch.Tensor:
    """The scales by rows and groups of columns, `[N, G]`."""
    rows = rounded.shape[0]
    if rounded.granularity == "block":
        return rounded.scale.repeat_interleave(BLOCK, 0)[:rows]
    return rounded.scale.reshape(-1, 1).expand(rows, 1)


def _fp8_code(x: torch.Tensor) -> torch.Tensor:
    return encode_fp8(x).view(torch.uint8)


def _fp8_value(code: torch.Tensor) -> torch.Tensor:
    return decode_fp8(code.view(torch.float8_e4m3fn))
