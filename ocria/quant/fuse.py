"""Projections of one input as a single product: their quantised weights, row below row, without new rounding."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ocria.errors import CheckpointError
from ocria.quant.tensors import BLOCK, Fp8Weight, Nvfp4Weight


@dataclass(frozen=True, slots=True, eq=False)
class Nvfp4Rows:
    """Several NVFP4 weights below each other. codes, scales: as in `Nvfp4Weight`. multipliers: fp32, one for each of
    the ranges of `sizes` rows, or a single one for all of them."""

    codes: torch.Tensor
    scales: torch.Tensor
    multipliers: torch.Tensor
    sizes: tuple[int, ...]
    input_multiplier: torch.Tensor | None = None
    pre_quant_scale: torch.Tensor | None = None

    @property
    def shared(self) -> bool:
        """Whether one multiplier serves all rows."""
        return len(self.multipliers) == 1

    def row_multipliers(self) -> torch.Tensor:
        """The multiplier of each row, fp32 `[N]`."""
        if self.shared:
            return self.multipliers.expand(sum(self.sizes))
        return self.multipliers.repeat_interleave(torch.tensor(self.sizes, device=self.multipliers.device))

    def split(self) -> list[Nvfp4Weight]:
        """The weights that were merged."""
        multipliers = self.multipliers.expand(len(self.sizes))
        parts = zip(self.codes.split(self.sizes), self.scales.split(self.sizes), multipliers, strict=True)
        return [Nvfp4Weight(*part, self.input_multiplier, self.pre_quant_scale) for part in parts]


def share_global_scale(weights: Sequence[Nvfp4Weight]) -> bool:
    """Whether all have the same multiplier, to the bit."""
    return all(torch.equal(weight.multiplier, weights[0].multiplier) for weight in weights)


def merge_nvfp4(weights: Sequence[Nvfp4Weight]) -> Nvfp4Rows:
    """NVFP4 weights of one input. Raises CheckpointError when they treat the input differently."""
    first = weights[0]
    for weight in weights:
        _require(weight.shape[1] == first.shape[1], "they have different numbers of columns")
        _require(_same(weight.input_multiplier, first.input_multiplier), "their inputs have different multipliers")
        _require(_same(weight.pre_quant_scale, first.pre_quant_scale), "their inputs are scaled differently")
    multipliers = torch.stack([weight.multiplier for weight in weights])
    return Nvfp4Rows(
        torch.cat([weight.codes for weight in weights]),
        torch.cat([weight.scales for weight in weights]),
        multipliers[:1] if share_global_scale(weights) else multipliers,
        tuple(weight.shape[0] for weight in weights),
        first.input_multiplier,
        first.pre_quant_scale,
    )


def merge_fp8(weights: Sequence[Fp8Weight]) -> Fp8Weight:
    """FP8 weights of one input; where scales of whole tensors differ, the result has one for each row.

    Raises CheckpointError when they treat the input differently, or when blocks of 128 rows would not stay whole.
    """
    first = weights[0]
    for weight in weights:
        _require(weight.shape[1] == first.shape[1], "they have different numbers of columns")
        _require(weight.activations == first.activations, "their inputs are quantised in different ways")
        _require(_same(weight.input_scale, first.input_scale), "their inputs have different scales")
        _require(
            (weight.granularity == "block") == (first.granularity == "block"),
            "only some of them have a scale for each block",
        )
    codes = torch.cat([weight.codes for weight in weights])
    kept = (first.activations, first.input_scale)
    if first.granularity == "block":
        whole = all(weight.shape[0] % BLOCK == 0 for weight in weights[:-1])
        _require(whole, f"rows that are not a multiple of {BLOCK} are followed by others")
        return Fp8Weight(codes, torch.cat([weight.scale for weight in weights]), "block", *kept)
    if all(weight.granularity == "tensor" and _same(weight.scale, first.scale) for weight in weights):
        return Fp8Weight(codes, first.scale, "tensor", *kept)
    scale = torch.cat([weight.scale.expand(weight.shape[0]) for weight in weights])
    return Fp8Weight(codes, scale, "channel", *kept)


def split_fp8(weight: Fp8Weight, sizes: Sequence[int]) -> list[Fp8Weight]:
    """The weights of so many rows each. Raises CheckpointError where blocks of 128 rows would be cut."""
    kept = (weight.granularity, weight.activations, weight.input_scale)
    codes = weight.codes.split(list(sizes))
    if weight.granularity == "tensor":
        return [Fp8Weight(part, weight.scale, *kept) for part in codes]
    if weight.granularity == "channel":
        return [
            Fp8Weight(part, scale, *kept) for part, scale in zip(codes, weight.scale.split(list(sizes)), strict=True)
        ]
    whole = all(size % BLOCK == 0 for size in sizes[:-1])
    _require(whole, f"rows that are not a multiple of {BLOCK} are followed by others")
    scales = weight.scale.split([-(-size // BLOCK) for size in sizes])
    return [Fp8Weight(part, scale, *kept) for part, scale in zip(codes, scales, strict=True)]


def _same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    return one is other or (one is not None and other is not None and torch.equal(one, other))


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise CheckpointError(f"quantised weights cannot be joined: {message}")
