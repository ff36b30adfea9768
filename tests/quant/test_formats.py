"""Quantise a checkpoint, write it in each format, load it: the model is the one of the decoded weights."""

import json
import math
from pathlib import Path

import pytest
import torch
from checkpoint_made import edit_json, logits, make_checkpoint, save, tensors_of, text_linears
from recipes_made import CASES, HEAD, awq, nvfp4, quantize
from weights_made import same_bits

from ocria.errors import CheckpointError, OutputError
from ocria.model.checkpoint import load_model, load_network
from ocria.model.config import ModelConfig
from ocria.model.weights import list_tensors
from ocria.quant.formats import OnDemand, read_quantized, write_checkpoint
from ocria.quant.formats.scheme import scheme_of
from ocria.quant.round import quantize_fp8, quantize_nvfp4
from ocria.quant.tensors import Nvfp4Weight
from ocria.runtime.budget import plan_checkpoint
from ocria.runtime.memory import checkpoint_bytes, resident_bytes
from ocria.runtime.options import EngineOptions, resolve


def write(tmp_path: Path, rng, case: str, **options):
    """The source, the written checkpoint, and the weights that went into it."""
    form, make = CASES[case]
    source = make_checkpoint(tmp_path / "plain", rng)
    modules = quantize(source, make)
    write_checkpoint(tmp_path / "out", source, modules, form, **options)
    return source, tmp_path / "out", modules


def plain_twin(tmp_path: Path, source: Path, weights) -> Path:
    """The source with the values of quantised weights in place of its own, the head untied."""
    tensors = tensors_of(source) | {f"{name}.weight": weight.dense() for name, weight in weights.items()}
    save(tmp_path / "twin", tensors)
    for name in ("config.json", "tokenizer.json", "preprocessor_config.json"):
        (tmp_path / "twin" / name).write_bytes((source / name).read_bytes())

    def untie(config):
        config["tie_word_embeddings"] = config["text_config"]["tie_word_embeddings"] = False

    if HEAD in weights:
        edit_json(tmp_path / "twin" / "config.json", untie)
    return tmp_path / "twin"


@pytest.mark.parametrize("case", CASES)
def test_what_is_written_is_read(tmp_path, rng, case):
    _, out, modules = write(tmp_path, rng, case)
    found = read_quantized(out, list_tensors(out))
    assert set(found) == set(modules)
    for name, weight in modules.items():
        again = found[name]
        assert scheme_of(again) == scheme_of(weight)
        assert same_bits(again.codes, weight.codes)
        assert found.shapes[name] == weight.shape
        if isinstance(weight, Nvfp4Weight):
            assert same_bits(again.scales, weight.scales)
            torch.testing.assert_close(again.multiplier, weight.multiplier, rtol=2**-23, atol=0)
        else:
            assert same_bits(again.decode(), weight.decode())
            assert again.input_scale == weight.input_scale


@pytest.mark.parametrize(
    ("case", "dtype"),
    [*((case, torch.float32) for case in CASES), ("mixed", torch.bfloat16), ("modelopt nvfp4 awq", torch.bfloat16)],
)
def test_the_loaded_model_is_that_of_the_decoded_weights(tmp_path, rng, case, dtype):
    source, out, modules = write(tmp_path, rng, case)
    loaded = load_model(out, dtype=dtype, quantized="decode")
    twin = load_model(plain_twin(tmp_path, source, read_quantized(out, list_tensors(out))), dtype=dtype)
    assert loaded.report.quantized == len(modules)
    ids = torch.randint(0, 256, (37,), generator=rng)
    ours, theirs = logits(loaded.network, ids), logits(twin.network, ids)
    assert ours.isfinite().all()
    assert torch.equal(ours, theirs)
    plain = logits(load_model(source, dtype=dtype).network, ids)
    assert 0 < (ours - plain).norm() < 0.7 * plain.norm()


@pytest.mark.parametrize("case", ["nvfp4", "fp8 block", "modelopt mixed"])
@pytest.mark.parametrize("dtype", [None, torch.float32, torch.bfloat16])
def test_the_memory_of_the_loaded_model_is_known_before(tmp_path, rng, case, dtype):
    _, out, _ = write(tmp_path, rng, case)
    config = ModelConfig.from_file(out / "config.json")
    network, report = load_network(out, config, dtype=dtype)
    decoded = sum(p.nbytes for p in load_network(out, config, dtype=dtype, quantized="decode")[0].parameters())
    held = checkpoint_bytes(out, dtype)
    assert held == network.weights
    assert held.plain == sum(p.nbytes for p in network.parameters())
    assert held.plain + held.decoded == decoded
    assert held.codes == sum(weight.nbytes for weight in read_quantized(out, list_tensors(out)).values())
    cpu = torch.device("cpu")
    for compiled in (False, True):
        options = resolve(EngineOptions(memory_bytes=1 << 30, compile=compiled), cpu)
        plan = plan_checkpoint(out, options, report.dtype, cpu)
        assert plan.weights == 2 * held.plain + (1 + compiled) * held.decoded == resident_bytes(held, cpu, compiled)
    assert resident_bytes(held, torch.device("cuda")) == held.plain + held.codes


def test_a_plain_source_in_bf16_in_shards(tmp_path, rng):
    source = make_checkpoint(tmp_path / "plain", rng, dtype=torch.bfloat16, tied=False, shards=3)
    tensors = tensors_of(source)
    names = text_linears(source)
    modules = {name: quantize_nvfp4(tensors[f"{name}.weight"]) for name in names}
    write_checkpoint(tmp_path / "out", source, modules, "compressed-tensors", shard_bytes=1 << 15)
    infos = list_tensors(tmp_path / "out")
    sizes = {}
    for info in infos.values():
        width = {"U8": 1, "F8_E4M3": 1, "BF16": 2, "F32": 4}[info.dtype]
        sizes[info.file] = sizes.get(info.file, 0) + width * math.prod(info.shape)
    assert len(sizes) > 3
    largest = max(tensor.nbytes for tensor in tensors_of(tmp_path / "out").values())
    assert max(sizes.values()) <= max(1 << 15, largest)
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == sum(sizes.values())
    loaded = load_model(tmp_path / "out", quantized="decode")
    assert loaded.report.dtype == torch.bfloat16
    assert loaded.network.lm_head.weight.equal(tensors["lm_head.weight"])
    up = "model.language_model.layers.2.mlp.up_proj"
    assert loaded.network.get_submodule(up).weight.equal(modules[up].decode().bfloat16())


def test_weights_are_made_one_at_a_time(tmp_path, rng):
    source = make_checkpoint(tmp_path / "plain", rng)
    tensors = tensors_of(source)
    asked = []

    def make(name):
        asked.append(name)
        return quantize_fp8(tensors[f"{name}.weight"], "channel")

    names = text_linears(source)
    write_checkpoint(tmp_path / "out", source, OnDemand(names, make), "compressed-tensors")
    assert sorted(asked) == sorted(names)
    assert len(read_quantized(tmp_path / "out", list_tensors(tmp_path / "out"))) == len(names)


def test_other_files_come_along(tmp_path, rng):
    source = make_checkpoint(tmp_path / "plain", rng)
    modules = quantize(source, nvfp4())
    (source / "pytorch_model.bin").write_bytes(b"the same weights")
    (source / "ctc.safetensors").write_bytes(b"of a companion")
    (source / ".hidden").write_text("no")
    (source / "drafter").mkdir()
    (source / "drafter" / "config.json").write_text("{}")
    (source / "notes").mkdir()
    write_checkpoint(tmp_path / "out", source, modules, "compressed-tensors")
    held = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert held == {
        "config.json", "model.safetensors", "tokenizer.json", "preprocessor_config.json", "chat_template.jinja",
        "ctc.safetensors", "drafter/config.json",
    }  # fmt: skip
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["tie_word_embeddings"] is config["text_config"]["tie_word_embeddings"] is False
    assert json.loads((source / "config.json").read_text())["tie_word_embeddings"] is True


def test_plain_tensors_can_be_replaced(tmp_path, rng):
    source = make_checkpoint(tmp_path / "plain", rng)
    norm = "model.language_model.layers.0.post_attention_layernorm.weight"
    up = "model.language_model.layers.0.mlp.up_proj"
    modules = {up: quantize_nvfp4(tensors_of(source)[f"{up}.weight"])}
    write_checkpoint(tmp_path / "out", source, modules, "modelopt", replaced={norm: torch.full((64,), 0.25)})
    assert (load_model(tmp_path / "out").network.get_parameter(norm) == 0.25).all()
    for wrong in ({f"{up}.weight": torch.zeros(1)}, {"nonsense": torch.zeros(1)}):
        with pytest.raises(CheckpointError, match=next(iter(wrong))):
            write_checkpoint(tmp_path / "more", source, modules, "modelopt", replaced=wrong)


@pytest.mark.parametrize("form", ["compressed-tensors", "modelopt"])
def test_scales_of_the_cache(tmp_path, rng, form):
    source = make_checkpoint(tmp_path / "plain", rng)
    attention = [f"model.language_model.layers.{layer}.self_attn" for layer in (1, 3)]
    scales = {name: tuple(torch.rand(2, generator=rng)) for name in attention}
    modules = {f"{attention[0]}.q_proj": quantize_fp8(tensors_of(source)[f"{attention[0]}.q_proj.weight"], "channel")}
    write_checkpoint(tmp_path / "out", source, modules, form, kv_scales=scales)
    found = read_quantized(tmp_path / "out", list_tensors(tmp_path / "out"))
    assert sorted(found.kv) == attention
    assert all(found.kv_scales(name) == scales[name] for name in attention)
    loaded = load_model(tmp_path / "out")
    assert not [name for name in loaded.report.ignored if name.endswith(("k_scale", "v_scale"))]
    for name in attention:
        assert torch.equal(loaded.network.get_submodule(name).kv_scale, torch.stack(scales[name]))


def test_what_cannot_be_written_is_refused(tmp_path, rng):
    source = make_checkpoint(tmp_path / "plain", rng)
    up = "model.language_model.layers.0.mlp.up_proj"
    good = {up: quantize_nvfp4(tensors_of(source)[f"{up}.weight"])}
    narrow, block = quantize_nvfp4(torch.ones(144, 48)), quantize_fp8(torch.ones(144, 64), "block")
    cases = [
        ("nonsense", {"nonsense": good[up]}, "modelopt"),
        (r"\[144, 64\], and what replaces it \[144, 48\]", {up: narrow}, "modelopt"),
        ("ModelOpt has no name for fp8 with a scale per block", {up: block}, "modelopt"),
        ("no place for a scale", {up: awq(up, torch.ones(144, 64))}, "compressed-tensors"),
    ]
    for index, (message, modules, form) in enumerate(cases):
        with pytest.raises(CheckpointError, match=message):
            write_checkpoint(tmp_path / str(index), source, modules, form)
        assert not (tmp_path / str(index) / "config.json").exists()
    with pytest.raises(OutputError, match="not empty"):
        write_checkpoint(source, source, good, "modelopt")
    write_checkpoint(tmp_path / "out", source, good, "modelopt")
    with pytest.raises(CheckpointError, match="quantised already"):
        write_checkpoint(tmp_path / "again", tmp_path / "out", good, "modelopt")
    untied = make_checkpoint(tmp_path / "untied", rng, tied=False)
    write_checkpoint(tmp_path / "head", untied, {HEAD: quantize_nvfp4(torch.ones(272, 64))}, "modelopt")
