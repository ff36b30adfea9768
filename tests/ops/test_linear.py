"""The packed product equals torch's, for any number of rows, and says so when it cannot be used."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ocria.ops.linear import Linear, Projections, linear, pack

ACTIVATIONS = {
    "none": lambda x: x,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}
# fp32: sums of some hundred products in another order. bf16: its 8 bits, before and after the activation.
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", [(1,), (5,), (1, 1), (3, 7), (33, 1), (2, 3, 4)])
def test_packed_equals_plain(dtype, activation, shape):
    inputs, outputs = 37, 53
    x = torch.randn(*shape, inputs).to(dtype)
    weight, bias = (torch.randn(outputs, inputs) / inputs**0.5).to(dtype), torch.randn(outputs).to(dtype)
    packed = pack(weight)
    if packed is None:
        pytest.skip(f"no oneDNN for {dtype} on this machine")
    with torch.no_grad():
        for b in (bias, None):
            exact = F.linear(x.double(), weight.double(), None if b is None else b.double())
            exact = ACTIVATIONS[activation](exact)
            for ours in (linear(x, weight, b, activation), linear(x, weight, b, activation, packed)):
                assert ours.dtype == dtype
                assert ours.shape == (*shape, outputs)
                assert torch.allclose(ours.double(), exact, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_rows_do_not_depend_on_their_neighbours():
    """The reason why a request gets the same tokens alone and in a batch."""
    weight = torch.randn(256, 192)
    packed = pack(weight)
    if packed is None:
        pytest.skip("no oneDNN on this machine")
    x = torch.randn(100, 192)
    whole = linear(x, weight, packed=packed)
    for rows in (1, 2, 3, 8, 31, 64):
        # Not bit-equal by contract, but far closer than the rounding of 192 products.
        part = linear(x[:rows], weight, packed=packed)
        assert (part - whole[:rows]).abs().max() <= 1e-6 * whole.abs().max()


def test_a_prepared_layer_follows_its_activation():
    layer = Linear(12, 7, activation="silu")
    x = torch.randn(4, 12)
    before = layer(x)
    assert before.requires_grad
    layer.prepare()
    with torch.no_grad():
        assert torch.allclose(layer(x), before, atol=1e-5)


def test_projections_share_the_weights():
    layers = [nn.Linear(16, n, bias=False) for n in (5, 1, 9)]
    x = torch.randn(2, 3, 16)
    expected = [layer(x) for layer in layers]
    with torch.no_grad():
        for packed in (False, True):
            joined = Projections(layers, packed)
            for ours, theirs, layer in zip(joined(x), expected, layers, strict=True):
                assert torch.allclose(ours, theirs, atol=1e-5)
                assert torch.allclose(layer(x), theirs, atol=1e-5)
                assert layer.weight.untyped_storage().data_ptr() == joined.weight.untyped_storage().data_ptr()


def test_other_dtypes_are_not_packed():
    assert pack(torch.randn(4, 4, dtype=torch.float64)) is None
    assert pack(torch.randn(4, 4, device="meta")) is None
