"""Fine-grained FP8: blocks of 128 x 128 with scales of several dtypes."""

from pathlib import Path

import pytest
import torch
from checkpoint_made import edit_json, make_checkpoint, save, tensors_of, text_linears
from tampering import UP, edit_config, read, refused
from weights_made import same_bits

from ocria.errors import ConfigError
from ocria.model.checkpoint import load_model
from ocria.quant.round import quantize_fp8


def make(tmp_path, rng, change=lambda scale: scale, **config) -> tuple[Path, dict[str, torch.Tensor]]:
    folder = make_checkpoint(tmp_path, rng)
    tensors, values = tensors_of(folder), {}
    for name in text_linears(folder):
        if "in_proj_a" in name or "in_proj_b" in name:
            continue
        made = quantize_fp8(tensors[f"{name}.weight"], "block")
        scale = change(made.scale)
        tensors |= {f"{name}.weight": made.codes, f"{name}.weight_scale_inv": scale}
        if config.get("activation_scheme") == "static":
            tensors[f"{name}.activation_scale"] = torch.tensor(0.5)
        each = scale.float().repeat_interleave(128, 0).repeat_interleave(128, 1)
        values[name] = made.codes.float() * each[: made.shape[0], : made.shape[1]]
    save(folder, tensors)
    kept = ["lm_head", "model.visual", "linear_attn.in_proj_a", "linear_attn.in_proj_b"]
    settings = {"quant_method": "fp8", "modules_to_not_convert": kept, "weight_block_size": [128, 128], **config}
    edit_json(folder / "config.json", lambda data: data.update(quantization_config=settings))
    return folder, values


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float8_e8m0fnu])
def test_blocks_with_scales_of_several_kinds(tmp_path, rng, kind):
    folder, values = make(tmp_path, rng, lambda scale: scale.to(kind))
    found = read(folder)
    assert set(found) == set(values)
    assert found[UP].activations == "block"
    network = load_model(folder, quantized="decode").network
    for name, value in values.items():
        assert same_bits(found[name].decode(), value)
        assert network.get_submodule(name).weight.equal(value)


def test_static_activations(tmp_path, rng):
    folder, _ = make(tmp_path, rng, activation_scheme="static")
    weight = read(folder)[UP]
    assert (weight.granularity, weight.activations, weight.input_scale.item()) == ("block", "static", 0.5)


def test_contradictions(tmp_path, rng):
    folder, _ = make(tmp_path, rng)
    edit_config(folder, lambda config: config["modules_to_not_convert"].append("mlp.up_proj"))
    refused(folder, f"{UP} is plain by the configuration, and fp8 with a scale per block in the files")
    edit_config(folder, lambda config: config.update(modules_to_not_convert=["lm_head", "in_proj_a", "in_proj_b"]))
    refused(folder, "model.visual.merger.linear_fc1 is fp8 with a scale per block", "and plain in the files")
    edit_config(folder, lambda config: config.update(weight_block_size=[64, 64]))
    refused(folder, "weight_block_size [64, 64] is not supported", error=ConfigError)
