"""Quantised weights as the engine holds them, whatever the file called their parts."""

import math
from dataclasses import dataclass
from typing import Literal

import torch

from ocria.errors import CheckpointError
from ocria.quant.codes import decode_fp8, decode_packed_fp4

BLOCK = 128
"""Side of the blocks of FP8 weights that have a scale each; the last ones may be smaller."""
GROUP = 16
"""Weights in a row that share a scale of NVFP4."""

Granularity = Literal["tensor", "channel", "block"]
Activations = Literal["none", "static", "token", "block"]


@dataclass(frozen=True, slots=True, eq=False)
class Fp8Weight:
    """A weight `[N, K]` in FP8: `codes * scale`.

    codes: `torch.float8_e4m3fn` `[N, K]`. scale: fp32, of shape `[]` (tensor), `[N]` (channel) or
    `[ceil(N / 128), ceil(K / 128)]` (block). activations: how the input is quantised: not at all, by `input_scale`
    (fp32 `[]`), by a scale for each token, or for each 128 values of a token.
    Raises CheckpointError for parts that do not fit together.
    """

    codes: torch.Tensor
    scale: torch.Tensor
    granularity: Granularity
    activations: Activations = "token"
    input_scale: torch.Tensor | None = None

    def __post_init__(self) -> None:
        shape = {
            "tensor": (),
            "channel": self.codes.shape[:1],
            "block": tuple(math.ceil(side / BLOCK) for side in self.codes.shape),
        }[self.granularity]
        _require(self.codes.ndim == 2, f"a weight of shape {list(self.codes.shape)} has no rows and columns")
        _require(self.codes.dtype == torch.float8_e4m3fn, f"codes are {self.codes.dtype}, not E4M3")
        _require_fp32("scale", self.scale, tuple(shape))
        _require(
            (self.input_scale is not None) == (self.activations == "static"),
            f"activations are {self.activations}, and the scale of the input is "
            + ("missing" if self.input_scale is None else "given"),
        )
        if self.input_scale is not None:
            _require_fp32("input_scale", self.input_scale, ())

    @property
    def shape(self) -> tuple[int, int]:
        return tuple(self.codes.shape)

    @property
    def nbytes(self) -> int:
        """Of the weight alone, in memory."""
        return self.codes.nbytes + self.scale.nbytes

    def decode(self) -> torch.Tensor:
        """The values, fp32 `[N, K]`; each is one exact product, rounded once."""
        if self.granularity == "block":
            rows, columns = self.codes.shape
            scale = self.scale.repeat_interleave(BLOCK, 0)[:rows].repeat_interleave(BLOCK, 1)[:, :columns]
        else:
            scale = self.scale if self.granularity == "tensor" else self.scale[:, None]
        return decode_fp8(self.codes).mul_(scale)

    def dense(self) -> torch.Tensor:
        """The weight of a plain linear layer that computes the same, fp32 `[N, K]`."""
        return self.decode()


@dataclass(frozen=True, slots=True, eq=False)
class Nvfp4Weight:
    """A weight `[N, K]` in NVFP4: `codes * scales * multiplier`; K is a multiple of 16.

    codes: uint8 `[N, K / 2]`, two E2M1 codes a byte, the even index in the low half. scales: `torch.float8_e4m3fn`
    `[N, K / 16]`, not swizzled. multiplier: fp32 `[]`; files that store its reciprocal are converted.
    input_multiplier: fp32 `[]` in the same sense, for the blocks of a quantised input; None leaves the input as it is.
    pre_quant_scale: fp32 `[K]`, what the input is multiplied by before it is quantised.
    Raises CheckpointError for parts that do not fit together.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    multiplier: torch.Tensor
    input_multiplier: torch.Tensor | None = None
    pre_quant_scale: torch.Tensor | None = None

    def __post_init__(self) -> None:
        _require(self.codes.ndim == 2, f"a weight of shape {list(self.codes.shape)} has no rows and columns")
        _require(self.codes.dtype == torch.uint8, f"codes are {self.codes.dtype}, not uint8")
        _require(self.scales.dtype == torch.float8_e4m3fn, f"block scales are {self.scales.dtype}, not E4M3")
        rows, columns = self.shape
        require_groups(columns)
        blocks = (rows, columns // GROUP)
        given = tuple(self.scales.shape)
        _require(given == blocks, f"block scales of shape {list(given)} instead of {list(blocks)}")
        _require_fp32("multiplier", self.multiplier, ())
        if self.input_multiplier is not None:
            _require_fp32("input_multiplier", self.input_multiplier, ())
        if self.pre_quant_scale is not None:
            _require_fp32("pre_quant_scale", self.pre_quant_scale, (columns,))

    @property
    def shape(self) -> tuple[int, int]:
        return self.codes.shape[0], 2 * self.codes.shape[1]

    @property
    def nbytes(self) -> int:
        """Of the weight alone, in memory."""
        extra = 0 if self.pre_quant_scale is None else self.pre_quant_scale.nbytes
        return self.codes.nbytes + self.scales.nbytes + self.multiplier.nbytes + extra

    def decode(self) -> torch.Tensor:
        """The values, fp32 `[N, K]`. The product of a code and its block scale is exact; the multiplier rounds once."""
        values = decode_packed_fp4(self.codes).unflatten(1, (-1, GROUP))
        return values.mul_(decode_fp8(self.scales)[..., None]).mul_(self.multiplier).flatten(1)

    def dense(self) -> torch.Tensor:
        """The weight of a plain linear layer that computes the same from an input as it is, fp32 `[N, K]`."""
        values = self.decode()
        return values if self.pre_quant_scale is None else values.mul_(self.pre_quant_scale)


Weight = Fp8Weight | Nvfp4Weight


def require_groups(columns: int) -> None:
    """Raise CheckpointError for a number of columns that NVFP4 cannot hold."""
    _require(columns % GROUP == 0, f"{columns} columns are not a multiple of {GROUP}, which NVFP4 needs")


def _require_fp32(name: str, tensor: torch.Tensor, shape: tuple[int, ...]) -> None:
    _require(tensor.dtype == torch.float32, f"{name} is {tensor.dtype}, not fp32")
    _require(tuple(tensor.shape) == shape, f"{name} of shape {list(tensor.shape)} instead of {list(shape)}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise CheckpointError(message)
