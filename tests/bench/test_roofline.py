"""The roofline's counts against counts made another way: a network and a state that are really built (on meta), the
metadata op really stepped, and sums done by hand."""

import json
import random
from functools import cache

import pytest
import roofline
import step_load
import torch
from step_load import Step, step_loads, stored

from ocria.document.reader import NANO
from ocria.errors import ConfigError, UsageError
from ocria.model.checkpoint import load_network
from ocria.model.config import ModelConfig
from ocria.model.network import Qwen35
from ocria.model.state import DecoderState
from ocria.ops.metadata import metadata
from ocria.quant.formats import write_checkpoint
from ocria.quant.recipe import load_recipe
from ocria.quant.round import quantize_fp8, quantize_nvfp4
from ocria.quant.step_bytes import linear_shapes, parts_of_checkpoint, parts_of_plan, step_bytes

RECIPES = ("bf16", "fp8", "nvfp4-mlp+fp8", "nvfp4-mlp+fp8+head", "nvfp4")


@cache
def parts(recipe: str) -> list:
    return roofline.recipe_parts(roofline.config_4b(), recipe)


def loads(recipe: str = "bf16", **settings) -> dict:
    found = step_loads(roofline.config_4b(), Step(**settings), stored(parts(recipe)))
    by_name = {load.name: load for load in found}
    assert len(by_name) == len(found), "one kind of each"
    return by_name


@pytest.fixture(scope="module")
def network() -> Qwen35:
    with torch.device("meta"):
        return Qwen35(roofline.config_4b())


def numel(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_weights_are_those_of_the_network(network):
    """A product without rows moves its weights alone."""
    found = loads(batch=0)
    text = network.model.language_model
    deltanet = [layer.linear_attn for layer in text.layers if hasattr(layer, "linear_attn")]
    attention = [layer.self_attn for layer in text.layers if hasattr(layer, "self_attn")]
    mlp = [layer.mlp for layer in text.layers]
    built = {
        "in_proj": [getattr(m, name) for m in deltanet
                    for name in ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")],
        "out_proj": [m.out_proj for m in deltanet],
        "qkv_proj": [getattr(m, name) for m in attention for name in ("q_proj", "k_proj", "v_proj")],
        "o_proj": [m.o_proj for m in attention],
        "gate_up_proj": [getattr(m, name) for m in mlp for name in ("gate_proj", "up_proj")],
        "down_proj": [m.down_proj for m in mlp],
        "lm_head": [text.embed_tokens],
        "gated_conv": [m.conv1d for m in deltanet],
    }  # fmt: skip
    for name, modules in built.items():
        load = found.pop(name)
        assert load.times * load.bytes == 2 * sum(map(numel, modules)), name
    assert all(load.bytes == 0 for load in found.values()), "an op without weights moves nothing for no rows"
    small = ("norm", "A_log", "dt_bias")
    rest = sum(p.numel() for name, p in network.named_parameters() if any(part in name for part in small))
    assert sum(numel(m) for modules in built.values() for m in modules) + rest == numel(network)


def test_a_decode_step_reads_and_writes_the_whole_state():
    """Between batch 1 and 2 only what belongs to a request grows: its KV rows are read, its state twice."""
    rows = 1000
    text = roofline.config_4b().text
    slot = DecoderState.bytes_per_slot(text, rows, torch.bfloat16)
    kv = DecoderState.bytes_per_slot(text, rows + 1, torch.bfloat16) - slot
    conv = sum(ring.nbytes for ring in DecoderState.allocate(text, 1, 0, torch.bfloat16, "meta").conv_ring)
    one, two = loads(batch=1, kv_len=rows), loads(batch=2, kv_len=rows)
    grown = {name: load.times * (two[name].bytes - load.bytes) for name, load in one.items()}
    qkv, gates = text.conv_dim * 2, 2 * text.linear_num_value_heads * 4
    activations = 24 * (qkv + gates + text.value_dim * 2)
    assert grown["replay"] - activations == 2 * (slot - kv * rows - conv)
    assert grown["replay"] - activations == 96 * 2**20  # 24 layers of 32 x 128 x 128 in fp32, read and written
    around = 8 * 2 * (3 * 16 * 256 + 2 * 4 * 256) + 8 * 2 * 64 * 4
    assert grown["attend"] - around == kv * rows  # of which the last is written
    assert kv == 32 * 2**10


@pytest.mark.parametrize(
    ("recipe", "gigabytes", "tensors"),
    [("bf16", 8.40, 426), ("nvfp4-mlp+fp8", 3.85, 722), ("nvfp4-mlp+fp8+head", 2.93, 724)],
)
def test_known_budget(recipe, gigabytes, tensors):
    """Published weights of a step at 4B: 8.40 GB in bf16, 3.85 GB mixed, 2.93 GB with the head in NVFP4."""
    found = parts(recipe)
    assert step_bytes(found) / 1e9 == pytest.approx(gigabytes, rel=0.01)
    # 24 layers of 14 tensors, 8 of 11, the head and the last norm: 426. 6 and 7 of them can be quantised, and the head;
    # each then has scales too, and in NVFP4 a multiplier.
    assert len(found) == tensors
    weights = loads(recipe, batch=0)
    names = ("in_proj", "out_proj", "qkv_proj", "o_proj", "gate_up_proj", "down_proj", "lm_head")
    multiplied = sum(weights[name].times * weights[name].bytes for name in names)
    assert 0.998 < multiplied / step_bytes(found) < 1, "all else is small"
    for device, bandwidth in (("b200", 8e12), ("h200", 4.8e12)):
        rows = roofline.floors(list(weights.values()), roofline.DEVICES[device])
        assert sum(row["seconds"] for row in rows if row["name"] in names) == pytest.approx(multiplied / bandwidth)


@pytest.mark.parametrize("recipe", RECIPES)
def test_counted_tensors_are_those_that_the_quantiser_makes(recipe):
    """Of a small model whose weights are really quantised, by the recipe's own formats."""
    config = ModelConfig.from_file(NANO / "config.json")
    network = Qwen35(config)
    plan = load_recipe(recipe).plan(linear_shapes(network))
    counted = parts_of_plan(network, plan)
    shapes = linear_shapes(network)
    for module, format in plan.items():
        weight = torch.randn(shapes[module])
        made = quantize_nvfp4(weight) if format.kind == "nvfp4" else quantize_fp8(weight, format.granularity)
        assert sum(part.nbytes for part in counted if part.module == module) == made.nbytes
    rest = [p for name, p in network.model.language_model.named_parameters() if "embed_tokens" not in name]
    plain = sum(part.nbytes for part in counted if part.kind == "plain" and part.module != "lm_head")
    quantised = sum(2 * shapes[module][0] * shapes[module][1] for module in plan if module != "lm_head")
    fp32 = 2 * sum(p.numel() for layer in network.model.language_model.layers if hasattr(layer, "linear_attn")
                   for p in (layer.linear_attn.A_log, layer.linear_attn.norm.weight))  # fmt: skip
    assert plain == 2 * sum(p.numel() for p in rest) + fp32 - quantised
    assert [part.nbytes for part in counted if part.module == "lm_head" and part.kind == "plain"] == (
        [] if "lm_head" in plan else [2 * 272 * 256]
    )


def test_a_checkpoint_s_files_decide(tmp_path, capsys):
    """The shipped one, and a mixed one that is written from it, whose configuration is then taken away."""
    network = load_network(NANO, ModelConfig.from_file(NANO / "config.json"))[0]
    plain = parts_of_checkpoint(NANO)
    assert sorted(plain) == sorted(parts_of_plan(network, {}))
    recipe = load_recipe("nvfp4-mlp+fp8+head")
    plan = recipe.plan(linear_shapes(network))
    shapes = {name: torch.empty(shape).normal_() for name, shape in linear_shapes(network).items()}
    weights = {name: quantize_nvfp4(shapes[name]) if format.kind == "nvfp4" else quantize_fp8(shapes[name], "channel")
               for name, format in plan.items()}  # fmt: skip
    write_checkpoint(tmp_path / "out", NANO, weights, "compressed-tensors")
    found = parts_of_checkpoint(tmp_path / "out")
    assert sorted(found) == sorted(parts_of_plan(network, plan))
    assert roofline.main(["--checkpoint", str(tmp_path / "out"), "--batch", "1"]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document["weights"]["bytes"] == step_bytes(found)
    assert document["weights"]["roles"]["multiplier"]["tensors"] == sum(f.kind == "nvfp4" for f in plan.values())


def test_layers_that_differ_are_rows_of_their_own(tmp_path):
    path = tmp_path / "half.toml"
    path.write_text('[[rules]]\nmodules = "*.layers.[0-9].mlp.*"\nformat = "nvfp4-w4a4"\n')
    config = roofline.config_4b()
    found = step_loads(config, Step(batch=3), stored(roofline.recipe_parts(config, path)))
    rows = {load.peak: load for load in found if load.name == "down_proj"}
    assert {peak: load.times for peak, load in rows.items()} == {"fp4": 10, "bf16": 22}
    weight = 2560 * 9216
    assert rows["bf16"].bytes - rows["fp4"].bytes == 2 * weight - weight * 9 // 16 - 8 + 3 * 9216 * (2 - 9 / 16)
    for device in roofline.DEVICES.values():
        assert all(row["seconds"] >= 0 for row in roofline.floors(found, device))


@pytest.mark.parametrize(("ring", "rows"), [(16, 1), (64, 1), (16, 8), (64, 16), (32, 16), (64, 5)])
def test_the_ring_s_cycle_is_that_of_the_metadata_op(ring, rows):
    seed = random.randrange(2**32)
    accepted = random.Random(seed).randint(1, rows)
    print(f"seed {seed}, {accepted} accepted")
    slots, zero = torch.tensor([1]), torch.zeros(2, dtype=torch.int64)
    table = torch.zeros(1, 2)
    pending, given = torch.zeros(2, rows, dtype=torch.int64), torch.full((2,), rows)
    length, folded, history = 0, 0, []
    for _ in range(4000):
        cursors = (torch.full((2,), length), torch.full((2,), folded))
        state = (slots, pending, given, zero, *cursors, zero, zero.bool(), table, table, rows, ring, 1 << 30)
        flush = bool(metadata(*state)[4])
        history.append((length - folded, flush))
        folded = length if flush else folded
        length += accepted
    flushes = [i for i, (_, flush) in enumerate(history) if flush]
    steady = history[flushes[0] + 1 : flushes[-1] + 1]
    turn = step_load.cycle(ring, rows, accepted)
    assert turn.flush == pytest.approx(sum(flush for _, flush in steady) / len(steady))
    assert turn.history == pytest.approx(sum(rows for rows, flush in steady if not flush) / len(steady))
    assert turn.folded == pytest.approx(sum(rows for rows, flush in steady if flush) / len(steady))


def test_a_ring_writes_the_state_less_often():
    without, short, long = (loads(batch=8, ring=ring)["replay"].bytes for ring in (0, 16, 64))
    assert short < without
    state = 8 * 32 * 128 * 128 * 4
    assert without - long > 0.9 * state - 8 * 64 * 3 * 32 * 128 * 2  # nearly a state less, at most the whole ring more


def test_drafts_cost_rows_and_bring_tokens():
    device = roofline.DEVICES["h200"]
    plain = roofline.summary(roofline.floors(list(loads(batch=8).values()), device), 8, 1)
    drafted = loads(batch=8, rows=16, accepted=12.0, ring=64)
    drafted = roofline.summary(roofline.floors(list(drafted.values()), device), 8, 12)
    assert drafted["operations"] > 15 * plain["operations"]
    assert plain["seconds"] < drafted["seconds"] < 2 * plain["seconds"]
    assert drafted["tokens_per_s"] == pytest.approx(8 * 12 / drafted["seconds"])
    assert drafted["launches"] == plain["launches"]


def test_the_floor_is_the_longer_of_memory_and_arithmetic():
    device = roofline.Device("toy", 10.0, {"bf16": 100.0, "fp32": 1.0}, "made up")
    rows = roofline.floors(
        [step_load.Load("read", 3, 2, 40.0, 100.0, "bf16"), step_load.Load("add", 1, 1, 10.0, 12.0)], device
    )
    assert [row["seconds"] for row in rows] == [12.0, 12.0]
    assert [row["bound"] for row in rows] == ["memory", "fp32"]
    assert [row["share"] for row in rows] == [0.5, 0.5]
    total = roofline.summary(rows, 4, 2.0)
    assert (total["launches"], total["bytes"], total["operations"]) == (7, 130.0, 312.0)
    assert (total["tokens_per_s"], total["tokens_per_s_per_request"]) == (8 / 24, 2 / 24)


def test_output(capsys):
    assert roofline.main(["--batch", "1", "12", "--weights", "nvfp4-mlp+fp8", "--drafts", "15", "--accept", "12"]) == 0
    out = capsys.readouterr().out
    document = json.loads(out.splitlines()[-1])
    assert [(one["device"], one["batch"]) for one in document["steps"]] == [
        ("b200", 1), ("b200", 12), ("h200", 1), ("h200", 12),
    ]  # fmt: skip
    for one in document["steps"]:
        assert one["total"]["bytes"] == pytest.approx(sum(op["bytes"] for op in one["ops"]))
        assert sum(op["share"] for op in one["ops"]) == pytest.approx(1)
        assert f"largest: {one['total']['largest']}" in out
    assert "8 TB/s" in out
    assert "4.8 TB/s" in out


@pytest.mark.parametrize("options", [["--accept", "2"], ["--drafts", "3", "--accept", "0.5"], ["--ring", "48"]])
def test_impossible_settings_are_refused(options, capsys):
    assert roofline.main(options) == UsageError.exit_code
    assert "roofline: " in capsys.readouterr().err


def test_a_recipe_that_does_not_exist_is_refused(capsys):
    assert roofline.main(["--weights", "nvfp5"]) == ConfigError.exit_code
    assert "nvfp5" in capsys.readouterr().err


def test_another_model(capsys):
    assert roofline.main(["--config", str(NANO / "config.json"), "--batch", "1", "--device", "h200"]) == 0
    (step,) = json.loads(capsys.readouterr().out.splitlines()[-1])["steps"]
    assert step["total"]["bytes"] < 20e6
