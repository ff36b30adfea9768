"""A plain model and what its layers receive: any plan can be tried on it, measured, and taken back."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch

from ocria.model.checkpoint import LoadedModel
from ocria.quant.calibration.awq import scale
from ocria.quant.calibration.module import quantise_module, shared_amax
from ocria.quant.calibration.pages import Sample
from ocria.quant.calibration.passes import Passes
from ocria.quant.calibration.statistics import Call, InputStatistics, collect, recorded_calls
from ocria.quant.recipe import Format, Recipe, why_high
from ocria.quant.search.divergence import Divergence, Reference
from ocria.quant.simulate import simulated
from ocria.quant.step_bytes import linear_shapes, parts_of_plan, step_bytes
from ocria.quant.tensors import Weight

OnPass = Callable[[int, int], None]


class Scene:
    """loaded: plain and not prepared. held_out: what losses are measured on. calibration: what statistics and scalings
    are found on, none of the held-out ones; without it recipes that need pages are refused (UsageError). dtype: of
    plain tensors in the checkpoint.

    `settings` of a recipe, wherever one is given, are its scaling, its block scales and its form; GPTQ and the scales
    of the cache, which no pass without a state uses, are left out.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        held_out: Sequence[Sample],
        calibration: Sequence[Sample] = (),
        dtype: torch.dtype = torch.bfloat16,
    ):
        self.network, self.dtype = loaded.network, dtype
        self.shapes = linear_shapes(self.network)
        self.modules = [name for name in self.shapes if why_high(name) is None]
        self.reference = Reference(Passes(loaded, held_out), len(held_out))
        self._statistics: dict[str, InputStatistics] = {}
        self._calls: dict[str, list[Call]] = {}
        if calibration:
            passes = Passes(loaded, calibration)
            with recorded_calls(self.network) as self._calls:
                self._statistics = collect(self.network, passes.run, self.modules)

    def nbytes(self, plan: Mapping[str, Format]) -> int:
        """Bytes of weights that a decode step reads."""
        return step_bytes(parts_of_plan(self.network, plan, self.dtype))

    def loss(self, plan: Mapping[str, Format], settings: Recipe, on_pass: OnPass | None = None) -> Divergence:
        """How far the model moves with these formats; afterwards it is as it was, to the bit."""
        with self._scaled(plan, settings) as (statistics, factors):
            amax = shared_amax(self.network, plan)
            weights = {
                name: self._weight(name, format, settings, statistics, amax, factors) for name, format in plan.items()
            }
            with simulated(self.network, weights):
                return self.reference.compare(on_pass)

    @contextmanager
    def _scaled(
        self, plan: Mapping[str, Format], settings: Recipe
    ) -> Iterator[tuple[Mapping[str, InputStatistics], Mapping[str, torch.Tensor]]]:
        """The network with magnitude moved as the recipe says; what its layers receive, and factors of inputs."""
        if settings.scaling == "none" or not any(format.kind == "nvfp4" for format in plan.values()):
            yield self._statistics, {}
            return
        kept = {name: value.clone() for name, value in self.network.model.language_model.named_parameters()}
        try:
            folds = scale(
                self.network, self._statistics, plan, self._calls, dtype=self.dtype, search=settings.block_scales,
                dialect=settings.form, pre_quant=settings.form == "modelopt",
            )  # fmt: skip
            yield folds.statistics, folds.pre_quant
        finally:
            with torch.no_grad():
                for name, value in self.network.model.language_model.named_parameters():
                    value.copy_(kept[name])

    def _weight(
        self,
        name: str,
        format: Format,
        settings: Recipe,
        statistics: Mapping[str, InputStatistics],
        amax: Mapping[str, float],
        factors: Mapping[str, torch.Tensor],
    ) -> Weight:
        plain = self.network._head() if name == "lm_head" else self.network.get_submodule(name).weight
        return quantise_module(
            plain.detach(), format, statistics.get(name), name=name, search=settings.block_scales,
            dialect=settings.form, amax=amax.get(name), pre_quant_scale=factors.get(name),
        )  # fmt: skip
