"""From fp32 or bf16 weights to quantised ones: the choice of scales, and the rounding.

The scales of the plain choice are bit for bit those of the two tools whose files are common. They differ in the order
of the operations and in the blocks of zeros: compressed-tensors gives those a small number, ModelOpt a one.
"""

from collections.abc import Iterator
from typing import Literal

import torch
import torch.nn.functional as F

from ocria.errors import CheckpointError
from ocria.ops.quant_grid import E2M1_MAX, E4M3_MAX, from_e2m1, pack_fp4
from ocria.quant.codes import FP8_TINY, encode_fp4, encode_fp8
from ocria.quant.tensors import BLOCK, GROUP, Activations, Fp8Weight, Granularity, Nvfp4Weight, require_groups

Dialect = Literal["compressed-tensors", "modelopt"]
Search = Literal["none", "four_over_six", "clip", "sweep"]

CLIP_RATIOS = tuple(1 - step / 20 for step in range(11))
"""Shares of the largest number of a block, 1 to 0.5, that `clip` tries as the largest that is not clipped."""
_HEADROOM = 256.0
"""In place of 448 where a block scale may become 6/4 of the plain one."""
_CHUNK = 1 << 24  # weights at a time: temporary tensors stay small beside a large weight
_CODES = 126  # the largest number of E4M3, 448
_BELOW, _ABOVE = 14, 12  # codes of scales; 8 of them double it


def quantize_fp8(
    weight: torch.Tensor,
    granularity: Granularity,
    *,
    dialect: Dialect = "compressed-tensors",
    activations: Activations | None = None,
    input_scale: torch.Tensor | None = None,
    scale: torch.Tensor | None = None,
) -> Fp8Weight:
    """A weight `[N, K]` in FP8.

    activations: None for what goes with the granularity: `static` with an `input_scale` (fp32 `[]`), else `block` for
    blocks and `token`. scale: fp32 of the shape that goes with the granularity; None: the largest magnitude that each
    serves over 448. Raises CheckpointError for a weight that is no matrix or holds NaN or infinity.
    """
    _check(weight)
    if scale is None:
        scale = _amax(weight, granularity) / E4M3_MAX
        scale = torch.where(scale == 0, 1.0 if dialect == "modelopt" else torch.finfo(torch.float32).eps, scale)
    codes = torch.empty(weight.shape, dtype=torch.float8_e4m3fn, device=weight.device)
    for rows in row_chunks(weight):
        codes[rows] = encode_fp8(weight[rows].float() / spread_scale(scale, granularity, rows, weight.shape[1]))
    if activations is None:
        activations = "static" if input_scale is not None else "block" if granularity == "block" else "token"
    return Fp8Weight(codes, scale, granularity, activations, input_scale)


def quantize_nvfp4(
    weight: torch.Tensor,
    *,
    dialect: Dialect = "compressed-tensors",
    search: Search = "none",
    amax: float | torch.Tensor | None = None,
    importance: torch.Tensor | None = None,
    input_multiplier: torch.Tensor | None = None,
    pre_quant_scale: torch.Tensor | None = None,
) -> Nvfp4Weight:
    """A weight `[N, K]` in NVFP4; K is a multiple of 16.

    search: how a block finds its scale: its largest number becomes a 6 (none), or a 6 or a 4, or one of CLIP_RATIOS of
    it a 6, or all 126 scales compete; of those tried the one of the smallest squared error is kept, and the plain
    one when it is as good. importance: fp32 `[K]`, what the error of a column counts. amax: the largest magnitude that
    the multiplier serves, for weights that must share theirs; None: that of this weight.
    pre_quant_scale is stored, not applied: the weight is divided by it already.
    Raises CheckpointError for a weight that is no matrix, holds NaN or infinity, or has columns left over.
    """
    _check(weight)
    require_groups(weight.shape[1])
    largest = _amax(weight, "tensor")
    if amax is not None:
        amax = torch.as_tensor(amax, dtype=torch.float32, device=weight.device).reshape(())
        if not amax >= largest:
            raise CheckpointError(f"the largest magnitude is {largest:g}, and {amax:g} was given as that")
        largest = amax
    grid = nvfp4_grid(largest, dialect, search)
    rows, columns = weight.shape
    codes = torch.empty((rows, columns // 2), dtype=torch.uint8, device=weight.device)
    scales = torch.empty((rows, columns // GROUP), dtype=torch.float8_e4m3fn, device=weight.device)
    if importance is not None:
        importance = importance.float().view(-1, GROUP)
    for part in row_chunks(weight):
        blocks = weight[part].float().unflatten(1, (-1, GROUP))
        tried = _candidates(grid, blocks.abs().amax(-1), search, importance is not None)
        scale, code = _best(grid, blocks, tried, importance)
        scales[part], codes[part] = encode_fp8(scale), pack_fp4(code.flatten(1))
    return Nvfp4Weight(codes, scales, grid.multiplier, input_multiplier, pre_quant_scale)


def nvfp4_grid(amax: torch.Tensor, dialect: Dialect, search: Search = "none") -> "_CompressedTensors | _ModelOpt":
    """The scales that serve magnitudes up to amax, fp32 `[]`: `.multiplier`, `.scale(amax of a block)` and
    `.step(scale)`, by which `quantize_nvfp4` divides the weights of a block."""
    top = _HEADROOM if search == "four_over_six" else E4M3_MAX
    return (_CompressedTensors if dialect == "compressed-tensors" else _ModelOpt)(amax, top)


class _CompressedTensors:
    """Scales of compressed-tensors: the file holds the reciprocal of the multiplier, and everything is divided by it.

    amax: fp32 `[]`; top: the block scale that the block with the largest number gets.
    """

    def __init__(self, amax: torch.Tensor, top: float):
        divisor = top * E2M1_MAX / amax.clamp(min=torch.finfo(torch.float32).tiny)
        self.divisor = torch.where(divisor.isfinite(), divisor, 1.0)
        self.multiplier = 1 / self.divisor

    def scale(self, amax: torch.Tensor, to: float = E2M1_MAX) -> torch.Tensor:
        """The block scale, a number of E4M3 in fp32, that makes `amax` the number `to`."""
        scale = encode_fp8(self.divisor * (amax / to)).float()
        return torch.where(scale == 0, 0.125, scale)

    def step(self, scale: torch.Tensor) -> torch.Tensor:
        """What a code of 1 is worth in a block of this scale."""
        return scale / self.divisor


class _ModelOpt:
    """Scales of ModelOpt, which stores the multiplier itself. It has none for a weight of zeros: that gets a one."""

    def __init__(self, amax: torch.Tensor, top: float):
        multiplier = amax / (E2M1_MAX * top)
        self.multiplier = torch.where(multiplier == 0, 1.0, multiplier)

    def scale(self, amax: torch.Tensor, to: float = E2M1_MAX) -> torch.Tensor:
        scale = amax / (to * self.multiplier)
        return encode_fp8(torch.where(scale == 0, 1.0, scale).clamp(FP8_TINY, E4M3_MAX)).float()

    def step(self, scale: torch.Tensor) -> torch.Tensor:
        return scale * self.multiplier


def _candidates(grid, amax: torch.Tensor, search: str, thorough: bool) -> Iterator[torch.Tensor]:
    """Scales to try for blocks of these largest magnitudes, the plain one first. thorough: all there are in a sweep."""
    yield grid.scale(amax)
    if search == "four_over_six":
        yield grid.scale(amax, 4.0)
    elif search == "clip":
        for ratio in CLIP_RATIOS[1:]:
            yield grid.scale(ratio * amax)
    elif search == "sweep":
        # Far from the plain scale there is nothing to find, unless some errors hardly count: from 2.5 times it on, a
        # block has the same values with half the scale, and below a third of it clipping costs more than all rounding.
        plain = encode_fp8(amax / (E2M1_MAX * grid.step(torch.ones_like(amax)))).view(torch.uint8).int()
        low, high = (-_CODES, _CODES) if thorough else (-_BELOW, _ABOVE)
        for offset in range(low, high + 1):
            yield (plain + offset).clamp(1, _CODES).to(torch.uint8).view(torch.float8_e4m3fn).float()


def _best(grid, blocks: torch.Tensor, tried: Iterator[torch.Tensor], importance: torch.Tensor | None):
    """The scale of each block `[N, G]` and its codes `[N, G, 16]`."""

    def encode(scale: torch.Tensor) -> torch.Tensor:
        return encode_fp4(blocks / grid.step(scale)[..., None])

    def error(scale: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
        squares = (blocks - from_e2m1(code) * grid.step(scale)[..., None]).square_()
        return (squares if importance is None else squares.mul_(importance)).sum(-1)

    best, least = next(tried), None
    code = encode(best)
    for scale in tried:
        least = error(best, code) if least is None else least
        other = encode(scale)
        found = error(scale, other)
        better = found < least
        best, least = torch.where(better, scale, best), torch.where(better, found, least)
        code = torch.where(better[..., None], other, code)
    return best, code


def _amax(weight: torch.Tensor, granularity: Granularity) -> torch.Tensor:
    """The largest magnitude that each scale serves, fp32 of the scale's shape."""
    magnitude = weight.abs()
    if granularity == "tensor":
        return magnitude.amax().float() if weight.numel() else torch.zeros((), device=weight.device)
    if granularity == "channel":
        return magnitude.amax(1).float()
    rows, columns = weight.shape
    padded = F.pad(magnitude, (0, -columns % BLOCK, 0, -rows % BLOCK))
    return padded.unflatten(1, (-1, BLOCK)).unflatten(0, (-1, BLOCK)).amax((1, 3)).float()


def spread_scale(scale: torch.Tensor, granularity: Granularity, rows: slice, columns: int) -> torch.Tensor:
    """The scale of every weight in these rows, in a shape that divides them."""
    if granularity == "tensor":
        return scale
    if granularity == "channel":
        return scale[rows, None]
    index = torch.arange(rows.start, rows.stop, device=scale.device) // BLOCK
    return scale[index].repeat_interleave(BLOCK, 1)[:, :columns]


def row_chunks(weight: torch.Tensor) -> Iterator[slice]:
    """Ranges of rows of a matrix that are worth computing with at a time."""
    step = max(1, _CHUNK // max(1, weight.shape[1]))
    return (slice(start, min(start + step, len(weight))) for start in range(0, len(weight), step))


def _check(weight: torch.Tensor) -> None:
    if weight.ndim != 2 or not weight.is_floating_point():
        raise CheckpointError(f"a {weight.dtype} tensor of shape {list(weight.shape)} is not a matrix of numbers")
    if not all(weight[part].isfinite().all() for part in row_chunks(weight)):
        raise CheckpointError("NaN or infinity among the weights", cure="Was the checkpoint saved whole?")
