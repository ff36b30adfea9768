"""Quantised weights on the CPU: decoded once, packed for oneDNN, and multiplied like plain ones.

There the gain of quantised weights is the file and the time to read it. To decode a weight for every product takes 2 to
100 times as long as the product, so the decoded weight is kept, in the dtype of the layer's inputs:

- fp32: code * scale, rounded once. The numbers are those of a plain fp32 layer, which is oneDNN's too.
- bf16: the codes, with their block scales in NVFP4, which are exact in bf16; the scale of the weight or of each output
  follows the product. Half the memory and about half the time. Only a scale of blocks of 128 x 128 has to come in
  before, and rounds each weight to 8 bits.

torch's int8 product is faster for a single row and slower from 32 rows on, is exact for neither format, and would make
a request's numbers depend on its batch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ocria.ops.linear import Packed, pack
from ocria.ops.quant_fp8 import is_blocks
from ocria.ops.quant_grid import decode_fp8, decode_nvfp4


@dataclass(frozen=True, slots=True, eq=False)
class QuantPacked:
    """packed: the decoded weight `[N, K]`; scale: what its product is multiplied by, fp32 `[1]` or `[N]`, or None."""

    packed: Packed
    outputs: int
    scale: Tensor | None


def pack_fp8(codes: Tensor, scale: Tensor, dtype: torch.dtype) -> QuantPacked | None:
    """FP8 weights (as of `ocria.ops.quant_fp8.fp8_linear`) for inputs of dtype; None where oneDNN does not apply."""
    if dtype == torch.float32 or is_blocks(scale, *codes.shape):
        return _packed(decode_fp8(codes, scale).to(dtype), None)
    return _packed(codes.to(dtype), scale.flatten())


def pack_nvfp4(codes: Tensor, scales: Tensor, multiplier: Tensor, dtype: torch.dtype) -> QuantPacked | None:
    """NVFP4 weights (as of `ocria.ops.quant_nvfp4.nvfp4_linear`, scales not swizzled) for inputs of dtype; None where
    oneDNN does not apply."""
    weight = decode_nvfp4(codes, scales)
    if dtype == torch.float32:
        return _packed(weight.mul_(multiplier.view(-1, 1)), None)
    return _packed(weight.to(dtype), multiplier.flatten())


def packed_linear(x: Tensor, weight: QuantPacked, bias: Tensor | None = None) -> Tensor:
    """x `[..., K]` of the dtype that the weight was packed for -> `[..., N]`; bias `[N]` of that dtype.

    In bf16 a product with a scale is rounded before and after it. No gradient; `torch.compile` sees one operation.
    """
    fused = bias if weight.scale is None else None
    y = torch.ops.ocria.packed_linear(x, weight.packed.number, weight.outputs, fused, "none")
    if weight.scale is None:
        return y
    y = y * weight.scale if bias is None else torch.addcmul(bias.float(), y.float(), weight.scale)
    return y.to(x.dtype)


def _packed(weight: Tensor, scale: Tensor | None) -> QuantPacked | None:
    packed = pack(weight)
    return None if packed is None else QuantPacked(packed, weight.shape[0], scale)
