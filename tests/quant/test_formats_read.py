"""What a file holds decides, the configuration must agree, and nothing is left over."""

import json

import pytest
import torch
from checkpoint_made import edit_json, logits, make_checkpoint, save, tensors_of
from recipes_made import INPUT
from tampering import UP, edit_both, edit_config, edit_tensors, read, refused
from weights_made import random_weight, same_bits

from ocria.errors import CheckpointError
from ocria.model.checkpoint import load_model
from ocria.model.weights import list_tensors
from ocria.quant.formats import write_checkpoint
from ocria.quant.round import quantize_fp8, quantize_nvfp4

Q = "model.language_model.layers.1.self_attn.q_proj"
NORM = "model.language_model.norm.weight"


def test_a_plain_checkpoint_has_nothing_quantised(tmp_path, rng):
    folder = make_checkpoint(tmp_path, rng)
    found = read(folder)
    assert len(found) == 0
    assert found.plain == found.infos() == list_tensors(folder)
    assert load_model(folder).report.quantized == 0


@pytest.mark.parametrize("case", ["nvfp4", "modelopt mixed"])
def test_without_a_configuration_the_file_says_enough(written, case):
    folder = written(case)
    before = {name: weight.decode() for name, weight in read(folder).items()}
    edit_json(folder / "config.json", lambda config: config.pop("quantization_config"))
    (folder / "hf_quant_config.json").unlink(missing_ok=True)
    after = read(folder)
    assert before.keys() == set(after)
    assert all(same_bits(before[name], after[name].decode()) for name in before)


def test_modelopt_with_its_own_configuration_alone(written):
    folder = written("modelopt nvfp4")
    edit_json(folder / "config.json", lambda config: config.pop("quantization_config"))
    assert len(read(folder)) > 10
    edit_json(folder / "hf_quant_config.json", lambda c: c["quantization"]["exclude_modules"].append("*mlp.up_proj"))
    refused(folder, "hf_quant_config.json", f"{UP} is plain by the configuration, and nvfp4")


def test_a_plain_file_that_is_called_quantised(written):
    folder = written("nvfp4")
    config = json.loads((folder / "config.json").read_text())["quantization_config"]
    plain = folder.parent / "plain"
    edit_json(plain / "config.json", lambda data: data.update(quantization_config=config))
    refused(plain, "says that the weights are quantised (compressed-tensors), and none in the files is")


LEFTOVERS = {
    "a scale of nothing": (lambda t: t.update({"a.weight_scale": torch.ones(1)}), "a.weight_scale F32"),
    "codes without a scale": (
        lambda t: t.pop(f"{Q}.weight_scale"),
        f"{Q}.input_scale F32, {Q}.weight F8_E4M3",
    ),
    "packed codes without a scale": (
        lambda t: t.pop(f"{UP}.weight_scale"),
        f"{UP}.weight_global_scale F32, {UP}.weight_packed U8",
    ),
    "a zero point": (
        lambda t: t.update({f"{UP}.weight_zero_point": torch.zeros(144, 4)}),
        f"{UP}.weight_zero_point F32",
    ),
    "integers": (lambda t: t.update({NORM: torch.ones(64, dtype=torch.int32)}), f"{NORM} I32"),
    "half of a cache": (lambda t: t.update({"a.self_attn.k_scale": torch.ones(1)}), "a.self_attn.k_scale F32"),
}


@pytest.mark.parametrize("kind", LEFTOVERS)
def test_tensors_left_over_are_named(written, kind):
    edit, message = LEFTOVERS[kind]
    folder = written("mixed")
    edit_tensors(folder, edit)
    refused(folder, "model.safetensors: tensors that belong to no weight", message)


def test_a_missing_part_is_named(written):
    folder = written("nvfp4")
    edit_tensors(folder, lambda tensors: tensors.pop(f"{UP}.weight_global_scale"))
    refused(folder, f"{UP}.weight_packed is there, and {UP}.weight_global_scale is missing")


def test_scales_of_no_shape_that_is_known(written):
    folder = written("fp8 dynamic")
    edit_tensors(folder, lambda tensors: tensors.update({f"{UP}.weight_scale": torch.ones(7, 1)}))
    refused(folder, f"{UP}.weight_scale [7, 1] is no scale of {UP}.weight [144, 64]")


def test_faults_of_values_are_found_when_a_weight_is_read(written):
    folder = written("nvfp4")

    def fp8(values):
        return values.to(torch.float8_e4m3fn)

    for leaf, value, message in (
        ("weight_global_scale", torch.zeros(1), f"{UP}.weight_global_scale is 0, not above 0"),
        ("weight_global_scale", torch.full((1,), torch.nan), f"NaN or infinity in {UP}.weight_global_scale"),
        ("weight_global_scale", torch.ones(2), f"{UP}.weight_global_scale [2] is not a single number"),
        ("weight_scale", fp8(torch.full((144, 4), torch.nan)), f"NaN or infinity in {UP}.weight_scale"),
        ("weight_scale", fp8(torch.ones(144, 3)), f"{UP}: block scales of shape [144, 3]"),
    ):  # fmt: skip
        good = tensors_of(folder)[f"{UP}.{leaf}"]
        edit_tensors(folder, lambda tensors, leaf=leaf, value=value: tensors.update({f"{UP}.{leaf}": value}))
        with pytest.raises(CheckpointError) as caught:
            read(folder)[UP]
        assert message in str(caught.value)
        edit_tensors(folder, lambda tensors, leaf=leaf, good=good: tensors.update({f"{UP}.{leaf}": good}))
    read(folder)[UP]


def test_columns_left_over_are_refused_with_their_module(tmp_path):
    tensors = {
        "layer.weight_packed": torch.zeros(4, 12, dtype=torch.uint8),
        "layer.weight_scale": torch.zeros(4, 2).to(torch.float8_e4m3fn),
        "layer.weight_global_scale": torch.ones(1),
    }
    save(tmp_path, tensors)
    with pytest.raises(CheckpointError, match="layer: 24 columns are not a multiple of 16"):
        read(tmp_path)["layer"]


def test_the_two_configurations_of_modelopt_must_agree(written):
    folder = written("modelopt fp8")
    edit_config(folder, lambda config: config["ignore"].append("nothing"))
    refused(folder, "config.json: contradicts hf_quant_config.json", "exclude_modules")


@pytest.mark.parametrize("without", ["model.", "language_model."])
def test_patterns_may_lack_a_part_of_the_names(written, without):
    folder = written("modelopt mixed by layer")

    def shorten(layers):
        return {name.replace(without, "", 1): layer for name, layer in layers.items()}

    def edit(config):
        config["quantized_layers"] = shorten(config["quantized_layers"])

    edit_config(folder, edit)
    edit_json(folder / "hf_quant_config.json", lambda config: edit(config["quantization"]))
    assert len(read(folder)) > 10
    edit_both(folder, lambda names: names.append("model.language_model.layers.0.mlp".replace(without, "", 1) + "*"))
    refused(folder, f"{UP} is plain by the configuration")


def test_a_weight_only_checkpoint_may_hold_scales_of_the_input(written):
    """As one published checkpoint does."""
    folder = written("modelopt nvfp4")
    edit_config(folder, lambda config: config.update(quant_algo="W4A16_NVFP4"))
    edit_json(folder / "hf_quant_config.json", lambda c: c["quantization"].update(quant_algo="W4A16_NVFP4"))
    assert read(folder)[UP].input_multiplier == INPUT


def test_the_prediction_block_is_left_out_however_it_is_stored(written, rng):
    folder = written("nvfp4")
    name = "mtp.layers.0.mlp.up_proj"

    def edit(tensors):
        made = quantize_nvfp4(tensors.pop(f"{name}.weight"))
        tensors |= {f"{name}.weight_packed": made.codes, f"{name}.weight_scale": made.scales}
        tensors[f"{name}.weight_global_scale"] = 1 / made.multiplier.reshape(1)

    edit_tensors(folder, edit)
    assert f"{name}.weight" in load_model(folder).report.ignored
    edit_config(folder, lambda config: config["ignore"].remove("re:.*mtp.*"))
    assert name in read(folder)
    load_model(folder)


def test_a_quantised_head_of_a_tied_model_is_refused(written):
    folder = written("nvfp4")

    def tie(config):
        config["tie_word_embeddings"] = config["text_config"]["tie_word_embeddings"] = True

    edit_json(folder / "config.json", tie)
    with pytest.raises(
        CheckpointError, match=r"lm_head\.weight or .* is quantised, and config\.json says that they are tied"
    ):
        load_model(folder)


def test_a_quantised_embedding(tmp_path, rng):
    source = make_checkpoint(tmp_path / "plain", rng)
    name = "model.language_model.embed_tokens"
    made = quantize_fp8(tensors_of(source)[f"{name}.weight"], "channel")
    write_checkpoint(tmp_path / "out", source, {name: made}, "compressed-tensors")
    config = json.loads((tmp_path / "out" / "config.json").read_text())["quantization_config"]
    assert config["config_groups"]["group_0"]["targets"] == [name]
    loaded = load_model(tmp_path / "out")
    assert loaded.report.dtype == torch.bfloat16
    assert loaded.network.model.language_model.embed_tokens.weight.equal(made.decode().bfloat16())


def test_a_text_only_checkpoint(tmp_path, rng):
    source = make_checkpoint(tmp_path / "plain", rng)
    config = json.loads((source / "config.json").read_text())["text_config"]
    (source / "config.json").write_text(json.dumps(config))
    named = {
        name.replace("model.language_model.", "model."): t
        for name, t in tensors_of(source).items()
        if "visual" not in name
    }
    save(source, named)
    names = [
        name.removesuffix(".weight") for name, t in named.items() if t.ndim == 2 and "mlp" in name and "mtp" not in name
    ]
    modules = {name: quantize_nvfp4(named[f"{name}.weight"]) for name in names}
    write_checkpoint(tmp_path / "out", source, modules, "modelopt")
    loaded = load_model(tmp_path / "out")
    assert loaded.report.renamed
    assert loaded.report.quantized == len(names) == 12
    up = loaded.network.get_submodule(UP).held
    assert up.decode().equal(modules["model.layers.0.mlp.up_proj"].decode())
    assert logits(loaded.network, torch.arange(9)).isfinite().all()


def test_codes_of_random_bytes_are_read_as_they_are(tmp_path, rng):
    codes = torch.randint(0, 256, (40, 64), generator=rng, dtype=torch.uint8)
    scales = quantize_nvfp4(random_weight(rng, 40, 128)).scales
    save(tmp_path, {"a.weight": codes, "a.weight_scale": scales, "a.weight_scale_2": torch.tensor(0.37)})
    weight = read(tmp_path)["a"]
    assert same_bits(weight.codes, codes)
    assert same_bits(weight.scales, scales)
    assert weight.multiplier == torch.tensor(0.37)
