"""Networks that run quantised weights: their numbers are those of the decoded weights to the bit, with inputs quantised
those of a network that rounds weights and inputs by the book, and layers are joined as far as the weights allow."""

import pytest
import torch
from checkpoint_made import CONFIG, logits, make_checkpoint, text_linears
from recipes_made import CASES, INPUT, quantize
from torch import nn

from ocria.errors import EngineError
from ocria.model.attention import RMSNorm
from ocria.model.checkpoint import Stored, load_model
from ocria.model.config import ModelConfig
from ocria.model.network import Qwen35
from ocria.model.quantized import Preparation
from ocria.ops.linear import Linear
from ocria.ops.norm import add_rms_norm
from ocria.ops.quant_linear import Fed
from ocria.ops.quant_rows import dequantise, quantise
from ocria.ops.register import INTERPRETED, force_kernels
from ocria.quant.formats import write_checkpoint
from ocria.quant.round import quantize_fp8, quantize_nvfp4
from ocria.quant.tensors import Fp8Weight

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
needs_interpreter = pytest.mark.skipif(not INTERPRETED, reason="kernels need Triton's interpreter here")
HALVES = torch.linspace(0.5, 2, 64)


@pytest.fixture
def folder(tmp_path, rng):
    """Call it with a case for a quantised checkpoint."""

    def make(case):
        form, quantise_module = CASES[case]
        source = make_checkpoint(tmp_path / "plain", rng)
        write_checkpoint(tmp_path / "out", source, quantize(source, quantise_module), form)
        return tmp_path / "out"

    return make


def prepared(folder, dtype=torch.float32, inputs=False, **options):
    network = load_model(folder, dtype=dtype, **options).network
    network.prepare(inputs=inputs)
    return network


@pytest.mark.parametrize("case", CASES)
def test_the_numbers_are_those_of_the_decoded_weights(folder, rng, case):
    """In fp32 to the bit, and nothing of the codes is kept beside."""
    out, ids = folder(case), torch.randint(0, 256, (23,), generator=rng)
    loaded = load_model(out, dtype=torch.float32)
    network, held = loaded.network, loaded.network.weights
    before = logits(network, ids)  # decodes at every call
    network.prepare()
    found = logits(network, ids)
    assert torch.equal(found, logits(prepared(out, quantized="decode"), ids))
    torch.testing.assert_close(before, found, rtol=1e-4, atol=1e-4 * float(found.abs().max()))
    assert not [layer for layer in network.modules() if isinstance(layer, Linear) and layer.held is not None]
    assert sum(product.nbytes for product in network._how.products) == held.decoded + joined_plain(network)
    assert network.weights == held
    assert loaded.report.formats == Stored.of(out).formats(torch.float32)


def joined_plain(network):
    """Bytes of plain weights that are part of a product with quantised ones."""
    text = network.model.language_model
    mixed = [layer.linear_attn.in_proj_a for layer in text.layers if hasattr(layer, "linear_attn")]
    return sum(layer.weight.nbytes for layer in mixed if layer.weight is not None)


@pytest.mark.parametrize("case", ["fp8 static", "fp8 block", "modelopt nvfp4 awq", "mixed"])
def test_bf16_is_close_to_fp32(folder, rng, case):
    """Weights are not rounded to bf16 but for blocks of FP8 and AWQ; the activations are."""
    out, ids = folder(case), torch.randint(0, 256, (23,), generator=rng)
    exact, found = logits(prepared(out), ids), logits(prepared(out, torch.bfloat16), ids)
    assert found.dtype == torch.bfloat16
    assert (found.float() - exact).norm() < 0.1 * exact.norm()


def by_the_book(weight, x):
    """The input of a weight as it says, value by value."""
    if isinstance(weight, Fp8Weight):
        if weight.activations == "none":
            return x
        size = {"token": x.shape[-1], "static": x.shape[-1], "block": 128}[weight.activations]
        blocks = []
        for block in x.split(size, dim=-1):
            scale = weight.input_scale
            if scale is None:
                scale = (block.abs().amax(-1, keepdim=True) / 448).clamp(min=2.0**-126)
            blocks.append((block / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale)
        return torch.cat(blocks, dim=-1)
    if weight.input_multiplier is None:
        return x if weight.pre_quant_scale is None else x * weight.pre_quant_scale
    blocks = (x if weight.pre_quant_scale is None else x * weight.pre_quant_scale).unflatten(-1, (-1, 16))
    scale = (blocks.abs().amax(-1, keepdim=True) / (6 * weight.input_multiplier)).clamp(max=448)
    step = scale.to(torch.float8_e4m3fn).float() * weight.input_multiplier
    value = torch.where(step > 0, blocks / step, 0.0).clamp(-6, 6)
    grid = torch.where(value.abs() < 2, 0.5, torch.where(value.abs() < 4, 1.0, 2.0))
    return ((value / grid).round() * grid * step).flatten(-2)


def rounded_by_hand(folder):
    """A plain network in fp32 with decoded weights, whose layers round their inputs first."""
    network = load_model(folder, dtype=torch.float32).network
    for layer in [layer for layer in network.modules() if isinstance(layer, Linear) and layer.held is not None]:
        weight, layer.held = layer.held, None
        layer.weight = nn.Parameter(weight.decode(), requires_grad=False)
        layer.register_forward_pre_hook(lambda _, inputs, weight=weight: by_the_book(weight, inputs[0]))
    return network


@pytest.mark.parametrize("case", [case for case in CASES if "weight only" not in case])
def test_quantised_inputs_are_those_of_the_book(folder, rng, case):
    """Sums in another order make a value round to the neighbour now and then. In a network this small one such early on
    has moved all later rows by 0.31 of the noise; inputs that are rounded in another way are as far as the noise."""
    out, ids = folder(case), torch.randint(0, 256, (23,), generator=rng)
    found, full = logits(prepared(out, inputs=True), ids), logits(prepared(out), ids)
    noise = (found - full).norm()
    assert noise > 0.01 * full.norm()
    assert (found - logits(rounded_by_hand(out), ids)).norm() < 0.7 * noise


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("case", ["fp8 dynamic", "fp8 static", "fp8 block", "modelopt nvfp4 awq", "mixed"])
def test_makers_that_quantise_change_nothing(folder, rng, case, dtype):
    """Rows that are quantised where they are made are those that the product would quantise. In bf16 the gate of
    attention is rounded before its product where it stands alone: it is left out there."""
    out, ids = folder(case), torch.randint(0, 256, (23,), generator=rng)
    fused, apart = prepared(out, dtype, inputs=True), prepared(out, dtype, inputs=True)
    text = fused.model.language_model
    fed = [layer.mlp.feed for layer in text.layers] + [layer.mlp.down_proj.feed for layer in text.layers]
    assert all(feed is not None for feed in fed) or case == "mixed"
    for network in (fused, apart):
        for module in network.modules():
            joined = getattr(module, "_fused", None)
            if joined is not None and network is apart:
                joined.feed = None
            if isinstance(module, Linear) and module._product is not None:
                alone = dtype == torch.bfloat16 and module.out_features == 64 and module.in_features == 128
                if network is apart or alone:
                    module._product.feed = None
    assert torch.equal(logits(fused, ids), logits(apart, ids))


def test_a_norm_hands_on_what_is_wanted(rng):
    norm = RMSNorm(64, 1e-6).requires_grad_(False)
    norm.weight.copy_(torch.randn(64, generator=rng))
    x, more = torch.randn(2, 3, 64, generator=rng), torch.randn(2, 3, 64, generator=rng)
    how = Preparation(True, True, norm.weight, torch.float32)
    fp8, plain = holding(rng, quantize_fp8, "channel"), Linear(64, 5, bias=False).requires_grad_(False)
    feed = how.join([fp8, plain]).feed
    assert feed.keep
    given, added = norm.after(x, more, feed)
    expected, summed = add_rms_norm(more, x, norm.scale, 1e-6)
    assert torch.equal(added, summed)
    assert torch.equal(given.kept, expected)
    rows = quantise(expected, feed.target)
    assert torch.equal(given.rows.codes.float(), rows.codes.float())
    assert torch.equal(given.rows.scale, rows.scale)
    first, same = norm.after(x, None, feed)
    assert torch.equal(first.kept, norm(x))
    assert same is x


def holding(rng, make, *arguments, rows=48, size=1.0, **options):
    """A layer that holds a quantised weight `[rows, 64]`."""
    layer = Linear(64, rows, bias=False)
    layer.hold(make(size * torch.randn(rows, 64, generator=rng), *arguments, **options))
    return layer


def groups(rng):
    """Layers of one input, and how many products kernels make of them without and with quantised inputs."""
    fp8 = lambda **options: holding(rng, quantize_fp8, "tensor", **options)  # noqa: E731
    nvfp4 = lambda **options: holding(rng, quantize_nvfp4, **options)  # noqa: E731
    plain = lambda rows: Linear(64, rows, bias=False).requires_grad_(False)  # noqa: E731
    awq = {"pre_quant_scale": HALVES, "input_multiplier": INPUT}
    return {
        "FP8 beside plain": ([fp8(), fp8(size=3), plain(5), plain(7)], 2, 2),
        "FP8 of both granularities": ([holding(rng, quantize_fp8, "channel"), fp8(size=9)], 1, 1),
        "static FP8 of one scale": ([fp8(input_scale=INPUT), fp8(input_scale=INPUT)], 1, 1),
        "static FP8 of two scales": ([fp8(input_scale=INPUT), fp8(input_scale=2 * INPUT), plain(4)], 2, 3),
        "whole and ragged blocks": (
            [holding(rng, quantize_fp8, "block", rows=rows) for rows in (128, 40, 256, 129)], 3, 3,
        ),
        "NVFP4 of one multiplier": ([nvfp4(amax=20.0), nvfp4(amax=20.0, rows=17)], 1, 1),
        "NVFP4 of several multipliers": ([nvfp4(), nvfp4(size=5), nvfp4(size=0.1, rows=3)], 1, 1),
        "NVFP4, some with inputs": ([nvfp4(input_multiplier=INPUT), nvfp4(), plain(2)], 2, 3),
        "NVFP4 with factors": ([nvfp4(**awq), nvfp4(**awq, size=2), nvfp4(input_multiplier=INPUT)], 2, 2),
        "everything": ([plain(3), fp8(), nvfp4(), plain(6), nvfp4(**awq), fp8(input_scale=INPUT)], 4, 5),
    }  # fmt: skip


KINDS = ("FP8 beside plain", "FP8 of both granularities", "static FP8 of one scale", "static FP8 of two scales",
         "whole and ragged blocks", "NVFP4 of one multiplier", "NVFP4 of several multipliers",
         "NVFP4, some with inputs", "NVFP4 with factors", "everything")  # fmt: skip


@needs_interpreter
@pytest.mark.parametrize("inputs", [False, True], ids=["full", "quantised"])
@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_layers_of_one_input_are_joined(rng, kind, inputs):
    """On the CPU and by kernels the outputs are those of each layer alone, in their order; the makers' rows serve all
    that want the same."""
    assert set(KINDS) == set(groups(rng))
    layers, *counts = groups(rng)[kind]
    x = torch.randn(2, 3, 64, generator=rng)
    expected = []
    for layer in layers:
        if layer.held is None:
            expected.append(layer(x))
            continue
        given = by_the_book(layer.held, x) if inputs else x
        weight = layer.held.decode() if inputs and asks(layer.held) else layer.held.dense()
        expected.append(given @ weight.T if inputs and asks(layer.held) else x @ weight.T)
    like = torch.zeros(1)
    ways = {"CPU": (Preparation(True, inputs, like, torch.float32), None)}
    with force_kernels():
        ways["kernels"] = (Preparation(True, inputs, like, torch.float32), force_kernels)
    for way, (how, around) in ways.items():
        joined = how.copied(layers)
        assert way == "CPU" or len(joined._parts) == counts[inputs]
        wanted = inputs and any(layer.held is not None and asks(layer.held) for layer in layers)
        assert (joined.feed is not None) == wanted
        if around is None:
            check(joined, x, expected)
        else:
            with around():
                check(joined, x, expected)
    how.join(layers)
    assert all(layer.held is None for layer in layers)


def asks(weight):
    """Whether a weight wants its input quantised."""
    return weight.activations != "none" if isinstance(weight, Fp8Weight) else weight.input_multiplier is not None


def check(joined, x, expected):
    """As a tensor and as rows that its maker quantised."""
    given = [x]
    if joined.feed is not None:
        kept = x if joined.feed.keep else None
        given.append(Fed(quantise(x, joined.feed.target), kept, x.shape[:-1], x.dtype))
    for one in given:
        for found, right in zip(joined(one), expected, strict=True):
            # Sums of 64 products in another order; a rounded input may be off by one code, of x alone.
            assert (found - right).norm() <= 2e-2 * right.norm()
            assert ((found - right).abs() <= 1e-4 * right.abs().max()).float().mean() > 0.9
        assert torch.equal(joined.whole(one), torch.cat(joined(one), dim=-1))


@needs_interpreter
@pytest.mark.parametrize("inputs", [False, True], ids=["full", "quantised"])
@pytest.mark.parametrize("case", ["mixed", "modelopt nvfp4 awq"])
@torch.inference_mode()
def test_kernels_run_what_the_cpu_does(tmp_path, rng, monkeypatch, case, inputs):
    """The whole network with codes in place, as on CUDA, through the interpreter."""
    monkeypatch.setitem(CONFIG["text_config"], "linear_value_head_dim", 16)
    monkeypatch.setitem(CONFIG["text_config"], "num_hidden_layers", 2)
    monkeypatch.setitem(CONFIG["text_config"], "layer_types", ["linear_attention", "full_attention"])
    form, quantise_module = CASES[case]
    source = make_checkpoint(tmp_path / "plain", rng)
    write_checkpoint(tmp_path / "out", source, quantize(source, quantise_module), form)
    ids = torch.randint(0, 256, (3,), generator=rng)
    expected = logits(prepared(tmp_path / "out", inputs=inputs), ids)
    with force_kernels():
        network = prepared(tmp_path / "out", inputs=inputs)
        found = logits(network, ids)
    assert not network._how.products, "nothing is decoded"
    # Some quantised inputs lie on the border of two codes: one that falls to the other side moves all that follows, by
    # 6 % so far. Wrong kernels are off by as much as the logits are large.
    assert (found - expected).norm() < (0.3 if inputs else 1e-4) * expected.norm()


def test_a_network_is_prepared_in_one_way(folder):
    out = folder("fp8 dynamic")
    network = prepared(out)
    network.prepare()
    with pytest.raises(EngineError, match="runs already, with its inputs in full"):
        network.prepare(inputs=True)
    network = prepared(folder_again := out, inputs=True)
    assert network.quantises_inputs
    with pytest.raises(EngineError, match="runs already, with its inputs quantised"):
        network.prepare()
    plain = prepared(folder_again, quantized="decode", inputs=True)
    plain.prepare()  # nothing in it says that inputs are quantised


def test_a_plain_network_is_what_it_was(rng, tmp_path):
    source = make_checkpoint(tmp_path, rng)
    network = Qwen35(ModelConfig.from_file(source / "config.json")).requires_grad_(False)
    assert not network.quantises_inputs
    assert network.weights.codes == network.weights.decoded == 0
    assert Stored.of(source).formats(torch.float32) == f"fp32 {len(text_linears(source))}"
    assert not Stored.of(source).quantized


def test_compiled_products_are_one_graph(folder, rng):
    """Every kind of row count, with a plain copy of the decoded weights for single ones."""
    out = folder("mixed")
    for inputs in (False, True):
        torch.compiler.reset()
        network = prepared(out, inputs=inputs)
        network.prepare_compiled()
        mlp = network.model.language_model.layers[0].mlp
        compiled = torch.compile(lambda x, mlp=mlp: mlp(x), fullgraph=True, backend="aot_eager")
        with torch.inference_mode():
            for rows in (1, 5):
                x = torch.randn(1, rows, 64, generator=rng)
                torch.testing.assert_close(compiled(x), mlp(x), rtol=1e-4, atol=1e-4)


def test_rows_stand_for_what_the_book_says(rng):
    """`by_the_book` and the op agree on the same rows, value by value."""
    x = torch.randn(40, 64, generator=rng) * torch.exp(torch.randn(40, 1, generator=rng))
    how = Preparation(True, True, x, torch.float32)
    static = {"granularity": "tensor", "input_scale": INPUT}
    for options in ({"granularity": "channel"}, {"granularity": "block"}, static):
        weight = holding(rng, quantize_fp8, **options).held
        assert torch.equal(dequantise(quantise(x, how._target(weight))), by_the_book(weight, x))
    for options in ({}, {"pre_quant_scale": HALVES}):
        weight = holding(rng, quantize_nvfp4, input_multiplier=INPUT, **options).held
        found = dequantise(quantise(x, how._target(weight)))
        torch.testing.assert_close(found, by_the_book(weight, x), rtol=1e-6, atol=0)
