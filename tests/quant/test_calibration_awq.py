"""AWQ: its factors by an independent computation, what they win, and that the network computes what it did."""

import copy

import pytest
import torch
from networks_made import block_errors, calibrated, outputs, passes, plan_of, random_network, random_prompts, relative

from ocria.errors import UsageError
from ocria.quant.calibration.awq import STEPS, candidates, mean_weight, scale
from ocria.quant.calibration.mappings import groups
from ocria.quant.calibration.module import quantise_module
from ocria.quant.recipe import Format

LAYER = "model.language_model.layers."


@pytest.fixture
def coarse(monkeypatch):
    """Fewer ratios: the search is tested, not its fineness."""
    monkeypatch.setattr("ocria.quant.calibration.awq.STEPS", 4)


def test_factors_are_those_of_the_published_formula(rng):
    """llm-compressor's loop: x^r / (w^(1-r) + 1e-4) or x^r, at least 1e-4, over sqrt(max * min)."""
    x = torch.exp(2 * torch.randn(40, generator=rng))
    w = torch.rand(40, generator=rng)
    found = {(form, round(ratio * STEPS)): s for form, ratio, s in candidates(x, w)}
    assert len(found) == 2 * STEPS + 1
    for step in range(STEPS + 1):
        r = step / STEPS
        duo = [max(a**r / (b ** (1 - r) + 1e-4), 1e-4) for a, b in zip(x.tolist(), w.tolist(), strict=True)]
        plain = [max(a**r, 1e-4) for a in x.tolist()]
        for form, wanted in (("x/w", duo), ("x", plain)):
            if (form, step) != ("x", 0):  # no scaling at all, which is tried anyway
                wanted = torch.tensor(wanted, dtype=torch.float64)
                wanted /= (wanted.max() * wanted.min()).sqrt()
                torch.testing.assert_close(found[form, step], wanted.float(), rtol=1e-4, atol=0)


def test_columns_without_input_are_left_alone(rng):
    x, w = torch.rand(20, generator=rng) + 0.1, torch.rand(20, generator=rng)
    x[3], x[11] = 0, 0
    for form, ratio, s in candidates(x, w):
        assert s[3] == s[11] == 1
        live = torch.cat([s[:3], s[4:11], s[12:]])
        assert (live.max() * live.min()).item() == pytest.approx(1, rel=1e-3), (form, ratio)
    assert all((s == 1).all() for _, _, s in candidates(torch.zeros(5), torch.rand(5, generator=rng)))


@pytest.mark.parametrize("format", ["nvfp4", "fp8-channel", "fp8-tensor", "fp8-block"])
def test_mean_weights_are_shares_of_what_their_scale_serves(rng, format):
    weights = {"a": torch.randn(5, 160, generator=rng), "b": torch.randn(3, 160, generator=rng) * 9}
    found = mean_weight(weights, dict.fromkeys(weights, Format(format)))
    shares = torch.zeros(8, 160)
    for row, (name, index) in enumerate([("a", i) for i in range(5)] + [("b", i) for i in range(3)]):
        for column in range(160):
            line = weights[name][index].abs()
            first = {"nvfp4": column // 16 * 16, "fp8-block": column // 128 * 128}.get(format, 0)
            served = line[first : first + {"nvfp4": 16, "fp8-block": 128}.get(format, 160)]
            served = weights[name].abs() if format == "fp8-tensor" else served
            shares[row, column] = line[column] / served.max()
    torch.testing.assert_close(found, shares.mean(0))


@pytest.mark.parametrize(("format", "pre_quant"), [("nvfp4", False), ("nvfp4", True), ("nvfp4-w4a4", False)])
def test_blocks_are_better_and_the_function_is_the_same(rng, coarse, format, pre_quant):
    network = random_network(rng)
    plain = copy.deepcopy(network)
    prompts = random_prompts(rng)
    before = outputs(network, prompts)
    plan = plan_of(network, format)
    found, calls = calibrated(network, passes(network, prompts), plan)
    folds = scale(network, found, plan, calls, dtype=torch.float32, pre_quant=pre_quant)
    assert relative(outputs(network, prompts), before) < 1e-4
    assert [choice.producer for choice in folds.choices] == [group.producer for group in groups(network)]
    # Recorded calls hold inputs from before the fold; these are from after it.
    errors = block_errors(network, plan, folds, *calibrated(network, passes(network, prompts), plan))
    for choice in folds.choices:
        assert choice.scaled <= choice.plain
        assert (choice.form == "none") == (choice.scaled == choice.plain)
        assert errors[choice.producer] == pytest.approx(choice.scaled, rel=0.02), choice
    assert sum(choice.scaled < 0.95 * choice.plain for choice in folds.choices) >= 4
    for name, weight in plain.named_parameters():
        if name in folds.replaced:
            assert torch.equal(folds.replaced[name], network.get_parameter(name))
        elif name.removesuffix(".weight") not in plan:
            assert torch.equal(weight, network.get_parameter(name)), name
    assert set(folds.pre_quant) <= {f"{LAYER}{layer}.linear_attn.out_proj" for layer in (0, 2)}
    assert bool(folds.pre_quant) == pre_quant
    for name in folds.pre_quant:
        assert torch.equal(network.get_submodule(name).weight, plain.get_submodule(name).weight)


def test_statistics_follow_the_folds(rng, coarse):
    network = random_network(rng)
    prompts = random_prompts(rng)
    plan = plan_of(network, "nvfp4")
    found, calls = calibrated(network, passes(network, prompts), plan)
    folds = scale(network, found, plan, calls)
    again, _ = calibrated(network, passes(network, prompts), plan)
    for name in plan:
        # The gates a and b are rounded to bf16, which the layers behind them feel.
        assert relative(folds.statistics[name].mean_abs, again[name].mean_abs) < 0.1, name


def test_only_groups_in_nvfp4_are_scaled(rng, coarse):
    network = random_network(rng)
    before = copy.deepcopy(network.state_dict())
    prompts = random_prompts(rng)
    plan = plan_of(network, "fp8-channel")
    found, calls = calibrated(network, passes(network, prompts), plan)
    folds = scale(network, found, plan, calls)
    assert not folds.choices
    assert not folds.replaced
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    plan = {name: Format("nvfp4") if ".mlp." in name else format for name, format in plan.items()}
    folds = scale(network, found, plan, calls)
    assert {choice.producer.rpartition(".")[2] for choice in folds.choices} == {"post_attention_layernorm", "up_proj"}
    assert all(name.endswith("post_attention_layernorm.weight") for name in folds.replaced)
    assert all(tensor.dtype == torch.bfloat16 for tensor in folds.replaced.values())


def test_what_was_not_recorded_is_asked_for(rng, coarse):
    network = random_network(rng)
    prompts = random_prompts(rng)
    plan = plan_of(network, "nvfp4")
    found, calls = calibrated(network, passes(network, prompts), plan)
    for none in ({}, {name: [] for name in calls}):
        with pytest.raises(UsageError, match=r"nothing was recorded for .*linear_attn"):
            scale(network, found, plan, none)
    del found[f"{LAYER}0.mlp.down_proj"]
    with pytest.raises(UsageError, match=r"nothing was recorded for .*down_proj"):
        scale(network, found, plan, calls)


def test_a_sweep_is_looked_for_with_the_clipping_search(rng, coarse, monkeypatch):
    searches = []
    original = quantise_module
    monkeypatch.setattr(
        "ocria.quant.calibration.awq.quantise_module",
        lambda *args, **how: searches.append(how["search"]) or original(*args, **how),
    )
    network = random_network(rng)
    plan = {f"{LAYER}0.mlp.down_proj": Format("nvfp4")}
    found, calls = calibrated(network, passes(network, random_prompts(rng)), plan)
    folds = scale(network, found, plan, calls, search="sweep")
    assert set(searches) == {"clip"}
    assert [choice.producer for choice in folds.choices] == [f"{LAYER}0.mlp.up_proj"]
