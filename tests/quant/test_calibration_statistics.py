"""Statistics of inputs against all the rows themselves, and ranges of the cache against a cache."""

import dataclasses

import pytest
import torch
from checkpoint_made import VOCAB
from networks_made import passes, random_network, random_prompts

from ocria.errors import CheckpointError, UsageError
from ocria.model.state import DecoderState
from ocria.model.window import Window
from ocria.ops.rope import text_rope
from ocria.quant.calibration import statistics
from ocria.quant.calibration.statistics import cache_ranges, collect, recorded_calls

LAYER = "model.language_model.layers."
NAMES = [
    f"{LAYER}0.linear_attn.in_proj_qkv", f"{LAYER}0.linear_attn.in_proj_z", f"{LAYER}0.mlp.down_proj",
    f"{LAYER}1.self_attn.q_proj", f"{LAYER}1.self_attn.k_proj", f"{LAYER}1.self_attn.o_proj", f"{LAYER}1.mlp.up_proj",
]  # fmt: skip


def inputs_of(network, names, run) -> dict[str, torch.Tensor]:
    """Every row that these layers receive."""
    found = {name: [] for name in names}
    hooks = [
        network.get_submodule(name).register_forward_pre_hook(
            lambda _, args, rows=found[name]: rows.append(args[0].flatten(0, -2))
        )
        for name in names
    ]
    run()
    for hook in hooks:
        hook.remove()
    return {name: torch.cat(rows) for name, rows in found.items()}


def rope(network, batch: int, rows: int):
    text = network.config.text
    positions = torch.arange(rows).expand(3, batch, -1)
    return text_rope(positions, text.rotary_dim, text.rope_theta, text.mrope_section)


def test_moments_are_those_of_all_rows(rng):
    network = random_network(rng)
    # No token comes twice, so that rows tell where they came from.
    run = passes(network, list(torch.randperm(VOCAB, generator=rng)[:58].split([17, 40, 1])))
    found = collect(network, run, NAMES, hessian=(NAMES[1], NAMES[2], NAMES[6]), rows=50)
    assert list(found) == NAMES
    for name, x in inputs_of(network, NAMES, run).items():
        got, double = found[name], x.double()
        assert got.tokens == 58 == len(x)
        torch.testing.assert_close(got.mean_abs, double.abs().mean(0).float())
        torch.testing.assert_close(got.mean_square, double.square().mean(0).float())
        assert torch.equal(got.amax, x.abs().amax(0))
        assert got.max_abs == x.abs().max().item()
        if name in (NAMES[1], NAMES[2], NAMES[6]):
            hessian = (2 * double.T @ double / len(x)).float()
            torch.testing.assert_close(got.hessian, hessian, rtol=1e-4, atol=1e-5 * hessian.abs().max().item())
        assert len(got.rows) == 50
        places = (got.rows[:, None] == x).all(-1)
        assert places.any(1).all(), "a sampled row that never came"
        assert (places.sum(0) <= 1).all(), "a row sampled twice"


def test_layers_of_one_input_share_what_is_known_of_it(rng):
    network = random_network(rng)
    found = collect(network, passes(network, random_prompts(rng)), NAMES)
    assert found[NAMES[0]] is found[NAMES[1]]
    assert found[NAMES[3]] is found[NAMES[4]]
    assert len({id(x) for x in found.values()}) == 5
    assert all(x.hessian is None for x in found.values())


def test_padding_is_no_input(rng):
    network = random_network(rng)
    window = dataclasses.replace(
        Window.whole(*rope(network, 2, 9), 2), valid=torch.arange(9) < torch.tensor([[9], [4]]), full=False
    )
    hidden = torch.randn(2, 9, 64, generator=rng)
    hidden[1, 4:] = 1e6  # comes after all that counts

    def run():
        network.decoder(hidden, window, None)

    found = collect(network, run, NAMES)
    kept = window.valid.flatten()
    for name, x in inputs_of(network, NAMES, run).items():
        assert found[name].tokens == 13
        torch.testing.assert_close(found[name].mean_abs, x[kept].abs().mean(0))
        assert torch.equal(found[name].amax, x[kept].abs().amax(0))


def test_the_head_receives_what_logits_are_asked_for(rng):
    network = random_network(rng)
    hidden = torch.randn(7, 64, generator=rng)
    found = collect(network, lambda: network.logits(hidden), ["lm_head"])["lm_head"]
    torch.testing.assert_close(found.mean_square, hidden.square().mean(0))
    assert "logits" not in vars(network)


def test_every_row_is_as_likely_to_be_sampled(rng):
    moments = statistics._Moments(1, 400, rng)
    for rows in torch.arange(4000.0)[:, None].split(700):
        moments.add(rows)
    counts = torch.bincount((moments.statistics("x").rows[:, 0] // 1000).long(), minlength=4)
    assert counts.sum() == 400
    assert ((counts - 100).abs() < 65).all()  # 8 standard deviations


def test_nothing_is_left_behind(rng):
    network = random_network(rng)
    with recorded_calls(network), cache_ranges(network):
        collect(network, passes(network, random_prompts(rng)), [*NAMES, "lm_head"])
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in network.modules())
    assert "logits" not in vars(network)


def test_a_division_of_the_input_divides_its_statistics(rng):
    network = random_network(rng)
    run, s = passes(network, random_prompts(rng)), torch.rand(144, generator=rng) + 0.5
    name = NAMES[2]
    before = collect(network, run, [name], hessian=[name])[name].divided(s)
    network.get_submodule(name).register_forward_pre_hook(lambda _, args: (args[0] / s,))
    after = collect(network, run, [name], hessian=[name])[name]
    for field in ("mean_abs", "mean_square", "amax", "rows"):
        torch.testing.assert_close(getattr(before, field), getattr(after, field), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(before.hessian, after.hessian, rtol=1e-3, atol=1e-4 * after.hessian.abs().max().item())


def test_recorded_calls_can_be_made_again(rng):
    network = random_network(rng)
    first, second, third = random_prompts(rng, (20, 12, 30))
    outputs = []
    with recorded_calls(network, tokens=25) as calls:
        mixer = network.get_submodule(f"{LAYER}1.self_attn")
        hook = mixer.register_forward_hook(lambda _, args, y: outputs.append(y))
        passes(network, [first, second, third])()
        hook.remove()
    assert len(calls) == 4
    assert [call[0].shape[1] for call in calls[f"{LAYER}1.self_attn"]] == [20, 12]
    for call, wanted in zip(calls[f"{LAYER}1.self_attn"], outputs, strict=False):
        assert torch.equal(mixer(*call), wanted)


def test_ranges_of_the_cache_are_those_of_a_cache(rng):
    network = random_network(rng)
    ids = random_prompts(rng, (31,))[0]
    with cache_ranges(network) as ranges:
        passes(network, [ids])()
    state = DecoderState.allocate(network.config.text, 2, 40, torch.float32, "cpu", 0, 1)
    one, zero = torch.ones(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    window = Window.prefill(one, zero, one * 31, *rope(network, 1, 31), 31, 40, fresh=True, full=True)
    network.decoder(network.embed(ids[None]), window, state)
    assert list(ranges) == [f"{LAYER}1.self_attn", f"{LAYER}3.self_attn"]
    for place, found in enumerate(ranges.values()):
        assert found.keys == pytest.approx(state.keys[place][1].abs().max().item(), rel=1e-4)
        assert found.values == pytest.approx(state.values[place][1].abs().max().item(), rel=1e-4)


def test_what_is_refused(rng):
    network = random_network(rng)
    run = passes(network, random_prompts(rng))
    for name in ("model.language_model.norm", "model.language_model.layers.9.mlp.up_proj"):
        with pytest.raises(UsageError, match=f"no linear layer {name}"):
            collect(network, run, [name])
    with pytest.raises(CheckpointError, match=r"no calibration pass reaches .*up_proj"):
        collect(network, lambda: None, [NAMES[-1]])
    network.model.language_model.layers[1].post_attention_layernorm.weight[3] = torch.nan
    with pytest.raises(CheckpointError, match=r"up_proj receives NaN"):
        collect(network, run, [NAMES[-1]])
    network.prepare()
    with pytest.raises(UsageError, match="prepared"):
        collect(network, run, NAMES)
