"""From the weight of a layer and what the layer receives to the weight that is stored."""

from collections.abc import Mapping
from dataclasses import replace

import torch

from ocria.errors import CheckpointError, UsageError
from ocria.model.network import Qwen35
from ocria.ops.quant_grid import E4M3_MAX
from ocria.quant.calibration.clip import quantize_fp8_best
from ocria.quant.calibration.gptq import gptq as compensate
from ocria.quant.calibration.mappings import joined
from ocria.quant.calibration.statistics import InputStatistics
from ocria.quant.check import measure
from ocria.quant.codes import decode_fp8
from ocria.quant.recipe import Format
from ocria.quant.round import Dialect, Search, nvfp4_grid, quantize_fp8, quantize_nvfp4
from ocria.quant.tensors import Fp8Weight, Nvfp4Weight, Weight

_FLOOR = 0.01
"""What a column counts at least in a search, as a share of the mean: calibration pages do not show everything."""


def quantise_module(
    weight: torch.Tensor,
    format: Format,
    statistics: InputStatistics | None = None,
    *,
    name: str = "the layer",
    search: Search = "none",
    gptq: bool = False,
    dialect: Dialect = "compressed-tensors",
    amax: float | None = None,
    pre_quant_scale: torch.Tensor | None = None,
) -> Weight:
    """The weight `[N, K]` of a layer in this format.

    statistics: of the layer's input; needed by `gptq` (with the hessian) and by formats with a number for the input,
    the largest magnitude seen. With them a search weighs the error of a column by its mean square.
    search: how blocks of NVFP4 find their scales (`quantize_nvfp4`); FP8, for anything but `none` and `four_over_six`,
    takes `quantize_fp8_best`. amax: what joined NVFP4 layers share (`shared_amax`). pre_quant_scale: fp32 `[K]`, for
    NVFP4: the input is multiplied by it when the layer runs, and the weight divided by it here.
    A row that vanishes makes the search `sweep`, whose smallest scales keep more. Raises CheckpointError where it
    vanishes all the same, and for what the weight's quantiser refuses; UsageError for statistics that are missing.
    """
    if format.kind not in ("fp8", "nvfp4"):
        raise UsageError(f"{name}: nothing is to be done for the format {format}")
    if statistics is None and (gptq or format.scaled_input):
        raise UsageError(f"{name}: {'GPTQ' if gptq else format} needs calibration", cure="Give pages.")
    if gptq and statistics.hessian is None:
        raise UsageError(f"{name}: GPTQ needs the hessian of the input, which was not collected")
    met = weight.float()
    if pre_quant_scale is not None:
        if format.kind != "nvfp4":
            raise UsageError(f"{name}: {format} has no factors for columns of the input")
        met = met / pre_quant_scale
        statistics = statistics and statistics.divided(1 / pre_quant_scale)
    try:
        made = _made(met, format, statistics, search, gptq, dialect, amax)
    except CheckpointError as error:
        raise CheckpointError(f"{name}: {error.message}", path=error.path, cure=error.cure) from error
    rows = measure(met, made).zeroed_rows
    if rows and format.kind == "nvfp4" and search != "sweep":
        made = _made(met, format, statistics, "sweep", gptq, dialect, amax)
        rows = measure(met, made).zeroed_rows
    if rows:
        raise CheckpointError(
            f"{name}: {len(rows)} rows of outputs would become zero in {format}, the first is {rows[0]}",
            cure="Add a rule to the recipe that gives this layer another format, such as fp8-channel.",
        )
    return made if pre_quant_scale is None else replace(made, pre_quant_scale=pre_quant_scale)


def shared_amax(network: Qwen35, plan: Mapping[str, Format]) -> dict[str, float]:
    """The `amax` of each NVFP4 layer that is computed as one product with others, by the weights as they are now."""
    found = {}
    for names in joined(network):
        members = [name for name in names if name in plan and plan[name].kind == "nvfp4"]
        sizes = [network.get_submodule(name).weight.abs().max().item() for name in members]
        found.update({name: max(sizes) for name in members})
    return found


def _made(
    weight: torch.Tensor,
    format: Format,
    statistics: InputStatistics | None,
    search: Search,
    gptq: bool,
    dialect: Dialect,
    amax: float | None,
) -> Fp8Weight | Nvfp4Weight:
    importance = None
    if statistics is not None and search != "none" and statistics.mean_square.any():
        importance = statistics.mean_square + _FLOOR * statistics.mean_square.mean()
    if format.kind == "fp8":
        scale = None
        if format.activations == "static":
            scale = _largest_input(statistics) / E4M3_MAX
        if search in ("none", "four_over_six"):
            made = quantize_fp8(weight, format.granularity, dialect=dialect, input_scale=scale)
        else:
            found = {"dialect": dialect, "importance": importance, "input_scale": scale}
            made = quantize_fp8_best(weight, format.granularity, **found)
        return compensate(weight, made, statistics.hessian) if gptq else made
    multiplier = None
    if format.activations == "local":
        multiplier = nvfp4_grid(_largest_input(statistics), dialect).multiplier
    made = quantize_nvfp4(
        weight, dialect=dialect, search=search, amax=amax, importance=importance, input_multiplier=multiplier
    )
    if not gptq:
        return made
    largest = weight.abs().max() if amax is None else torch.tensor(amax, device=weight.device)
    grid = nvfp4_grid(largest, dialect, search)
    return compensate(weight, made, statistics.hessian, steps=grid.step(decode_fp8(made.scales)))


def _largest_input(statistics: InputStatistics) -> torch.Tensor:
    """The largest magnitude seen, fp32 `[]`; 1 for an input that was always 0."""
    amax = statistics.amax.max()
    return torch.where(amax > 0, amax, 1.0)
