"""Activation-aware scaling (AWQ, arXiv 2306.00978): columns that meet large inputs are made larger before rounding.

For every group of `mappings.groups` factors are tried that follow from the mean magnitudes x of the input and w of the
weights: x^r, and x^r / (w^(1-r) + 1e-4) as llm-compressor's duo scaling has it, r from 0 to 1; and none at all, so that
on the calibration rows nothing gets worse. What counts is the squared error of the parent's output: the mixer for the
inputs of a mixer, called again as it was recorded; the MLP for gate and up, on the sample of rows; the layer itself for
the outputs of mixers and of MLPs, where nothing but it would differ. The consumers have the formats that the plan
gives them, with their inputs quantised where those say so; what stays high is left out, as its error is none.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from ocria.errors import CheckpointError, UsageError
from ocria.model.network import Qwen35
from ocria.quant.calibration.fold import attainable, fold
from ocria.quant.calibration.mappings import Group, groups
from ocria.quant.calibration.module import quantise_module
from ocria.quant.calibration.statistics import Call, InputStatistics
from ocria.quant.recipe import Format
from ocria.quant.round import Dialect, Search
from ocria.quant.simulate import simulated
from ocria.quant.tensors import BLOCK, GROUP, Weight

STEPS = 20
"""Steps of the ratio r from 0 to 1."""
_LEAST, _MOST = 1e-4, 1e4


@dataclass(frozen=True, slots=True)
class Choice:
    """What became of a group: the form (`none`, `x` or `x/w`) and ratio of its factors, the relative squared error of
    the parent's output with plain rounding, and with these factors."""

    producer: str
    form: str
    ratio: float
    plain: float
    scaled: float


@dataclass(slots=True)
class Folds:
    """replaced: plain tensors that changed, by name, as the file has them. pre_quant: factors for the inputs of
    layers, fp32 `[K]`, for `quantise_module`. statistics: of the layers after folding. choices: one for each group."""

    replaced: dict[str, torch.Tensor] = field(default_factory=dict)
    pre_quant: dict[str, torch.Tensor] = field(default_factory=dict)
    statistics: dict[str, InputStatistics] = field(default_factory=dict)
    choices: list[Choice] = field(default_factory=list)


@torch.no_grad()
def scale(
    network: Qwen35,
    statistics: Mapping[str, InputStatistics],
    plan: Mapping[str, Format],
    calls: Mapping[str, Sequence[Call]],
    *,
    dtype: torch.dtype = torch.bfloat16,
    search: Search = "none",
    dialect: Dialect = "compressed-tensors",
    pre_quant: bool = False,
    on_group: Callable[[int, int], None] | None = None,
) -> Folds:
    """Find factors for every group with an NVFP4 consumer and fold them into the network, in place.

    network: plain, not prepared, best in fp32; afterwards it computes what it did, and its weights are those to
    quantise. statistics: `collect` of all layers in `plan`. calls: of the mixers (`recorded_calls`). dtype: of plain
    tensors in the file. search: as the weights will be quantised; for `sweep`, of hundreds of roundings, `clip` stands
    in. pre_quant: leave the factors of `out_proj` to the input at run time, one for each column, instead of folding
    those that all heads share into the norm; only the form modelopt has a place for them.
    Groups with FP8 alone stay as they are: their squared error is a tenth of NVFP4's, and as FP8 is a float, the best
    factors change little (0 to 11 % of it in eleven of twelve groups of ocria-nano).
    on_group: called with the groups that are done, and how many there are.
    Raises UsageError where statistics or calls are missing.
    """
    folds, every = Folds(statistics=dict(statistics)), groups(network)
    for done, group in enumerate(every):
        if on_group is not None:
            on_group(done, len(every))
        members = [name for name in group.consumers if name in plan]
        if not any(plan[name].kind == "nvfp4" for name in members):
            continue
        missing = [name for name in members if name not in folds.statistics]
        if group.parent.endswith(("self_attn", "linear_attn")) and not calls.get(group.parent):
            missing.append(group.parent)
        if missing:
            raise UsageError(f"nothing was recorded for {missing[0]}", cure="Collect it as well.")
        run_time = pre_quant and group.producer.endswith("linear_attn.norm")
        if run_time:
            group = replace(group, shape=(1, 1, group.columns))
        trial = _Trial(network, group, {name: plan[name] for name in members}, folds.statistics, calls, search, dialect)
        form, ratio, s, plain, scaled = _best(trial, dtype, run_time)
        folds.choices.append(Choice(group.producer, form, ratio, plain, scaled))
        if form == "none":
            continue
        if run_time:
            folds.pre_quant[members[0]] = 1 / s
            continue
        s, changed = fold(network, group, s, plan, dtype)
        folds.replaced.update(changed)
        shared = folds.statistics[members[0]]
        divided = shared.divided(group.spread(s))
        for name in members:
            own = folds.statistics[name]
            folds.statistics[name] = divided if own is shared else own.divided(group.spread(s))
    return folds


def candidates(x: torch.Tensor, w: torch.Tensor) -> Iterator[tuple[str, float, torch.Tensor]]:
    """Form, ratio and factors for columns of mean magnitudes x and w, fp32 `[F]` each. The product of the largest and
    the smallest factor is 1; columns that are always 0 have 1."""
    live = x > 0
    for step in range(STEPS + 1):
        ratio = step / STEPS
        for form in ("x", "x/w") if step else ("x/w",):
            s = x.pow(ratio)
            if form == "x/w":
                s = s / (w.pow(1 - ratio) + 1e-4)
            s = s.clamp(min=_LEAST)
            if live.any():
                s = s / (s[live].max() * s[live].min()).sqrt()
            yield form, ratio, torch.where(live, s.clamp(_LEAST, _MOST), 1.0)


def mean_weight(weights: Mapping[str, torch.Tensor], plan: Mapping[str, Format]) -> torch.Tensor:
    """The mean over all rows of magnitudes as shares of the largest that their scale serves, fp32 `[K]`."""
    total, rows = 0.0, 0
    for name, weight in weights.items():
        total = total + (weight.float().abs() / _largest(weight.float().abs(), plan[name])).sum(0)
        rows += len(weight)
    return total / rows


def _largest(magnitude: torch.Tensor, format: Format) -> torch.Tensor:
    """Of magnitudes `[N, K]`, in a shape that divides them. Blocks of FP8 are taken row by row."""
    if format.granularity == "tensor":
        largest = magnitude.max()
    elif format.granularity == "channel":
        largest = magnitude.amax(1, keepdim=True)
    else:
        size = GROUP if format.kind == "nvfp4" else BLOCK
        blocks = torch.stack([block.amax(1) for block in magnitude.split(size, 1)], 1)
        largest = blocks.repeat_interleave(size, 1)[:, : magnitude.shape[1]]
    return largest.clamp(min=torch.finfo(torch.float32).tiny)


def _best(trial: "_Trial", dtype: torch.dtype, run_time: bool) -> tuple[str, float, torch.Tensor, float, float]:
    """Form, ratio, factors, and the errors without and with them."""
    group, network = trial.group, trial.network
    x = group.mean(trial.input.mean_abs)
    w = group.mean(mean_weight(trial.weights, trial.plan))
    plain = trial.error(torch.ones_like(x), run_time)
    best = ("none", 0.0, torch.ones_like(x), plain)
    for form, ratio, s in candidates(x, w):
        s = s if run_time else attainable(network, group, s, dtype)
        try:
            error = trial.error(s, run_time)
        except CheckpointError:  # rows would vanish with these factors
            continue
        if error < best[3]:
            best = (form, ratio, s, error)
    form, ratio, s, error = best
    return form, ratio, s, plain, error


class _Trial:
    """The parent of a group with quantised consumers, compared with what it gives as it is."""

    def __init__(
        self,
        network: Qwen35,
        group: Group,
        plan: Mapping[str, Format],
        statistics: Mapping[str, InputStatistics],
        calls: Mapping[str, Sequence[Call]],
        search: Search,
        dialect: Dialect,
    ):
        self.network, self.group, self.plan = network, group, plan
        self.weights = {name: network.get_submodule(name).weight.detach().float() for name in plan}
        self.input = replace(statistics[next(iter(plan))], hessian=None)
        self._how = {"search": "clip" if search == "sweep" else search, "dialect": dialect}
        self._parent = network.get_submodule(group.parent)
        self._calls = calls.get(group.parent) or [(self.input.rows.to(network.dtype),)]
        self._wanted = [_output(self._parent, call) for call in self._calls]
        self._size = sum(wanted.square().sum(dtype=torch.float64) for wanted in self._wanted).item()

    def error(self, s: torch.Tensor, run_time: bool) -> float:
        """The squared error of the parent's output over its square, with factors s `[outer * inner]`."""
        factors = self.group.spread(s)
        with simulated(self.network, self._quantised(factors, run_time)), self._divided(None if run_time else factors):
            found = 0.0
            for call, wanted in zip(self._calls, self._wanted, strict=True):
                found += (_output(self._parent, call) - wanted).square().sum(dtype=torch.float64).item()
        return found / self._size if self._size else 0.0

    def _quantised(self, factors: torch.Tensor, run_time: bool) -> dict[str, Weight]:
        if run_time:
            ((name, weight),) = self.weights.items()
            how = {"name": name, "pre_quant_scale": 1 / factors, **self._how}
            return {name: quantise_module(weight, self.plan[name], self.input, **how)}
        scaled = {name: weight * factors for name, weight in self.weights.items()}
        met = self.input.divided(factors)
        shared = [weight.abs().max().item() for name, weight in scaled.items() if self.plan[name].kind == "nvfp4"]
        return {
            name: quantise_module(weight, self.plan[name], met, name=name, amax=max(shared, default=None), **self._how)
            for name, weight in scaled.items()
        }

    @contextmanager
    def _divided(self, factors: torch.Tensor | None) -> Iterator[None]:
        """Inside, what the quantised consumers receive is divided by the factors, as the producer will do it."""
        with ExitStack() as undo:
            for name in self.weights if factors is not None else ():
                layer = self.network.get_submodule(name)
                # Ahead of the hook that rounds the input.
                undo.callback(layer.register_forward_pre_hook(_division(factors), prepend=True).remove)
            yield


def _division(factors: torch.Tensor) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
    return lambda _, args: ((args[0] / factors).to(args[0].dtype), *args[1:])


def _output(parent: nn.Module, call: tuple[Any, ...]) -> torch.Tensor:
    """What it gives, fp32, without the rows of padding."""
    output = parent(*call).float()
    valid = call[1].valid if len(call) > 1 else None
    return output if valid is None else output[valid]
