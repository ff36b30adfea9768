"""Quantisers and decoding against compressed-tensors, bit for bit where both compute the same."""

import pytest
import torch
from weights_made import nasty_weights, random_weight, same_bits

from ocria.quant.round import quantize_fp8, quantize_nvfp4
from ocria.quant.tensors import Nvfp4Weight

pytest.importorskip("compressed_tensors", reason="the peer of these tests is not installed")
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.nvfp4.helpers import pack_fp4_to_uint8, unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationScheme, preset_name_to_scheme
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

from ocria.ops.quant_grid import from_e2m1, pack_fp4, unpack_fp4
from ocria.quant.codes import encode_fp4


def scheme(name: str) -> QuantizationScheme:
    return preset_name_to_scheme(name, ["Linear"])


def their_nvfp4(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    preset = scheme("NVFP4A16")
    divisor = generate_gparam(weight.min(), weight.max())
    blocks = weight.unflatten(1, (-1, 16))
    scale, _ = calculate_qparams(blocks.amin(-1), blocks.amax(-1), preset.weights, global_scale=divisor)
    state = {"weight": weight, "weight_scale": scale, "weight_global_scale": divisor}
    return BaseCompressor.get_value_from_registry("nvfp4-pack-quantized").compress(state, preset)


def their_fp8(weight: torch.Tensor, granularity: str) -> dict[str, torch.Tensor]:
    preset = scheme({"tensor": "FP8", "channel": "FP8_DYNAMIC", "block": "FP8_BLOCK"}[granularity])
    if granularity == "block":
        bands = [band.split(128, 1) for band in weight.split(128)]
        low, high = (torch.stack([torch.stack([f(b) for b in band]) for band in bands]) for f in (torch.min, torch.max))
    elif granularity == "channel":
        low, high = weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
    else:
        low, high = weight.min(), weight.max()
    scale, _ = calculate_qparams(low, high, preset.weights)
    state = {"weight": weight, "weight_scale": scale}
    return BaseCompressor.get_value_from_registry("float-quantized").compress(state, preset)


def test_packing(rng):
    values = from_e2m1(torch.randint(0, 16, (9, 64), generator=rng, dtype=torch.uint8))
    theirs = pack_fp4_to_uint8(values)
    assert torch.equal(pack_fp4(encode_fp4(values, signed_zero=True)), theirs)
    assert same_bits(from_e2m1(unpack_fp4(theirs)), unpack_fp4_from_uint8(theirs, 9, 64, torch.float32))


def test_nvfp4_is_the_same_to_the_bit(rng):
    for kind, weight in nasty_weights(rng).items():
        theirs, ours = their_nvfp4(weight.float()), quantize_nvfp4(weight)
        assert torch.equal(ours.codes, theirs["weight_packed"]), kind
        assert same_bits(ours.scales, theirs["weight_scale"]), kind
        assert same_bits(ours.multiplier, 1 / theirs["weight_global_scale"].reshape(())), kind


@pytest.mark.parametrize("granularity", ["tensor", "channel", "block"])
def test_fp8_is_the_same_to_the_bit(rng, granularity):
    for kind, weight in nasty_weights(rng, 150, 260).items():
        theirs, ours = their_fp8(weight.float(), granularity), quantize_fp8(weight, granularity)
        assert same_bits(ours.scale.reshape(theirs["weight_scale"].shape), theirs["weight_scale"]), kind
        assert same_bits(ours.codes, theirs["weight"]), kind


def test_nvfp4_decodes_as_theirs_but_for_the_reciprocal(rng):
    """Their multiplier is the divisor; ours is its reciprocal, which is rounded."""
    theirs = their_nvfp4(random_weight(rng, 40, 320))
    packed, scales, divisor = (theirs[f"weight_{part}"] for part in ("packed", "scale", "global_scale"))
    ours = Nvfp4Weight(packed, scales, 1 / divisor.reshape(())).decode()
    values = unpack_fp4_from_uint8(packed, *ours.shape, torch.float32)
    expected = dequantize(values, scales.float(), args=scheme("NVFP4A16").weights, global_scale=divisor)
    assert ((ours - expected).abs() <= 3 * 2**-24 * expected.abs()).all()


@pytest.mark.parametrize("granularity", ["tensor", "channel", "block"])
def test_fp8_decodes_as_theirs(rng, granularity):
    weight = random_weight(rng, 260, 140)
    theirs = their_fp8(weight, granularity)
    preset = scheme({"tensor": "FP8", "channel": "FP8_DYNAMIC", "block": "FP8_BLOCK"}[granularity])
    expected = BaseCompressor.get_value_from_registry("float-quantized").decompress(theirs, preset)["weight"]
    assert same_bits(quantize_fp8(weight, granularity).decode(), expected)
