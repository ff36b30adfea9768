"""Quantised weights on the CPU: decoded once, packed for oneDNN, and multiplied like plain ones.

There the gain of quantised weights is the file and the time to read it. To decode a weight for every product takes 2 to
100 times as long as the product, so the decoded weight is kept, in the dtype of the layer's inputs:

- fp32: code * scale, rounded once. The numbers are those of a plain fp32 layer, which is oneDNN's too.
- bf16: the codes, with their block scales in NVFP4, which are exact in bf16; the scale of the weight or of each output
  follows the product. Half the memory and about half the time. Only a scale of blocks of 128 x 128 has to come in
  before, and rounds each weight to 8 bits.

The weight is kept once, packed, where a plain layer has its parameter beside. Only compiled code reads a plain one, for
single rows: `keep_plain` gives it one.

torch's int8 product is faster for a single row and slower from 32 rows on, is exact for neither format, and would make
a request's numbers depend on its batch.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ocria.ops.linear import activate, linear, pack
from ocria.ops.quant_fp8 import is_blocks
from ocria.ops.quant_grid import decode_fp8, decode_nvfp4
from ocria.ops.quant_linear import Product
from ocria.ops.quant_rows import Fp4Rows, Rows, Target, dequantise


class Decoded(NamedTuple):
    """A weight as it is multiplied: values `[N, K]` of the working dtype, and a scale of the outputs, fp32 of one
    element or `[N]`, or None."""

    values: Tensor
    scale: Tensor | None = None


def decoded_fp8(codes: Tensor, scale: Tensor, dtype: torch.dtype) -> Decoded:
    """FP8 weights (as of `ocria.ops.quant_fp8.fp8_linear`) for inputs of dtype."""
    if dtype == torch.float32 or is_blocks(scale, *codes.shape):
        return Decoded(decode_fp8(codes, scale).to(dtype))
    return Decoded(codes.to(dtype), scale.flatten())


def decoded_nvfp4(
    codes: Tensor, scales: Tensor, multiplier: Tensor, dtype: torch.dtype, pre: Tensor | None = None
) -> Decoded:
    """NVFP4 weights (as of `ocria.ops.quant_nvfp4.nvfp4_linear`, scales not swizzled) for inputs of dtype; pre: fp32
    `[K]`, what the columns are multiplied by in place of the input."""
    values = decode_nvfp4(codes, scales)
    scale = None if dtype == torch.float32 else multiplier.flatten()
    if scale is None:
        values.mul_(multiplier.view(-1, 1))
    if pre is not None:
        values.mul_(pre)
    return Decoded(values.to(dtype), scale)


class DecodedProduct(Product):
    """Weights below each other, plain ones (a `Decoded` without a scale) among them or not.

    In bf16 a product with scales is rounded before and after them. `torch.compile` sees one operation.
    """

    def __init__(
        self, parts: Sequence[Decoded], target: Target | None = None, bias: Tensor | None = None,
        activation: str = "none",
    ):  # fmt: skip
        values = parts[0].values if len(parts) == 1 else torch.cat([part.values for part in parts])
        super().__init__(values.shape[0], target, bias, activation)
        self._scale = _joined_scale(parts)
        self._packed = pack(values)
        self._plain = values if self._packed is None else None

    @property
    def nbytes(self) -> int:
        """Of the weight, as often as it is kept."""
        once = self._plain.nbytes if self._packed is None else self._packed.nbytes
        return once if self._packed is None or self._plain is None else 2 * once

    def keep_plain(self) -> None:
        """Keep the weight in plain order too, for compiled code."""
        if self._plain is None:
            self._plain = self._packed.plain()

    def _of_plain(self, x: Tensor) -> Tensor:
        return self._product(x, None)

    def _of_rows(self, rows: Rows, lead: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        values, scale = _undone(rows, dtype)
        return self._product(values, scale).view(*lead, self.outputs)

    def _product(self, x: Tensor, row_scale: Tensor | None) -> Tensor:
        if self._scale is None and row_scale is None:
            return linear(x, self._plain, self.bias, self.activation, self._packed)
        y = linear(x, self._plain, packed=self._packed).float()
        for scale in (self._scale, row_scale):
            y = y if scale is None else y * scale
        return activate((y if self.bias is None else y + self.bias.float()).to(x.dtype), self.activation)


def _joined_scale(parts: Sequence[Decoded]) -> Tensor | None:
    if all(part.scale is None for part in parts):
        return None
    if len(parts) == 1:
        return parts[0].scale
    one = torch.ones(1, device=parts[0].values.device)
    return torch.cat([(one if part.scale is None else part.scale).expand(part.values.shape[0]) for part in parts])


def _undone(rows: Rows, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """The values `[M, K]` of rows in dtype, and what their products are to be multiplied by: exact in bf16 too, but
    where FP8 has scales for blocks."""
    if dtype == torch.float32:
        return dequantise(rows), None
    if isinstance(rows, Fp4Rows):
        return dequantise(rows._replace(multiplier=torch.ones_like(rows.multiplier))).to(dtype), rows.multiplier
    if rows.scale.dim() == 2 and rows.scale.shape[1] > 1:
        return dequantise(rows).to(dtype), None
    return rows.codes.to(dtype), rows.scale
