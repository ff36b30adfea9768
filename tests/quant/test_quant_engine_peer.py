"""Quantised inputs are those of compressed-tensors, layer by layer, and a network's logits those of transformers, which
quantises inputs on the CPU as well."""

import pytest
import torch
from checkpoint_made import logits, make_checkpoint
from recipes_made import CASES, INPUT, quantize

from ocria.model.checkpoint import load_model
from ocria.model.quantized import Preparation
from ocria.ops.quant_rows import dequantise, quantise
from ocria.quant.formats import write_checkpoint
from ocria.quant.round import quantize_fp8, quantize_nvfp4

pytest.importorskip("compressed_tensors", reason="the peer of these tests is not installed")
pytest.importorskip("transformers", reason="the peer of these tests is not installed")
from compressed_tensors.quantization import initialize_module_for_quantization, preset_name_to_scheme
from compressed_tensors.quantization.lifecycle.forward import forward_quantize
from transformers import Qwen3_5ForConditionalGeneration

COLUMNS = 256
PRESETS = {
    "FP8": lambda w: quantize_fp8(w, "tensor", input_scale=INPUT),
    "FP8_DYNAMIC": lambda w: quantize_fp8(w, "channel"),
    "FP8_BLOCK": lambda w: quantize_fp8(w, "block"),
    "NVFP4": lambda w: quantize_nvfp4(w, input_multiplier=INPUT),
}


@pytest.mark.parametrize("preset", PRESETS)
@torch.no_grad()
def test_inputs_are_rounded_as_theirs(rng, preset):
    layer = torch.nn.Linear(COLUMNS, 16, bias=False)
    layer.weight.copy_(torch.randn(16, COLUMNS, generator=rng))
    scheme = preset_name_to_scheme(preset, ["Linear"])
    initialize_module_for_quantization(layer, scheme)
    if preset == "FP8":
        layer.input_scale.fill_(INPUT)
    if preset == "NVFP4":
        layer.input_global_scale.fill_(1 / INPUT)
    x = torch.randn(60, COLUMNS, generator=rng) * torch.exp(torch.randn(60, 1, generator=rng))
    theirs = forward_quantize(layer, x[None], "input", scheme.input_activations)[0]
    how = Preparation(True, True, x, torch.float32)
    ours = dequantise(quantise(x, how._target(PRESETS[preset](layer.weight))))
    # INPUT is a power of two: its reciprocal, which they hold, is exact. Their NVFP4 multiplies in another order.
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)


@pytest.mark.parametrize("case", ["fp8 dynamic", "fp8 static"])
def test_logits_are_those_of_transformers(tmp_path, rng, case):
    """A value may round to the neighbouring code where sums run in another order: see `test_quant_engine`."""
    form, make = CASES[case]
    source = make_checkpoint(tmp_path / "plain", rng)
    write_checkpoint(tmp_path / "out", source, quantize(source, make), form)
    ids = torch.randint(0, 256, (17,), generator=rng)
    theirs = Qwen3_5ForConditionalGeneration.from_pretrained(tmp_path / "out", dtype=torch.float32)
    with torch.no_grad():
        expected = theirs(input_ids=ids[None], mm_token_type_ids=torch.zeros(1, 17, dtype=torch.int64)).logits[0]
    found = []
    for inputs in (False, True):
        network = load_model(tmp_path / "out", dtype=torch.float32).network
        network.prepare(inputs=inputs)
        found.append(logits(network, ids))
    full, quantised = found
    assert (quantised - expected).norm() < 0.3 * (quantised - full).norm()
