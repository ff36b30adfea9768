"""One weight by its format: what calibration adds to plain rounding, and rows that must not vanish."""

import pytest
import torch
from weights_made import random_weight, same_bits

from ocria.errors import CheckpointError, UsageError
from ocria.ops.quant_grid import to_e4m3
from ocria.quant.calibration.clip import SCALE_RATIOS, quantize_fp8_best
from ocria.quant.calibration.module import quantise_module
from ocria.quant.calibration.statistics import InputStatistics
from ocria.quant.check import measure
from ocria.quant.recipe import Format
from ocria.quant.round import quantize_fp8, quantize_nvfp4
from ocria.quant.simulate import round_input

FP8 = {"fp8-tensor": "tensor", "fp8-channel": "channel", "fp8-block": "block"}


def statistics_of(x: torch.Tensor) -> InputStatistics:
    return InputStatistics(
        len(x), x.abs().mean(0), x.square().mean(0), x.abs().amax(0), x[:64], 2 * x.T @ x / len(x)
    )  # fmt: skip


@pytest.fixture
def layer(rng):
    """A weight and rows of its input, which some columns dominate and which are correlated."""
    x = torch.randn(600, 12, generator=rng) @ torch.randn(12, 96, generator=rng)
    x = (x + torch.randn(600, 96, generator=rng)) * torch.exp(torch.randn(96, generator=rng))
    return random_weight(rng, 40, 96), x


def output_error(weight, x, made) -> float:
    return ((x @ (made.dense() - weight).T).norm() / (x @ weight.T).norm()).item()


@pytest.mark.parametrize("dialect", ["compressed-tensors", "modelopt"])
def test_without_choices_it_is_plain_rounding(layer, dialect):
    weight, x = layer
    for given in (None, statistics_of(x)):
        made = quantise_module(weight, Format("nvfp4"), given, dialect=dialect)
        assert same_bits(made.codes, quantize_nvfp4(weight, dialect=dialect).codes)
        assert made.input_multiplier is None
        for name in ("fp8-channel", "fp8-block"):
            made, plain = quantise_module(weight, Format(name), given), quantize_fp8(weight, FP8[name])
            assert same_bits(made.codes, plain.codes)
            assert made.activations == plain.activations


@pytest.mark.parametrize("dialect", ["compressed-tensors", "modelopt"])
def test_numbers_for_the_input_are_those_of_the_largest_seen(layer, dialect):
    weight, x = layer
    largest = x.abs().max()
    static = quantise_module(weight, Format("fp8-tensor"), statistics_of(x), dialect=dialect)
    assert same_bits(static.input_scale, largest / 448)
    assert static.activations == "static"
    local = quantise_module(weight, Format("nvfp4-w4a4"), statistics_of(x), dialect=dialect)
    torch.testing.assert_close(local.input_multiplier, largest / 2688, rtol=3e-7, atol=0)
    for made in (static, local):
        assert round_input(made)(x).abs().max() == pytest.approx(largest.item(), rel=1e-5)
        tighter = (round_input(made)(x) - x).norm() / x.norm()
        assert tighter < 0.15


def test_an_input_that_was_always_zero_has_a_number_nonetheless(rng):
    weight, given = random_weight(rng, 8, 32), statistics_of(torch.zeros(20, 32))
    assert quantise_module(weight, Format("fp8-tensor"), given).input_scale > 0
    for search in ("none", "clip"):
        assert quantise_module(weight, Format("nvfp4-w4a4"), given, search=search).input_multiplier > 0


@pytest.mark.parametrize("format", ["nvfp4", "nvfp4-w4a4", *FP8])
@pytest.mark.parametrize("search", ["none", "clip", "sweep"])
def test_gptq_lowers_the_error_of_every_format(layer, format, search):
    weight, x = layer
    given = statistics_of(x)
    plain = quantise_module(weight, Format(format), given, search=search)
    made = quantise_module(weight, Format(format), given, search=search, gptq=True)
    assert output_error(weight, x, made) < 0.8 * output_error(weight, x, plain)
    assert (made.activations if format in FP8 else made.input_multiplier) == (
        plain.activations if format in FP8 else plain.input_multiplier
    )


@pytest.mark.parametrize("search", ["four_over_six", "clip", "sweep"])
def test_searches_count_columns_by_their_inputs(layer, search):
    weight, x = layer
    given = statistics_of(x)
    error = (quantise_module(weight, Format("nvfp4"), given, search=search).decode() - weight).square()
    blind = (quantise_module(weight, Format("nvfp4"), search=search).decode() - weight).square()
    assert (error * given.mean_square).sum() < (blind * given.mean_square).sum()


@pytest.mark.parametrize("granularity", FP8.values())
def test_fp8_scales_are_the_best_of_those_tried(rng, granularity):
    weight, importance = random_weight(rng, 150, 200), torch.rand(200, generator=rng) ** 3
    for counts in (None, importance):
        plain = quantize_fp8(weight, granularity)
        made = quantize_fp8_best(weight, granularity, importance=counts)
        errors = []
        for ratio in SCALE_RATIOS:
            other = quantize_fp8(weight, granularity, scale=plain.scale * ratio).decode()
            squares = (other - weight).square() * (1 if counts is None else counts)
            errors.append(_by_scale(squares.double(), granularity))
        found = _by_scale((made.decode() - weight).double().square() * (1 if counts is None else counts), granularity)
        torch.testing.assert_close(found, torch.stack(errors).amin(0), rtol=1e-4, atol=0)
        assert ((made.scale >= plain.scale) & (made.scale < 2 * plain.scale)).all(), "nothing is clipped"
        assert same_bits(made.codes, to_e4m3(weight / _spread(made.scale, granularity)))


def test_fp8_scales_are_worth_their_search(rng):
    weight = torch.randn(64, 512, generator=rng)
    plain, best = quantize_fp8(weight, "channel"), quantize_fp8_best(weight, "channel")
    assert measure(weight, best).error < 0.99 * measure(weight, plain).error


def _spread(scale: torch.Tensor, granularity: str) -> torch.Tensor:
    if granularity == "block":
        return scale.repeat_interleave(128, 0)[:150].repeat_interleave(128, 1)[:, :200]
    return scale if granularity == "tensor" else scale[:, None]


def _by_scale(x: torch.Tensor, granularity: str) -> torch.Tensor:
    if granularity == "block":
        return torch.stack([torch.stack([b.sum() for b in band.split(128, 1)]) for band in x.split(128)])
    return x.sum() if granularity == "tensor" else x.sum(1)


def test_factors_for_the_input_are_stored_and_taken_out_of_the_weight(layer, rng):
    weight, x = layer
    factors = 0.5 + 1.5 * torch.rand(96, generator=rng)
    given = statistics_of(x)
    made = quantise_module(weight, Format("nvfp4-w4a4"), given, pre_quant_scale=factors)
    assert made.pre_quant_scale is factors
    torch.testing.assert_close(made.input_multiplier, (x * factors).abs().max() / 2688, rtol=1e-5, atol=0)
    assert same_bits(made.codes, quantize_nvfp4(weight / factors).codes)
    assert measure(weight, made).error < 0.2
    better = quantise_module(weight, Format("nvfp4-w4a4"), given, pre_quant_scale=factors, gptq=True)
    assert output_error(weight, x, better) < 0.8 * output_error(weight, x, made)
    with pytest.raises(UsageError, match="no factors for columns"):
        quantise_module(weight, Format("fp8-channel"), given, pre_quant_scale=factors)


def test_joined_weights_share_their_multiplier(layer):
    weight, x = layer
    amax = 3 * weight.abs().max().item()
    parts = [quantise_module(w, Format("nvfp4"), statistics_of(x), amax=amax, gptq=True) for w in (weight, 3 * weight)]
    assert same_bits(parts[0].multiplier, parts[1].multiplier)
    assert output_error(weight, x, parts[0]) < 0.2


def test_rows_that_would_vanish(rng):
    """Small ones are kept by the smallest scales of a sweep; too small ones are an error that names the layer."""
    weight = torch.randn(6, 32, generator=rng)
    weight[4] *= 2.0**-20
    assert measure(weight, quantize_nvfp4(weight)).zeroed_rows == (4,)
    made = quantise_module(weight, Format("nvfp4"), name="some.layer")
    assert measure(weight, made).zeroed_rows == ()
    weight[4] *= 2.0**-20
    with pytest.raises(CheckpointError, match=r"some\.layer: 1 rows of outputs would become zero in nvfp4.* 4"):
        quantise_module(weight, Format("nvfp4"), name="some.layer")
    assert measure(weight, quantise_module(weight, Format("fp8-channel"))).zeroed_rows == ()


@pytest.mark.parametrize("format", ["fp8-tensor", "fp8-channel", "fp8-block", "nvfp4"])
def test_a_weight_that_is_no_number_is_named(layer, format):
    weight, x = layer
    weight[7, 9] = float("nan")
    with pytest.raises(CheckpointError, match=r"^some\.layer: NaN or infinity"):
        quantise_module(weight, Format(format), statistics_of(x), name="some.layer")


def test_what_is_missing_is_asked_for(layer):
    weight, x = layer
    for name in ("fp8-tensor", "nvfp4-w4a4"):
        with pytest.raises(UsageError, match=f"q: {name} needs calibration"):
            quantise_module(weight, Format(name), name="q")
    with pytest.raises(UsageError, match="GPTQ needs calibration"):
        quantise_module(weight, Format("nvfp4"), gptq=True)
    given = statistics_of(x)
    given = InputStatistics(given.tokens, given.mean_abs, given.mean_square, given.amax, given.rows)
    with pytest.raises(UsageError, match="hessian"):
        quantise_module(weight, Format("nvfp4"), given, gptq=True)
    with pytest.raises(UsageError, match="bf16"):
        quantise_module(weight, Format("bf16"), given)
