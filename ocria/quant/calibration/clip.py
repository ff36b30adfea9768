"""Scales of FP8 weights, chosen by the error that they leave.

NVFP4 has its search in `ocria.quant.round`. FP8 is a float: a smaller scale, which clips, only loses (2.64 % of error
becomes 2.67 % at 0.95 and 2.79 % at 0.9, of Gaussian numbers), and twice a scale is the same grid. Between one and two
times the plain scale nothing is clipped, and large weights may fall on better numbers: the best of 16 such scales for
each row leaves 2.57 %, and 2.39 to 2.49 % on matrices of ocria-nano.
"""

import torch
import torch.nn.functional as F

from ocria.quant.codes import decode_fp8, encode_fp8
from ocria.quant.round import Dialect, quantize_fp8, row_chunks, spread_scale
from ocria.quant.tensors import BLOCK, Fp8Weight, Granularity

SCALE_RATIOS = tuple(2 ** (step / 16) for step in range(16))
"""Multiples of the plain scale that are tried."""


def quantize_fp8_best(
    weight: torch.Tensor,
    granularity: Granularity,
    *,
    dialect: Dialect = "compressed-tensors",
    importance: torch.Tensor | None = None,
    input_scale: torch.Tensor | None = None,
) -> Fp8Weight:
    """A weight `[N, K]` in FP8 as of `quantize_fp8`, each scale the best of `SCALE_RATIOS` by the squared error; the
    plain one where it is as good. importance: fp32 `[K]`, what the error of a column counts."""
    plain = quantize_fp8(weight, granularity, dialect=dialect, input_scale=input_scale)
    best, least = plain.scale, _errors(weight, plain.scale, granularity, importance)
    for ratio in SCALE_RATIOS[1:]:
        scale = plain.scale * ratio
        error = _errors(weight, scale, granularity, importance)
        better = error < least
        best, least = torch.where(better, scale, best), torch.where(better, error, least)
    return quantize_fp8(weight, granularity, input_scale=input_scale, scale=best)


def _errors(
    weight: torch.Tensor, scale: torch.Tensor, granularity: Granularity, importance: torch.Tensor | None
) -> torch.Tensor:
    """The squared error that each scale leaves, fp64 of the scale's shape."""
    rows, columns = weight.shape
    parts = []
    for part in row_chunks(weight):
        steps = spread_scale(scale, granularity, part, columns)
        values = weight[part].float()
        squares = (decode_fp8(encode_fp8(values / steps)) * steps - values).square_()
        squares = squares if importance is None else squares.mul_(importance)
        if granularity == "block":
            squares = F.pad(squares, (0, -columns % BLOCK)).unflatten(1, (-1, BLOCK))
        parts.append(squares.sum(-1, dtype=torch.float64))
    error = torch.cat(parts)  # of rows, or of rows by blocks of columns
    if granularity == "block":
        return F.pad(error, (0, 0, 0, -rows % BLOCK)).unflatten(0, (-1, BLOCK)).sum(1)
    return error.sum() if granularity == "tensor" else error
