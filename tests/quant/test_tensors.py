"""Quantised weights in memory: exact decoding, what does not fit together, and joining projections."""

import pytest
import torch
from weights_made import random_weight, same_bits

from ocria.errors import CheckpointError
from ocria.quant.fuse import merge_fp8, merge_nvfp4, share_global_scale, split_fp8
from ocria.quant.round import quantize_fp8
from ocria.quant.tensors import Fp8Weight, Nvfp4Weight

FP4_TABLE = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def random_nvfp4(rng, rows, columns, multiplier=None, **more) -> Nvfp4Weight:
    codes = torch.randint(0, 256, (rows, columns // 2), generator=rng, dtype=torch.uint8)
    scales = torch.randint(0, 127, (rows, columns // 16), generator=rng, dtype=torch.uint8).view(torch.float8_e4m3fn)
    multiplier = torch.rand((), generator=rng) / 100 if multiplier is None else multiplier
    return Nvfp4Weight(codes, scales, multiplier, **more)


def test_nvfp4_decodes_exactly(rng):
    weight = random_nvfp4(rng, 5, 48)
    values = weight.decode()
    for row in range(5):
        for column in range(48):
            code = weight.codes[row, column // 2].item() >> (4 * (column % 2)) & 15
            exact = FP4_TABLE[code & 7] * weight.scales[row, column // 16].float().item()  # as a double: no rounding
            exact = torch.tensor(
                (-exact if code > 7 else exact) * weight.multiplier.double().item(), dtype=torch.float64
            )
            assert values[row, column] == exact.float()


@pytest.mark.parametrize("granularity", ["tensor", "channel", "block"])
def test_fp8_decodes_exactly(rng, granularity):
    weight = quantize_fp8(random_weight(rng, 130, 257), granularity)
    values = weight.decode()
    rows = [*torch.randint(0, 130, (20,), generator=rng).tolist(), 0, 127, 128, 129]
    for row in rows:
        for column in (0, 127, 128, 255, 256):
            place = {"tensor": (), "channel": row, "block": (row // 128, column // 128)}[granularity]
            scale = weight.scale[place]
            assert values[row, column] == (weight.codes[row, column].double() * scale.double()).float()


def test_the_scale_of_the_input_is_part_of_a_plain_layer(rng):
    scale = torch.rand(32, generator=rng) + 0.5
    weight = random_nvfp4(rng, 6, 32, pre_quant_scale=scale)
    x = torch.randn(3, 32, generator=rng, dtype=torch.float64)
    expected = (x * scale) @ weight.decode().double().T
    torch.testing.assert_close(x @ weight.dense().double().T, expected, rtol=1e-5, atol=1e-5)


def test_sizes(rng):
    fp4 = random_nvfp4(rng, 8, 64)
    assert fp4.shape == (8, 64)
    assert fp4.nbytes == 8 * 32 + 8 * 4 + 4
    fp8 = quantize_fp8(random_weight(rng, 200, 130), "block")
    assert fp8.shape == (200, 130)
    assert fp8.nbytes == 200 * 130 + 4 * 4


def test_parts_that_do_not_fit_are_refused(rng):
    codes = torch.zeros(4, 12, dtype=torch.uint8)
    with pytest.raises(CheckpointError, match="24 columns are not a multiple of 16"):
        Nvfp4Weight(codes, torch.zeros(4, 1).to(torch.float8_e4m3fn), torch.ones(()))
    good = random_nvfp4(rng, 4, 32)
    with pytest.raises(CheckpointError, match=r"block scales of shape \[4, 1\] instead of \[4, 2\]"):
        Nvfp4Weight(good.codes, good.scales[:, :1], good.multiplier)
    with pytest.raises(CheckpointError, match=r"multiplier of shape \[1\]"):
        Nvfp4Weight(good.codes, good.scales, good.multiplier[None])
    with pytest.raises(CheckpointError, match=r"pre_quant_scale is torch\.bfloat16"):
        Nvfp4Weight(good.codes, good.scales, good.multiplier, None, torch.ones(32, dtype=torch.bfloat16))
    fp8 = quantize_fp8(random_weight(rng, 130, 20), "block")
    with pytest.raises(CheckpointError, match=r"scale of shape \[1, 1\] instead of \[2, 1\]"):
        Fp8Weight(fp8.codes, fp8.scale[:1], "block", "block")
    with pytest.raises(CheckpointError, match="activations are static, and the scale of the input is missing"):
        Fp8Weight(fp8.codes, fp8.scale, "block", "static")
    with pytest.raises(CheckpointError, match="activations are token, and the scale of the input is given"):
        Fp8Weight(fp8.codes, fp8.scale, "block", "token", torch.ones(()))


def test_joining_with_one_multiplier(rng):
    multiplier = torch.tensor(0.01)
    parts = [random_nvfp4(rng, rows, 32, multiplier.clone()) for rows in (3, 5, 1)]
    assert share_global_scale(parts)
    rows = merge_nvfp4(parts)
    assert rows.shared
    whole = Nvfp4Weight(rows.codes, rows.scales, rows.multipliers[0])
    assert same_bits(whole.decode(), torch.cat([part.decode() for part in parts]))
    for part, again in zip(parts, rows.split(), strict=True):
        assert same_bits(part.decode(), again.decode())


def test_joining_with_several_multipliers(rng):
    parts = [random_nvfp4(rng, rows, 32, torch.tensor(m)) for rows, m in ((3, 0.01), (5, 0.01), (2, 0.02))]
    assert not share_global_scale(parts)
    rows = merge_nvfp4(parts)
    assert not rows.shared
    unscaled = Nvfp4Weight(rows.codes, rows.scales, torch.ones(())).decode()
    expected = torch.cat([part.decode() for part in parts])
    assert same_bits(unscaled * rows.row_multipliers()[:, None], expected)
    for part, again in zip(parts, rows.split(), strict=True):
        assert same_bits(part.decode(), again.decode())


def test_projections_with_different_inputs_are_not_joined(rng):
    one = random_nvfp4(rng, 2, 32, input_multiplier=torch.tensor(0.5))
    with pytest.raises(CheckpointError, match="inputs have different multipliers"):
        merge_nvfp4([one, random_nvfp4(rng, 2, 32)])
    scaled = random_nvfp4(rng, 2, 32, input_multiplier=torch.tensor(0.5), pre_quant_scale=torch.ones(32))
    with pytest.raises(CheckpointError, match="scaled differently"):
        merge_nvfp4([one, scaled])


@pytest.mark.parametrize("granularity", ["tensor", "channel", "block"])
def test_joining_fp8_changes_no_value(rng, granularity):
    sizes = (128, 256, 70)
    parts = [quantize_fp8(random_weight(rng, rows, 140), granularity) for rows in sizes]
    whole = merge_fp8(parts)
    assert whole.granularity == ("block" if granularity == "block" else "channel")
    assert same_bits(whole.decode(), torch.cat([part.decode() for part in parts]))
    for part, again in zip(parts, split_fp8(whole, sizes), strict=True):
        assert same_bits(part.decode(), again.decode())
    same = merge_fp8([parts[0], parts[0]])
    assert same.granularity == granularity


def test_cut_blocks_are_not_joined(rng):
    parts = [quantize_fp8(random_weight(rng, rows, 20), "block") for rows in (100, 128)]
    with pytest.raises(CheckpointError, match="not a multiple of 128"):
        merge_fp8(parts)
    merge_fp8(parts[::-1])
    with pytest.raises(CheckpointError, match="only some of them"):
        merge_fp8([parts[1], quantize_fp8(random_weight(rng, 4, 20), "channel", activations="block")])
