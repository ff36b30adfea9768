"""Quantised weights packed for the CPU: what they round, what they do not, and that batches do not matter."""

import pytest
import torch
from quant_made import assert_within, fp8, generator, normal, packed, scales, uniform

from ocria.ops.linear import pack
from ocria.ops.quant_cpu import Decoded, DecodedProduct, decoded_fp8, decoded_nvfp4
from ocria.ops.quant_grid import decode_fp8, decode_nvfp4
from ocria.ops.quant_linear import Fed
from ocria.ops.quant_rows import Target, dequantise, quantise

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
DTYPE = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
KINDS = ("tensor", "channel", "block", "nvfp4", "nvfp4 joined")
SHAPE = (150, 176)


def made(kind: str, g: torch.Generator, dtype: torch.dtype):
    """The parts of a product, and the values of the weight in fp64."""
    outputs, columns = SHAPE
    if kind.startswith("nvfp4"):
        parts = (
            packed(g, outputs, columns),
            scales(g, outputs, columns // 16),
            uniform(g, outputs if " " in kind else 1),
        )
        return decoded_nvfp4(*parts, dtype), decode_nvfp4(*parts[:2]).double() * parts[2].double().view(-1, 1)
    shape = {"tensor": (1,), "channel": (outputs, 1), "block": (2, 2)}[kind]
    parts = fp8(g, outputs, columns), uniform(g, *shape)
    return decoded_fp8(*parts, dtype), decode_fp8(parts[0], parts[1].double())


@DTYPE
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [(1,), (2, 3), (33,)], ids=str)
def test_matches_decoded_weights(kind, rows, dtype):
    g = generator()
    weight, exact = made(kind, g, dtype)
    x = normal(g, *rows, SHAPE[1], dtype=dtype)
    for bias in (None, normal(g, SHAPE[0], dtype=dtype)):
        got = DecodedProduct([weight], bias=bias)(x)
        expected, sizes = x.double() @ exact.T, x.double().abs() @ exact.abs().T
        if bias is not None:
            expected, sizes = expected + bias.double(), sizes + bias.double().abs()
        # fp32: every weight is rounded once. bf16: a weight of blocks is, and else the product before its scale.
        if dtype == torch.bfloat16:
            extra = 2.0**-8 * (sizes if kind == "block" else (x.double() @ exact.T).abs())
            sizes = sizes + extra * 2.0**23 / (SHAPE[1] + 4)
        assert got.dtype == dtype
        assert_within(got, expected, sizes, SHAPE[1])


@DTYPE
@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_not_depend_on_their_neighbours(kind, dtype):
    g = generator()
    weight, _ = made(kind, g, dtype)
    x = normal(g, 65, SHAPE[1], dtype=dtype)
    if pack(torch.ones(4, 4, dtype=dtype)) is None:
        pytest.skip(f"no oneDNN for {dtype} on this machine")
    product = DecodedProduct([weight])
    whole = product(x)
    close = 1e-6 if dtype == torch.float32 else 2.0**-7
    for rows in (1, 2, 3, 8, 31):
        assert (product(x[:rows]) - whole[:rows]).abs().max() <= close * whole.abs().max()


@DTYPE
@pytest.mark.parametrize("kind", ["channel", "nvfp4"])
def test_compiles_as_one_graph(kind, dtype):
    g = generator()
    weight, _ = made(kind, g, dtype)
    bias = normal(g, SHAPE[0], dtype=dtype)
    torch.compiler.reset()  # every weight is another graph of the same code, of which dynamo keeps few
    product = DecodedProduct([weight], bias=bias)
    compiled = torch.compile(lambda x: product(x), fullgraph=True, backend="aot_eager")
    with torch.inference_mode():
        for rows in (1, 5):
            x = normal(g, rows, SHAPE[1], dtype=dtype)
            torch.testing.assert_close(compiled(x), product(x))


@DTYPE
def test_weights_below_each_other(dtype):
    """Of all kinds and a plain one: every part gives what it gives alone, its scales included."""
    g = generator()
    parts = [made(kind, g, dtype)[0] for kind in KINDS]
    parts.insert(2, Decoded(normal(g, 7, SHAPE[1], dtype=dtype)))
    x = normal(g, 5, SHAPE[1], dtype=dtype)
    joined = DecodedProduct(parts)
    alone = [DecodedProduct([part])(x) for part in parts]
    for one, other in zip(joined(x).split([part.values.shape[0] for part in parts], dim=1), alone, strict=True):
        close = 1e-6 if dtype == torch.float32 else 2.0**-7
        assert (one - other).abs().max() <= close * other.abs().max()


def test_a_weight_is_kept_once_and_comes_back():
    g = generator()
    part = made("channel", g, torch.float32)[0]
    product, size = DecodedProduct([part]), part.values.nbytes
    x = normal(g, 1, SHAPE[1])
    assert product.nbytes == size
    before = product(x)
    product.keep_plain()
    if pack(part.values) is not None:
        assert product.nbytes == 2 * size
        assert torch.equal(pack(part.values).plain(), part.values)
    assert torch.equal(product(x), before)


@DTYPE
@pytest.mark.parametrize("kind", ["token", "static", "block", "nvfp4"])
def test_quantised_rows_are_multiplied_exactly(kind, dtype):
    """A product of quantised rows is that of the values that they stand for: only FP8 of blocks is rounded in bf16."""
    g = generator()
    weight, exact = made("nvfp4", g, dtype)
    x = normal(g, 3, 4, SHAPE[1], dtype=dtype)
    factor = uniform(g, 1) if kind in ("static", "nvfp4") else None
    target = Target(kind, factor)
    values = dequantise(quantise(x, target)).double()
    product = DecodedProduct([weight], target)
    fed = Fed(quantise(x, target), None, x.shape[:-1], dtype)
    got = product(fed)
    assert torch.equal(got, product(x))
    expected, sizes = values @ exact.T, values.abs() @ exact.abs().T
    if dtype == torch.bfloat16:
        extra = 2.0**-8 * (sizes if kind == "block" else expected.abs())
        sizes = sizes + extra * 2.0**23 / (SHAPE[1] + 4)
    assert_within(got.flatten(0, 1), expected, sizes, SHAPE[1])
