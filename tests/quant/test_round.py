"""Quantisers: the formulas that ModelOpt publishes, the searches, and what is refused."""

import pytest
import torch
from weights_made import nasty_weights, random_weight, same_bits

from ocria.errors import CheckpointError
from ocria.ops.quant_grid import from_e2m1, unpack_fp4
from ocria.quant.check import measure
from ocria.quant.codes import decode_fp8
from ocria.quant.round import quantize_fp8, quantize_nvfp4

DIALECTS = ("compressed-tensors", "modelopt")
SEARCHES = ("none", "four_over_six", "clip", "sweep")
E2M1_BOUNDS = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5])


def modelopt_nvfp4(weight: torch.Tensor):
    """Multiplier, scales and packed codes by the published formulas, for weights that are not all zero."""
    scale_2 = weight.abs().max().float() / (6.0 * 448.0)
    blocks = weight.reshape(len(weight), -1, 16)
    scale = blocks.abs().amax(-1).float() / (6.0 * scale_2)
    scale[scale == 0] = 1.0
    scale = scale.clamp(min=2**-9, max=448.0).to(torch.float8_e4m3fn)
    scaled = (blocks / (scale.float() * scale_2).unsqueeze(-1)).reshape(weight.shape)
    magnitude = scaled.abs()
    code = torch.searchsorted(E2M1_BOUNDS, magnitude).to(torch.uint8)
    code += (magnitude.unsqueeze(-1) == E2M1_BOUNDS[[1, 3, 5]]).any(-1)
    code += (scaled < 0).to(torch.uint8) << 3
    return scale_2, scale, (code[:, 1::2] << 4) | code[:, 0::2]


def test_modelopt_nvfp4_by_its_formulas(rng):
    for kind, weight in nasty_weights(rng).items():
        if not weight.any() or kind == "subnormal":  # its formulas divide zero by zero there
            continue
        multiplier, scales, codes = modelopt_nvfp4(weight)
        ours = quantize_nvfp4(weight, dialect="modelopt")
        assert same_bits(ours.multiplier, multiplier), kind
        assert same_bits(ours.scales, scales), kind
        assert torch.equal(ours.codes, codes), kind


def test_modelopt_fp8_by_its_formulas(rng):
    weight = random_weight(rng, 40, 100)
    for granularity, amax in (("tensor", weight.abs().max()), ("channel", weight.abs().amax(1))):
        ours = quantize_fp8(weight, granularity, dialect="modelopt")
        assert same_bits(ours.scale, amax / 448.0)
        assert same_bits(
            ours.codes,
            (weight / (ours.scale if granularity == "tensor" else ours.scale[:, None])).to(torch.float8_e4m3fn),
        )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_zeros(dialect):
    weight = torch.zeros(3, 32)
    nvfp4, fp8 = quantize_nvfp4(weight, dialect=dialect), quantize_fp8(weight, "channel", dialect=dialect)
    assert decode_fp8(nvfp4.scales).unique().item() == (1 if dialect == "modelopt" else 0.125)
    assert fp8.scale.unique().item() == (1 if dialect == "modelopt" else torch.finfo(torch.float32).eps)
    for quantized in (nvfp4, fp8):
        assert same_bits(quantized.decode(), weight)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("search", SEARCHES)
def test_a_number_is_off_by_half_a_step_at_most_unless_it_is_clipped(rng, dialect, search):
    weight = random_weight(rng, 40, 128)
    quantized = quantize_nvfp4(weight, dialect=dialect, search=search)
    step = (decode_fp8(quantized.scales) * quantized.multiplier).repeat_interleave(16, 1)
    values = from_e2m1(unpack_fp4(quantized.codes)).abs()
    half = torch.where(values < 2.1, 0.25, torch.where(values < 3.1, 0.5, 1.0)) * 1.0001
    half = torch.where(values == 2, 0.5, half)  # between 2 and 3 the numbers are one apart
    half = torch.where(values == 4, 1.0, half)
    off = (quantized.decode() - weight).abs() / step
    assert ((off <= half) | (values == 6)).all()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_search_is_no_worse_than_what_it_includes(rng, dialect):
    weight = random_weight(rng, 64, 256)
    weight[5] *= 1e-4
    error = {s: measure(weight, quantize_nvfp4(weight, dialect=dialect, search=s)).error for s in SEARCHES}
    assert error["sweep"] <= error["clip"] <= error["none"]
    assert error["clip"] < 0.99 * error["none"]
    assert error["four_over_six"] < 0.98 * error["none"]
    assert 0.09 < error["none"] < 0.1  # of Gaussian numbers


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_sweep_finds_the_best_scale_of_every_block(rng, dialect):
    """Also of sparse blocks, of those with one large number, and of those too small for the multiplier."""
    dense = random_weight(rng, 6, 48)
    sparse = torch.where(torch.rand(6, 48, generator=rng) < 0.2, dense, 0)
    spiky = dense * torch.where(torch.rand(6, 48, generator=rng) < 0.05, 30, 1)
    levels = torch.randint(-3, 4, (6, 48), generator=rng) * dense.abs().max()
    for weight in (dense, sparse, spiky, levels, torch.cat([dense, dense * 1e-3, dense * 1e-6])):
        for importance in (torch.ones(48), torch.rand(48, generator=rng) ** 8):
            weighted = importance if importance.min() < 1 else None
            quantized = quantize_nvfp4(weight, dialect=dialect, search="sweep", importance=weighted)
            error = ((weight - quantized.decode()).square() * importance).unflatten(1, (-1, 16)).sum(-1)
            grid = from_e2m1(torch.arange(16, dtype=torch.uint8))
            for code in range(1, 127):
                step = torch.tensor(code, dtype=torch.uint8).view(torch.float8_e4m3fn).float() * quantized.multiplier
                nearest = (weight[..., None] - grid * step).abs().amin(-1).square() * importance
                assert (error <= nearest.unflatten(1, (-1, 16)).sum(-1) * 1.0001 + 1e-12 * weight.square().max()).all()


@pytest.mark.parametrize("search", ["four_over_six", "clip", "sweep"])
def test_importance_moves_the_error_to_other_columns(rng, search):
    weight = random_weight(rng, 200, 64)
    importance = torch.where(torch.arange(64) % 16 < 4, 100.0, 0.01)
    plain = quantize_nvfp4(weight, search=search)
    led = quantize_nvfp4(weight, search=search, importance=importance)
    errors = [(q.decode() - weight).square() for q in (plain, led)]
    weighted = [(e * importance).sum() for e in errors]
    assert weighted[1] < weighted[0]
    assert errors[1].sum() > errors[0].sum()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_given_amax_makes_the_multipliers_equal(rng, dialect):
    first, second = random_weight(rng, 8, 32), random_weight(rng, 24, 32)
    amax = torch.maximum(first.abs().max(), second.abs().max())
    parts = [quantize_nvfp4(weight, dialect=dialect, amax=amax) for weight in (first, second)]
    whole = quantize_nvfp4(torch.cat([first, second]), dialect=dialect)
    assert same_bits(parts[0].multiplier, whole.multiplier)
    assert torch.equal(torch.cat([part.codes for part in parts]), whole.codes)
    with pytest.raises(CheckpointError, match="given as that"):
        quantize_nvfp4(first, dialect=dialect, amax=first.abs().max() / 2)


@pytest.mark.parametrize("rows", [1, 127, 128, 300])
@pytest.mark.parametrize("columns", [1, 128, 129, 300])
def test_fp8_blocks_are_ragged_at_the_ends(rng, rows, columns):
    weight = random_weight(rng, rows, columns)
    quantized = quantize_fp8(weight, "block")
    assert quantized.activations == "block"
    for i, band in enumerate(weight.split(128)):
        for j, block in enumerate(band.split(128, 1)):
            assert quantized.scale[i, j] == block.abs().max() / 448.0
            codes = quantized.codes[i * 128 : (i + 1) * 128, j * 128 : (j + 1) * 128]
            assert same_bits(codes, (block / quantized.scale[i, j]).to(torch.float8_e4m3fn))
    assert ((quantized.decode() - weight).abs() <= weight.abs() / 15 + quantized.scale.max() * 2**-9).all()


def test_large_weights_are_rounded_in_pieces(rng, monkeypatch):
    weight = random_weight(rng, 300, 160)
    whole = [quantize_nvfp4(weight, search="clip"), *(quantize_fp8(weight, g) for g in ("tensor", "channel", "block"))]
    monkeypatch.setattr("ocria.quant.round._CHUNK", 160 * 7)
    pieces = [quantize_nvfp4(weight, search="clip"), *(quantize_fp8(weight, g) for g in ("tensor", "channel", "block"))]
    for one, other in zip(whole, pieces, strict=True):
        assert same_bits(one.codes, other.codes)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_is_refused(rng, bad):
    weight = random_weight(rng, 4, 32)
    weight[2, 7] = bad
    for quantize in (quantize_nvfp4, lambda w: quantize_fp8(w, "block")):
        with pytest.raises(CheckpointError, match="NaN or infinity"):
            quantize(weight)


@pytest.mark.parametrize("columns", [1, 8, 17, 40])
def test_columns_left_over_are_refused(columns):
    with pytest.raises(CheckpointError, match=f"{columns} columns are not a multiple of 16"):
        quantize_nvfp4(torch.ones(4, columns))


@pytest.mark.parametrize("weight", [torch.ones(4), torch.ones(2, 3, 16), torch.ones(4, 16, dtype=torch.int8)])
def test_what_is_no_matrix_is_refused(weight):
    with pytest.raises(CheckpointError, match="not a matrix"):
        quantize_nvfp4(weight)


def test_rows_wiped_out_are_reported(rng):
    weight = torch.randn(6, 32, generator=rng)
    weight[1], weight[4] = 0, weight[4] * 1e-9
    damage = measure(weight, quantize_nvfp4(weight))
    assert damage.zeroed_rows == (4,)
    assert 0.05 < damage.error < 0.15
    assert measure(weight, quantize_fp8(weight, "channel")).zeroed_rows == ()
    assert measure(torch.zeros(2, 16), quantize_nvfp4(torch.zeros(2, 16))).error == 0
