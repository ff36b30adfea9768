"""Folds leave the function of the network as it is, also where what they change is stored in bf16."""

import copy

import pytest
import torch
from networks_made import outputs, passes, random_network, random_prompts, relative
from weights_made import uniform

from ocria.errors import UsageError
from ocria.quant.calibration.fold import attainable, fold
from ocria.quant.calibration.mappings import groups, joined
from ocria.quant.calibration.statistics import collect

SHAPES = [
    {},
    {"num_attention_heads": 4, "num_key_value_heads": 4, "linear_num_key_heads": 4},
    {"num_attention_heads": 6, "num_key_value_heads": 1, "linear_num_key_heads": 1, "linear_num_value_heads": 3},
]


def random_factors(rng: torch.Generator, group, spread: float = 8.0) -> torch.Tensor:
    """Between 1 / spread and spread."""
    return spread ** (2 * torch.rand(group.shape[0] * group.shape[2], generator=rng) - 1)


def everything(network) -> list[str]:
    """Names of all linear layers: as if each would be quantised, none is rounded."""
    return [name for name, module in network.named_modules() if isinstance(module, torch.nn.Linear)]


@pytest.mark.parametrize("shape", SHAPES)
def test_any_factors_keep_the_function(rng, shape):
    network = random_network(rng, **shape)
    prompts = random_prompts(rng)
    before = outputs(network, prompts)
    original = copy.deepcopy(network.state_dict())
    for group in groups(network):
        _, changed = fold(network, group, random_factors(rng, group), (), torch.float32)
        assert relative(outputs(network, prompts), before) < 2e-4, group.producer
        names = {f"{name}.weight" for name in (group.producer, *group.consumers)}
        assert set(changed) == names
        for name in names:
            assert torch.equal(changed[name], network.state_dict()[name])
            assert not torch.equal(changed[name], original[name])
    assert sum(not torch.equal(tensor, original[name]) for name, tensor in network.state_dict().items()) == 2 * (11 + 9)


def test_groups_are_all_that_can_be_scaled(rng):
    network = random_network(rng)
    found = groups(network)
    consumers = [name for group in found for name in group.consumers]
    assert sorted(consumers) == sorted(name for name in everything(network) if "language_model" in name)
    for group in found:
        assert {network.get_submodule(name).in_features for name in group.consumers} == {group.columns}
        network.get_submodule(group.parent)
    assert joined(network)[0] == tuple(f"model.language_model.layers.0.linear_attn.in_proj_{x}" for x in ("qkv", "z"))
    assert [len(names) for names in joined(network)] == [2, 2, 3, 2] * 2


def test_columns_share_factors_and_means_as_the_table_says(rng):
    network = random_network(rng)
    of = {group.producer.rpartition(".layers.")[2]: group for group in groups(network)}
    values, gated = of["1.self_attn.v_proj"], of["0.linear_attn.norm"]
    s = torch.arange(64.0)  # two key-value heads of 32 channels, for two query heads each
    assert values.spread(s).tolist() == [*range(32), *range(32), *range(32, 64), *range(32, 64)]
    assert torch.equal(values.mean(values.spread(s)), s)
    assert values.mean(torch.arange(128.0))[:2].tolist() == [16, 17]
    assert gated.spread(torch.arange(24.0)).tolist() == [*range(24)] * 4


def test_a_norm_rounded_to_bf16_is_made_up_for(rng):
    """The consumers get what the rounded norm stands for; with the factors that were asked for the error is large."""
    network = random_network(rng)
    for name, p in network.named_parameters():
        if name.endswith("norm.weight"):
            p.copy_(p.bfloat16())
    prompts = random_prompts(rng)
    before = outputs(network, prompts)
    naive = copy.deepcopy(network)
    for group in groups(network):
        if not group.producer.endswith("layernorm"):
            continue
        wanted = random_factors(rng, group)
        ordinary = network.get_submodule(group.producer).scale > 0.5  # near 0, few multiples are numbers of bf16
        s, changed = fold(network, group, wanted, everything(network), torch.bfloat16)
        assert list(changed) == [f"{group.producer}.weight"]
        assert changed[f"{group.producer}.weight"].dtype == torch.bfloat16
        assert ((s / wanted).log().abs() < 0.05)[ordinary].all()
        assert torch.allclose(attainable(naive, group, wanted, torch.bfloat16), s)
        naive.get_submodule(group.producer).weight.copy_(changed[f"{group.producer}.weight"])
        for name in group.consumers:
            naive.get_submodule(name).weight.mul_(wanted)
    assert relative(outputs(network, prompts), before) < 2e-4
    assert relative(outputs(naive, prompts), before) > 2e-3


def test_plain_tensors_come_as_the_file_has_them(rng):
    network = random_network(rng)
    second, first = groups(network)[:2]
    quantised = [name for name in first.consumers if not name.endswith(("_a", "_b"))]
    _, changed = fold(network, first, random_factors(rng, first), quantised, torch.bfloat16)
    assert set(changed) == {f"{name}.weight" for name in (first.producer, *set(first.consumers) - set(quantised))}
    for name, tensor in changed.items():
        assert tensor.dtype == torch.bfloat16
        assert torch.equal(network.get_parameter(name), tensor.float())
    weight = network.get_submodule(quantised[0]).weight
    assert not torch.equal(weight, weight.bfloat16().float())
    _, changed = fold(network, second, random_factors(rng, second), second.consumers, torch.bfloat16)
    assert {name: tensor.dtype for name, tensor in changed.items()} == {f"{second.producer}.weight": torch.float32}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_norm_passes_on_what_it_did(rng, dtype):
    """Columns that it takes away stay away, the others stay, and no sign turns."""
    network = random_network(rng)
    group = groups(network)[1]
    norm = network.get_submodule(group.producer)
    norm.weight[:4] = torch.tensor([-1.0, -0.9998, -1.0002, -3.0])
    before = norm.scale
    weights = [network.get_submodule(name).weight.clone() for name in group.consumers]
    wanted = torch.full((64,), 1e4)
    s, _ = fold(network, group, wanted, everything(network), dtype)
    assert s[0] == 1
    assert norm.scale[0] == 0
    assert (norm.scale.sign() == before.sign()).all()
    assert (s > 0).all()
    torch.testing.assert_close(norm.scale * s, before, rtol=1e-5, atol=0)
    for name, weight in zip(group.consumers, weights, strict=True):
        torch.testing.assert_close(network.get_submodule(name).weight, weight * s)


def test_statistics_after_a_fold_are_those_collected_anew(rng):
    network = random_network(rng)
    run = passes(network, random_prompts(rng))
    for group in groups(network):
        names = list(group.consumers)
        before = collect(network, run, names)
        s, _ = fold(network, group, random_factors(rng, group), everything(network), torch.bfloat16)
        after = collect(network, run, names)
        for name in names:
            divided = before[name].divided(group.spread(s))
            for field in ("mean_abs", "mean_square", "amax", "rows"):
                found, wanted = getattr(divided, field), getattr(after[name], field)
                assert relative(found, wanted) < 1e-3, (name, field)


def test_factors_that_are_none_are_refused(rng):
    network = random_network(rng)
    group = groups(network)[0]
    for bad in (torch.ones(64), torch.zeros(24), torch.full((24,), -uniform(rng, 1, 2)), torch.full((24,), torch.nan)):
        with pytest.raises(UsageError, match="factors"):
            fold(network, group, bad, (), torch.float32)
