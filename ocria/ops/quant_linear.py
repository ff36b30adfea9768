"""Products with quantised weights, as layers use them.

A product may want its input quantised (`feed`). What makes the input, a norm or a gate, then does that in the same pass
(`ocria.ops.quant_rows`) and hands on a `Fed` in place of a tensor; an input that comes as a tensor is quantised first.
The result is the same.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ocria.ops.linear import activate
from ocria.ops.quant_fp8 import fp8_linear, fp8_linear_rows
from ocria.ops.quant_nvfp4 import nvfp4_linear, nvfp4_linear_rows
from ocria.ops.quant_rows import Rows, Target, quantise


class Feed(NamedTuple):
    """How an input is wanted: quantised to `target`, and with `keep` also as it is."""

    target: Target
    keep: bool = False


class Fed(NamedTuple):
    """An input `[..., K]` that was quantised where it was made. kept: as it is, where that was wanted; lead: all of its
    shape but K; dtype: what it would have, and its products have."""

    rows: Rows
    kept: Tensor | None
    lead: tuple[int, ...]
    dtype: torch.dtype


class Product:
    """`activation(x @ weight.T + bias)` with a weight `[N, K]` that is not a plain tensor. target: what the input is
    quantised to, or None; feed: the same for what makes the input."""

    def __init__(self, outputs: int, target: Target | None, bias: Tensor | None, activation: str):
        self.outputs, self.target, self.bias, self.activation = outputs, target, bias, activation
        self.feed = None if target is None else Feed(target)

    def __call__(self, x: Tensor | Fed) -> Tensor:
        """x `[..., K]`, or what was made of it by `feed` -> `[..., N]` of its dtype. No gradient."""
        if isinstance(x, Fed):
            return self._of_rows(x.rows, x.lead, x.dtype)
        if self.target is not None:
            return self._of_rows(quantise(x, self.target), x.shape[:-1], x.dtype)
        return self._of_plain(x)

    def _of_rows(self, rows: Rows, lead: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        raise NotImplementedError

    def _of_plain(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class Fp8Product(Product):
    """codes and scale as of `fp8_linear`."""

    def __init__(self, codes: Tensor, scale: Tensor, target: Target | None, bias: Tensor | None, activation: str):
        super().__init__(codes.shape[0], target, bias, activation)
        self.codes, self.scale = codes, scale

    def _of_rows(self, rows: Rows, lead: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        y = fp8_linear_rows(rows, self.codes, self.scale, self.bias, dtype)
        return activate(y.view(*lead, self.outputs), self.activation)

    def _of_plain(self, x: Tensor) -> Tensor:
        return activate(fp8_linear(x, self.codes, self.scale, self.bias), self.activation)


class Nvfp4Product(Product):
    """codes, scales and multiplier as of `nvfp4_linear`; pre: fp32 `[K]`, what an input that stays plain is multiplied
    by first, or None."""

    def __init__(
        self, codes: Tensor, scales: Tensor, multiplier: Tensor, target: Target | None, pre: Tensor | None,
        bias: Tensor | None, activation: str,
    ):  # fmt: skip
        super().__init__(codes.shape[0], target, bias, activation)
        self.codes, self.scales, self.multiplier, self.pre = codes, scales, multiplier, pre

    def _of_rows(self, rows: Rows, lead: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        y = nvfp4_linear_rows(rows, self.codes, self.scales, self.multiplier, self.bias, dtype)
        return activate(y.view(*lead, self.outputs), self.activation)

    def _of_plain(self, x: Tensor) -> Tensor:
        if self.pre is not None:
            x = (x.float() * self.pre).to(x.dtype)
        return activate(nvfp4_linear(x, self.codes, self.scales, self.multiplier, self.bias), self.activation)
