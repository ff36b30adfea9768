"""Small random networks of the hybrid architecture, and passes over random tokens."""

import copy
from collections.abc import Callable, Iterable

import torch
from checkpoint_made import CONFIG, VOCAB, logits

from ocria.model.config import ModelConfig
from ocria.model.network import Qwen35
from ocria.quant.calibration.awq import Folds
from ocria.quant.calibration.mappings import groups
from ocria.quant.calibration.module import quantise_module, shared_amax
from ocria.quant.calibration.statistics import collect, recorded_calls
from ocria.quant.recipe import Format, Recipe, why_high
from ocria.quant.simulate import simulated
from ocria.quant.tensors import Weight


def random_network(rng: torch.Generator, **text) -> Qwen35:
    """Plain, in fp32: grouped queries, and more value heads than key heads. Some columns of the norms are large, as
    trained ones are. text: changes to the configuration of the decoder."""
    config = copy.deepcopy(CONFIG)
    config["text_config"].update(text)
    network = Qwen35(ModelConfig.from_dict(config))
    for name, p in network.named_parameters():
        p.requires_grad_(False)
        spread = 1.0 if "embed_tokens" in name else 1.6 / p[0].numel() ** 0.5 if p.ndim > 1 else 0.3
        p.copy_(torch.randn(p.shape, generator=rng) * spread)
        if name.endswith("A_log"):
            p.abs_()
        elif name.endswith("layernorm.weight"):
            p[torch.randperm(len(p), generator=rng)[:4]] = 12.0
        elif name.endswith("linear_attn.norm.weight"):
            p.add_(1)
    return network.eval()


def random_prompts(rng: torch.Generator, lengths: Iterable[int] = (33, 40)) -> list[torch.Tensor]:
    return [torch.randint(VOCAB, (length,), generator=rng) for length in lengths]


def passes(network: Qwen35, prompts: list[torch.Tensor]) -> Callable[[], None]:
    """What makes a pass over each prompt."""

    def run() -> None:
        for ids in prompts:
            logits(network, ids)

    return run


def outputs(network: Qwen35, prompts: list[torch.Tensor]) -> torch.Tensor:
    """The logits of all prompts, one below the other."""
    return torch.cat([logits(network, ids) for ids in prompts])


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The root of the squared error over that of the squares."""
    return ((found - wanted).norm() / wanted.norm()).item()


def plan_of(network: Qwen35, format: str) -> dict[str, Format]:
    modules = {n: m.weight.shape for n, m in network.named_modules() if isinstance(m, torch.nn.Linear)}
    return Recipe("all", rules=(("*", Format(format)),)).plan({n: s for n, s in modules.items() if why_high(n) is None})


def calibrated(network: Qwen35, run: Callable[[], object], plan: dict[str, Format], **options):
    """(statistics, calls)"""
    with recorded_calls(network) as calls:
        found = collect(network, run, list(plan), **options)
    return found, calls


def quantised(network: Qwen35, plan: dict[str, Format], folds: Folds, **options) -> dict[str, Weight]:
    amax = shared_amax(network, plan)
    return {
        name: quantise_module(
            network.get_submodule(name).weight, format, folds.statistics[name], amax=amax.get(name),
            pre_quant_scale=folds.pre_quant.get(name), **options,
        )
        for name, format in plan.items()
    }  # fmt: skip


def block_errors(network: Qwen35, plan: dict[str, Format], folds: Folds, seen, calls) -> dict[str, float]:
    """The relative squared error of each parent when its members are quantised, written down anew. seen, calls: of the
    network as it is, statistics with rows to compare on, and calls of mixers."""
    weights = quantised(network, plan, folds)
    found = {}
    for group in groups(network):
        parent = network.get_submodule(group.parent)
        members = [name for name in group.consumers if name in plan]
        runs = calls.get(group.parent) or [(seen[members[0]].rows,)]
        wanted = [parent(*call) for call in runs]
        with simulated(network, {name: weights[name] for name in members}):
            got = [parent(*call) for call in runs]
        square = sum(w.square().sum() for w in wanted)
        found[group.producer] = (sum((g - w).square().sum() for g, w in zip(got, wanted, strict=True)) / square).item()
    return found
