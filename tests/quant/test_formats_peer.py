"""Written checkpoints in transformers and compressed-tensors, and theirs here: every weight has the same values."""

import json
from pathlib import Path

import pytest
import torch
from checkpoint_made import edit_json, make_checkpoint, save, tensors_of, text_linears
from recipes_made import CASES, quantize
from weights_made import random_weight, same_bits

from ocria.model.checkpoint import load_model
from ocria.model.weights import list_tensors
from ocria.quant.formats import read_quantized, write_checkpoint
from ocria.quant.round import quantize_fp8

pytest.importorskip("compressed_tensors", reason="the peer of these tests is not installed")
pytest.importorskip("transformers", reason="the peer of these tests is not installed")
from compressed_tensors.compressors import compress_module
from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config, preset_name_to_scheme
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
from transformers import Qwen3_5ForConditionalGeneration


def their_model(folder: Path, dtype: torch.dtype) -> torch.nn.Module:
    return Qwen3_5ForConditionalGeneration.from_pretrained(folder, dtype=dtype)


@pytest.mark.parametrize("case", [case for case, (form, _) in CASES.items() if form == "compressed-tensors"])
def test_transformers_loads_what_is_written(tmp_path, rng, case):
    form, make = CASES[case]
    source = make_checkpoint(tmp_path / "plain", rng, dtype=torch.bfloat16)
    modules = quantize(source, make)
    write_checkpoint(tmp_path / "out", source, modules, form)
    theirs = their_model(tmp_path / "out", torch.bfloat16)
    theirs.hf_quantizer.compressor.decompress_model(theirs)  # which else happens when it first runs
    ours = load_model(tmp_path / "out", dtype=torch.bfloat16, quantized="decode").network
    for name, parameter in ours.named_parameters():
        found, expected = theirs.get_parameter(name).detach(), parameter.detach().bfloat16()
        if name.removesuffix(".weight") not in modules:
            assert same_bits(found, expected), name
        # Their NVFP4 is divided, ours multiplied by the reciprocal; their scales of FP8 are rounded to bf16 first.
        torch.testing.assert_close(found, expected, rtol=2**-7, atol=0)


class Pair(torch.nn.Module):
    """Two layers under names as in a checkpoint, for the compressor."""

    def __init__(self, folder: Path):
        super().__init__()
        tensors = tensors_of(folder)
        for name in text_linears(folder):
            *path, leaf = name.split(".")
            module = self
            for part in path:
                if not hasattr(module, part):
                    module.add_module(part, torch.nn.Module())
                module = getattr(module, part)
            weight = tensors[f"{name}.weight"]
            layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
            layer.weight.data = weight
            module.add_module(leaf, layer)


def calibrate(layer: torch.nn.Linear) -> None:
    """Scales by the largest magnitudes, as their observers choose them."""
    args = layer.quantization_scheme.weights
    weight, more = layer.weight.data, {}
    if args.strategy == "tensor_group":
        low, high = (f(weight.unflatten(1, (-1, 16)), dim=-1) for f in (torch.amin, torch.amax))
        more["global_scale"] = generate_gparam(weight.min(), weight.max())
        layer.weight_global_scale.data = more["global_scale"]
    elif args.strategy == "channel":
        low, high = weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
    elif args.strategy == "block":
        blocks = [band.split(128, 1) for band in weight.split(128)]
        low, high = (
            torch.stack([torch.stack([f(b) for b in band]) for band in blocks]) for f in (torch.min, torch.max)
        )
    else:
        low, high = weight.min(), weight.max()
    layer.weight_scale.data = calculate_qparams(low, high, args, **more)[0]
    for name in ("input_scale", "input_global_scale"):
        if hasattr(layer, name):
            getattr(layer, name).data.fill_(0.5)


PRESETS = {"FP8": "fp8 static", "FP8_DYNAMIC": "fp8 dynamic", "FP8_BLOCK": "fp8 block",
           "NVFP4": "nvfp4", "NVFP4A16": "nvfp4 weight only"}  # fmt: skip


@pytest.mark.parametrize("preset", PRESETS)
def test_what_their_compressor_writes_is_loaded(tmp_path, rng, preset):
    source = make_checkpoint(tmp_path / "plain", rng)
    model = Pair(source)
    scheme = preset_name_to_scheme(preset, ["Linear"])
    ignore = ["re:.*self_attn.*"]
    config = QuantizationConfig(config_groups={"group_0": scheme}, ignore=ignore, quantization_status="initialized")
    apply_quantization_config(model, config)
    plain = tensors_of(source)
    expected = dict(plain)
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.Linear) and hasattr(layer, "quantization_scheme"):
            calibrate(layer)
            ours = CASES[PRESETS[preset]][1](name, plain[f"{name}.weight"])
            compress_module(layer)
            del expected[f"{name}.weight"]
            expected |= {f"{name}.{leaf}": t for leaf, t in layer.state_dict().items() if "zero_point" not in leaf}
            stored = layer.state_dict()
            codes = stored["weight_packed" if "NVFP4" in preset else "weight"]
            assert same_bits(codes, ours.codes)
    out = tmp_path / "theirs"
    save(out, {name: tensor.detach().contiguous() for name, tensor in expected.items()})
    for name in ("config.json", "tokenizer.json", "preprocessor_config.json"):
        (out / name).write_bytes((source / name).read_bytes())
    theirs = QuantizationConfig.from_pretrained(model, format=scheme.format)
    settings = json.loads(theirs.model_dump_json()) | {"format": model_format(preset)}
    settings["ignore"] = [*settings["ignore"], "re:.*visual.*", "lm_head"]
    edit_json(out / "config.json", lambda data: data.update(quantization_config=settings))

    found = read_quantized(out, list_tensors(out))
    assert len(found) == len([name for name in text_linears(source) if "self_attn" not in name])
    loaded = load_model(out, quantized="decode")
    for name, weight in found.items():
        ours = CASES[PRESETS[preset]][1](name, plain[f"{name}.weight"])
        assert same_bits(weight.decode(), ours.decode())
        assert torch.equal(loaded.network.get_submodule(name).weight, weight.decode())


def model_format(preset: str) -> str:
    return "nvfp4-pack-quantized" if "NVFP4" in preset else "float-quantized"


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float8_e8m0fnu, torch.uint8])
def test_fine_grained_values_are_those_of_transformers(rng, kind, tmp_path):
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize

    weight = quantize_fp8(random_weight(rng, 256, 384), "block")
    scale = weight.scale
    if kind in (torch.float8_e8m0fnu, torch.uint8):
        scale = torch.exp2(scale.log2().round()).to(torch.float8_e8m0fnu)
        scale = scale.view(torch.uint8) if kind == torch.uint8 else scale
    else:
        scale = scale.to(kind)
    save(tmp_path, {"layer.weight": weight.codes, "layer.weight_scale_inv": scale})
    ours = read_quantized(tmp_path, list_tensors(tmp_path))["layer"]
    expected = Fp8Dequantize(None)._dequantize_one(weight.codes, scale, output_dtype=torch.float32)
    assert same_bits(ours.decode(), expected)


def test_transformers_loads_the_same_fine_grained_model(tmp_path, rng):
    pytest.importorskip("accelerate", reason="transformers needs it for fine-grained FP8")
    source = make_checkpoint(tmp_path / "plain", rng, dtype=torch.bfloat16)
    tensors = tensors_of(source)
    kept = ["lm_head", "model.visual"]
    for name in text_linears(source):
        weight = tensors[f"{name}.weight"]
        if any(side > 128 for side in weight.shape):  # theirs cannot decode ragged blocks
            kept.append(name)
            continue
        made = quantize_fp8(weight, "block")
        tensors |= {f"{name}.weight": made.codes, f"{name}.weight_scale_inv": made.scale}
    save(tmp_path / "out", tensors)
    for name in ("config.json", "tokenizer.json", "preprocessor_config.json"):
        (tmp_path / "out" / name).write_bytes((source / name).read_bytes())
    config = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    config["modules_to_not_convert"] = kept
    edit_json(tmp_path / "out" / "config.json", lambda data: data.update(quantization_config=config))
    loaded = load_model(tmp_path / "out", quantized="decode")
    assert loaded.report.quantized > 5
    theirs = their_model(tmp_path / "out", torch.bfloat16)
    for name, parameter in loaded.network.named_parameters():
        assert same_bits(theirs.get_parameter(name).detach(), parameter.detach().bfloat16()), name
