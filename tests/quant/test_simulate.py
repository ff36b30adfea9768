"""A plain network that computes like a quantised one: with the checkpoint that is written and loaded, and with the
quantiser's own reference, and afterwards the plain network again."""

import pytest
import torch
import torch.nn.functional as F
from checkpoint_made import VOCAB, logits, make_checkpoint, tensors_of
from recipes_made import CASES, HEAD, quantize
from weights_made import same_bits

from ocria.errors import UsageError
from ocria.model.checkpoint import load_network
from ocria.model.config import ModelConfig
from ocria.ops.quant_grid import from_e2m1
from ocria.ops.quant_rows import quant_rows_reference
from ocria.quant.formats import write_checkpoint
from ocria.quant.round import quantize_fp8, quantize_nvfp4
from ocria.quant.simulate import round_input, simulated
from ocria.quant.tensors import Fp8Weight

UP = "model.language_model.layers.1.mlp.up_proj"
TOKENS = 23


@pytest.fixture
def plain(tmp_path, rng):
    return make_checkpoint(tmp_path / "plain", rng)


def network_of(folder, dtype=torch.float32):
    return load_network(folder, ModelConfig.from_file(folder / "config.json"), dtype=dtype, quantized="decode")[0]


@pytest.mark.parametrize("case", ["fp8 static", "fp8 block", "nvfp4", "modelopt nvfp4 awq", "modelopt mixed"])
def test_it_computes_what_the_written_checkpoint_does(case, plain, tmp_path, rng):
    form, make = CASES[case]
    weights = quantize(plain, make)
    write_checkpoint(tmp_path / "out", plain, weights, form)
    network, written = network_of(plain), network_of(tmp_path / "out")
    ids = torch.randint(VOCAB, (TOKENS,), generator=rng)
    with simulated(network, weights, activations=False):
        found = logits(network, ids)
    expected = logits(written, ids)
    assert not torch.equal(expected, logits(network, ids)), "quantising changes something"
    assert same_bits(found, expected)


@pytest.mark.parametrize("case", list(CASES))
def test_inputs_are_rounded_as_the_weight_says(case, plain, rng):
    """Against the reference that goes through rows and blocks one by one."""
    name, make = UP, CASES[case][1]
    weight = make(name, tensors_of(plain)[f"{name}.weight"])
    x = torch.randn(5, weight.shape[1], generator=rng)
    x[2, 16:32] = 0
    network = network_of(plain)
    layer = network.get_submodule(name)
    with simulated(network, {name: weight}):
        found = layer(x[None])[0]
    if isinstance(weight, Fp8Weight):
        rounded, values = fp8_input(x, weight), weight.dense()
    elif weight.input_multiplier is None:
        rounded, values = x, weight.dense()
    else:
        rounded, values = nvfp4_input(x, weight), weight.decode()
    assert torch.equal(found, F.linear(rounded[None], values)[0])
    assert torch.equal(rounded, x) == (round_input(weight) is None)


def fp8_input(x, weight):
    if weight.activations == "none":
        return x
    codes, scales = quant_rows_reference(x[:, None], None, None, 0.0, "plain", weight.activations, weight.input_scale)
    size = 128 if weight.activations == "block" else x.shape[1]
    spread = scales.reshape(-1, scales.shape[-1] if scales.ndim else 1).repeat_interleave(size, 1)[:, : x.shape[1]]
    return codes.float() * spread


def nvfp4_input(x, weight):
    factor = weight.input_multiplier
    codes, scales = quant_rows_reference(
        x[:, None], None, None, 0.0, "plain", "nvfp4", factor, weight.pre_quant_scale
    )
    return from_e2m1(codes) * scales.float().repeat_interleave(16, 1) * factor


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("fails", [False, True])
def test_afterwards_the_network_is_as_it_was(dtype, fails, plain, rng):
    network = network_of(plain, dtype)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    same = dict(network.named_parameters())
    ids = torch.randint(VOCAB, (TOKENS,), generator=rng)
    expected = logits(network, ids)
    weights = quantize(plain, CASES["nvfp4"][1])
    try:
        with simulated(network, weights):
            assert not torch.equal(logits(network, ids), expected)
            assert logits(network, ids).dtype == dtype
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        assert fails
    assert all(value is same[name] for name, value in network.named_parameters())
    assert all(same_bits(value, before[name]) for name, value in network.state_dict().items())
    assert not any(module._forward_pre_hooks for module in network.modules())
    assert same_bits(logits(network, ids), expected)


def test_a_tied_head_leaves_the_embeddings_alone(plain, rng):
    network = network_of(plain)
    embeddings = network.model.language_model.embed_tokens.weight
    weight = quantize_nvfp4(embeddings.data, search="sweep")
    hidden = torch.randn(3, 64, generator=rng)
    with simulated(network, {HEAD: weight}):
        assert network.model.language_model.embed_tokens.weight is embeddings
        assert torch.equal(network.logits(hidden), F.linear(hidden, weight.dense()))
    assert torch.equal(network.logits(hidden), F.linear(hidden, embeddings))


def test_an_own_head_is_replaced_too(tmp_path, rng):
    folder = make_checkpoint(tmp_path / "untied", rng, tied=False)
    network = network_of(folder)
    weight = quantize_fp8(network.lm_head.weight.data, "channel", activations="none")
    hidden = torch.randn(3, 64, generator=rng)
    with simulated(network, {HEAD: weight}):
        assert torch.equal(network.logits(hidden), F.linear(hidden, weight.dense()))
    assert torch.equal(network.logits(hidden), F.linear(hidden, network.lm_head.weight))


def test_what_does_not_fit_is_refused(plain, rng):
    network = network_of(plain)
    weight = quantize_fp8(torch.randn(144, 64, generator=rng), "tensor")
    for name in ("model.language_model.layers.9.mlp.up_proj", "model.language_model.norm", HEAD):
        with pytest.raises(UsageError), simulated(network, {UP: weight, name: weight}):
            pass
    assert tuple(network.get_submodule(UP).weight.shape) == (144, 64)
    assert torch.equal(network.get_submodule(UP).weight, tensors_of(plain)[f"{UP}.weight"]), "undone though refused"
    network.prepare()
    with pytest.raises(UsageError, match="prepared"), simulated(network, {UP: weight}):
        pass
