"""Loading drafters from folders."""

import json

import pytest
import torch
from drafter_made import RandomTarget, published_dflash2, random_drafter, small, write_folder
from safetensors.torch import save_file

from ocria.errors import CheckpointError, ConfigError, EngineError
from ocria.spec.arena import DraftState
from ocria.spec.config import DrafterConfig
from ocria.spec.dflash2 import DFlash2
from ocria.spec.load import build, load_drafter


def published_names(version, layers):
    """Names and shapes of the tensors of published checkpoints, by the sizes of `small`."""
    h, i, d, q, kv, v, taps = 48, 72, 10, 6, 2, 211, 3
    shapes = {"fc.weight": (h, taps * h), "hidden_norm.weight": (h,), "norm.weight": (h,)}
    for n in range(layers):
        layer = {
            "input_layernorm.weight": (h,),
            "post_attention_layernorm.weight": (h,),
            "self_attn.q_proj.weight": (q * d, h),
            "self_attn.k_proj.weight": (kv * d, h),
            "self_attn.v_proj.weight": (kv * d, h),
            "self_attn.o_proj.weight": (h, q * d),
            "self_attn.q_norm.weight": (d,),
            "self_attn.k_norm.weight": (d,),
            "mlp.gate_proj.weight": (i, h),
            "mlp.up_proj.weight": (i, h),
            "mlp.down_proj.weight": (h, i),
        }
        if version == 2:
            for conv in ("attention_conv", "mlp_conv"):
                layer[f"{conv}.base_kernel"] = (2, 2, h)
                layer[f"{conv}.kernel_projection.weight"] = (2 * 2 * h // 8, h)
        shapes |= {f"layers.{n}.{name}": shape for name, shape in layer.items()}
    if version == 2:
        shapes["candidate_selector.hidden_projection.weight"] = (12, h)
        shapes["candidate_selector.predecessor_codebook"] = (v, 12)
        shapes["candidate_selector.successor_codebook"] = (v, 12)
    return shapes


def tensors_of(version, generator, dtype=torch.bfloat16):
    shapes = published_names(version, 3)
    return {name: torch.randn(shape, generator=generator).to(dtype) for name, shape in shapes.items()}


@pytest.mark.parametrize("version", [1, 2])
def test_published_names(version, generator, tmp_path):
    tensors = tensors_of(version, generator)
    loaded = load_drafter(write_folder(tmp_path, small(version), tensors))
    assert loaded.config.version == version
    assert loaded.tensors == len(tensors)
    assert loaded.parameters == sum(tensor.numel() for tensor in tensors.values())
    assert not loaded.network.training
    state = loaded.network.state_dict()
    assert state.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert state[name].dtype == torch.bfloat16
        assert torch.equal(state[name], tensor), name


def test_names_of_the_published_dflash2():
    with torch.device("meta"):
        network = build(DrafterConfig.from_dict(published_dflash2()))
    shapes = {name: tuple(p.shape) for name, p in network.named_parameters()}
    assert shapes.keys() == published_names(2, 5).keys()
    # Four of its header, the ones whose layout is not obvious.
    assert shapes["fc.weight"] == (6656, 33280)
    assert shapes["layers.4.mlp_conv.kernel_projection.weight"] == (1664, 6656)
    assert shapes["layers.0.attention_conv.base_kernel"] == (2, 2, 6656)
    assert shapes["candidate_selector.successor_codebook"] == (202048, 256)


def test_shards(generator, tmp_path):
    tensors = tensors_of(2, generator)
    places = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(tensors)}
    (tmp_path / "config.json").write_text(json.dumps(small(2)))
    for file in set(places.values()):
        save_file({name: tensors[name] for name in tensors if places[name] == file}, tmp_path / file)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    loaded = load_drafter(tmp_path)
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in loaded.network.state_dict().items())

    tensors["layers.1.mlp.up_proj.weight"] = torch.zeros(2, 2)
    file = places["layers.1.mlp.up_proj.weight"]
    save_file({name: tensors[name] for name in tensors if places[name] == file}, tmp_path / file)
    with pytest.raises(
        CheckpointError, match=r"layers\.1\.mlp\.up_proj\.weight \[2, 2\] instead of \[72, 48\]"
    ) as caught:
        load_drafter(tmp_path)
    assert caught.value.path == str(tmp_path / file)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t.pop("layers.2.self_attn.q_norm.weight"), r"missing: layers\.2\.self_attn\.q_norm\.weight"),
        (lambda t: t.update({"lm_head.weight": torch.zeros(2, 2)}), r"unexpected: lm_head\.weight"),
        (lambda t: t.update({"fc.weight": torch.zeros(48, 96)}), r"fc\.weight \[48, 96\] instead of \[48, 144\]"),
        (lambda t: t.update({"norm.weight": torch.zeros(48, dtype=torch.int8)}), r"no weight.*norm\.weight I8"),
        (
            lambda t: t.update({"layers.3.mlp.up_proj.weight": torch.zeros(2)}),
            r"unexpected: layers\.3\.mlp\.up_proj\.weight",
        ),
    ],
)
def test_tensors_at_fault(spoil, message, generator, tmp_path):
    tensors = tensors_of(1, generator)
    spoil(tensors)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_drafter(write_folder(tmp_path, small(), tensors))
    assert caught.value.path == str(tmp_path / "model.safetensors")


def test_a_config_of_the_other_version(generator, tmp_path):
    with pytest.raises(CheckpointError, match=r"unexpected: candidate_selector\.hidden_projection\.weight"):
        load_drafter(write_folder(tmp_path, small(1), tensors_of(2, generator)))
    with pytest.raises(CheckpointError, match=r"missing: candidate_selector\.hidden_projection\.weight"):
        load_drafter(write_folder(tmp_path, small(2), tensors_of(1, generator)))


def test_dtypes(generator, tmp_path):
    folder = write_folder(tmp_path, small(2), tensors_of(2, generator, torch.float16))
    assert load_drafter(folder).network.dtype == torch.float32
    assert load_drafter(folder, dtype=torch.bfloat16).network.dtype == torch.bfloat16
    with pytest.raises(EngineError, match=r"cannot run in torch\.float16"):
        load_drafter(folder, dtype=torch.float16)


def test_without_a_config(tmp_path):
    with pytest.raises(ConfigError, match="file not found"):
        load_drafter(tmp_path)


@torch.no_grad()
def test_a_loaded_drafter_drafts_like_the_saved_one(generator, tmp_path):
    data = small(2)
    network, target = random_drafter(data, generator), RandomTarget(data, generator)
    loaded = load_drafter(write_folder(tmp_path, data, network.state_dict())).network
    assert isinstance(loaded, DFlash2)
    loaded.prepare()
    tokens = []
    features = torch.randn(1, 5, network.config.feature_size, generator=generator)
    for drafter in (network, loaded):
        state = DraftState.allocate(network.config, 2, 16, torch.float32)
        slot, five = torch.tensor([1]), torch.tensor([5])
        drafter.extend(features, torch.arange(5)[None], state, slot, torch.zeros_like(five), five)
        hidden = drafter.draft(target, slot, five, state, slot, five, torch.tensor([True]), 7, 12)
        tokens.append(drafter.propose(target, hidden, slot).tokens)
    assert torch.equal(*tokens)
