"""GPTQ: nothing changes without correlations, with them the output is better, and a slow peer finds the same codes."""

import pytest
import torch
from weights_made import random_weight, same_bits

from ocria.errors import CheckpointError, UsageError
from ocria.ops.quant_grid import from_e2m1, unpack_fp4
from ocria.quant.calibration.gptq import gptq
from ocria.quant.codes import decode_fp8
from ocria.quant.round import nvfp4_grid, quantize_fp8, quantize_nvfp4

FP8 = ("tensor", "channel", "block")
NVFP4 = [(dialect, search) for dialect in ("compressed-tensors", "modelopt") for search in ("none", "four_over_six")]


def nvfp4_with_steps(weight, dialect="compressed-tensors", search="none"):
    rounded = quantize_nvfp4(weight, dialect=dialect, search=search)
    grid = nvfp4_grid(weight.abs().max(), dialect, search)
    return rounded, grid.step(decode_fp8(rounded.scales))


def correlated(rng: torch.Generator, rows: int, columns: int) -> torch.Tensor:
    """Inputs of which a few directions, and a few columns, hold most."""
    mixed = torch.randn(rows, 12, generator=rng) @ torch.randn(12, columns, generator=rng)
    return (mixed + 0.3 * torch.randn(rows, columns, generator=rng)) * torch.exp(torch.randn(columns, generator=rng))


def hessian_of(x: torch.Tensor) -> torch.Tensor:
    return 2 * x.T @ x / len(x)


def output_error(x, weight, quantized) -> float:
    return ((x @ (quantized.decode() - weight).T).norm() / (x @ weight.T).norm()).item()


def diagonals(rng, columns: int) -> list[torch.Tensor]:
    uneven = torch.exp(3 * torch.randn(columns, generator=rng))
    with_zeros = torch.where(torch.rand(columns, generator=rng) < 0.3, 0, uneven)
    return [torch.eye(columns), torch.diag(uneven), torch.diag(with_zeros), torch.zeros(columns, columns)]


@pytest.mark.parametrize("act_order", [False, True])
def test_without_correlations_it_rounds_to_nearest(rng, act_order):
    weight = random_weight(rng, 37, 208)
    for hessian in diagonals(rng, 208):
        for dialect, search in NVFP4:
            rounded, steps = nvfp4_with_steps(weight, dialect, search)
            made = gptq(weight, rounded, hessian, steps=steps, act_order=act_order)
            assert same_bits(made.codes, rounded.codes)
        for granularity in FP8:
            rounded = quantize_fp8(weight, granularity)
            assert same_bits(gptq(weight, rounded, hessian, act_order=act_order).codes, rounded.codes)


@pytest.mark.parametrize("act_order", [False, True])
def test_the_output_is_better_on_correlated_inputs(rng, act_order):
    """Also on rows that it was not fitted to."""
    weight = random_weight(rng, 48, 192)
    x = correlated(rng, 1200, 192)
    hessian, unseen = hessian_of(x[:800]), x[800:]
    rounded, steps = nvfp4_with_steps(weight)
    made = gptq(weight, rounded, hessian, steps=steps, act_order=act_order)
    assert output_error(unseen, weight, made) < 0.8 * output_error(unseen, weight, rounded)
    for granularity in FP8:
        rounded = quantize_fp8(weight, granularity)
        made = gptq(weight, rounded, hessian, act_order=act_order)
        assert output_error(unseen, weight, made) < 0.8 * output_error(unseen, weight, rounded)


def test_the_result_is_on_the_grid_of_the_rounded_weight(rng):
    weight = random_weight(rng, 40, 160)
    hessian = hessian_of(correlated(rng, 400, 160))
    rounded, steps = nvfp4_with_steps(weight)
    made = gptq(weight, rounded, hessian, steps=steps)
    assert same_bits(made.scales, rounded.scales)
    assert same_bits(made.multiplier, rounded.multiplier)
    assert not torch.equal(made.codes, rounded.codes)
    values = from_e2m1(unpack_fp4(made.codes)) * steps.repeat_interleave(16, 1)
    torch.testing.assert_close(made.decode(), values, rtol=1e-6, atol=0)
    for granularity in FP8:
        rounded = quantize_fp8(weight, granularity, input_scale=torch.tensor(0.5) if granularity == "tensor" else None)
        made = gptq(weight, rounded, hessian)
        assert same_bits(made.scale, rounded.scale)
        assert (made.granularity, made.activations) == (rounded.granularity, rounded.activations)
        assert made.input_scale is rounded.input_scale
        assert made.decode().isfinite().all()


@pytest.mark.parametrize("act_order", [False, True])
def test_it_is_what_solving_for_each_column_gives(rng, act_order):
    """The peer inverts the hessian of the columns that are left anew for every column, in fp64."""
    weight = torch.randn(24, 64, generator=rng)
    x = correlated(rng, 300, 64)
    hessian = hessian_of(x)
    rounded, steps = nvfp4_with_steps(weight)
    made = gptq(weight, rounded, hessian, steps=steps, act_order=act_order)
    h = hessian.double()
    h += 0.01 * h.diagonal().mean() * torch.eye(64)
    left, w, peer = list(range(64)), weight.double().clone(), torch.zeros(24, 64, dtype=torch.float64)
    if act_order:
        left.sort(key=lambda column: -hessian[column, column].item())
    wide = steps.repeat_interleave(16, 1).double()
    grid = from_e2m1(torch.arange(16, dtype=torch.uint8)).double()
    while left:
        inverse = torch.linalg.inv(h[left][:, left])
        column = left[0]
        options = grid * wide[:, column, None]
        peer[:, column] = options.gather(1, (options - w[:, column, None]).abs().argmin(1, keepdim=True))[:, 0]
        error = (w[:, column] - peer[:, column]) / inverse[0, 0]
        w[:, left] -= error[:, None] * inverse[0]
        left = left[1:]
    # A tie or a last bit may turn one code, and with it those that follow in its row.
    same = ((made.decode() - peer.float()).abs() <= 1e-5 * wide.float()).all(1).float().mean()
    assert same > 0.7
    found, wanted = output_error(x, weight, made), ((x @ (peer.float() - weight).T).norm() / (x @ weight.T).norm())
    assert found == pytest.approx(wanted.item(), rel=0.05)


def test_large_weights_are_rounded_in_pieces(rng, monkeypatch):
    weight = random_weight(rng, 50, 160)
    hessian = hessian_of(correlated(rng, 400, 160))
    rounded, steps = nvfp4_with_steps(weight)
    whole = gptq(weight, rounded, hessian, steps=steps)
    monkeypatch.setattr("ocria.quant.round._CHUNK", 160 * 7)
    pieces = gptq(weight, rounded, hessian, steps=steps)
    # Sums of other sizes may differ in the last bit.
    assert (whole.codes == pieces.codes).float().mean() > 0.9
    inputs = torch.linalg.cholesky(hessian.double() + 1e-6 * torch.eye(160)).T.float()
    assert output_error(inputs, weight, whole) == pytest.approx(output_error(inputs, weight, pieces), rel=0.02)


def test_what_is_refused(rng):
    weight = random_weight(rng, 8, 32)
    rounded, steps = nvfp4_with_steps(weight)
    with pytest.raises(CheckpointError, match="does not fit 32 columns"):
        gptq(weight, rounded, torch.eye(16), steps=steps)
    with pytest.raises(CheckpointError, match="finite"):
        gptq(weight, rounded, torch.full((32, 32), torch.nan), steps=steps)
    with pytest.raises(UsageError, match="steps"):
        gptq(weight, rounded, torch.eye(32))
