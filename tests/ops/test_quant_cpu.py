"""Quantised weights packed for the CPU: what they round, what they do not, and that batches do not matter."""

import pytest
import torch
from quant_made import assert_within, fp8, generator, normal, packed, scales, uniform

from ocria.ops.linear import pack
from ocria.ops.quant_cpu import pack_fp8, pack_nvfp4, packed_linear
from ocria.ops.quant_grid import decode_fp8, decode_nvfp4

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
DTYPE = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
KINDS = ("tensor", "channel", "block", "nvfp4", "nvfp4 joined")
SHAPE = (150, 176)


def made(kind: str, g: torch.Generator, dtype: torch.dtype):
    """The packed weight and its values in fp64."""
    if pack(torch.ones(4, 4, dtype=dtype)) is None:
        pytest.skip(f"no oneDNN for {dtype} on this machine")
    outputs, columns = SHAPE
    if kind.startswith("nvfp4"):
        parts = (
            packed(g, outputs, columns),
            scales(g, outputs, columns // 16),
            uniform(g, outputs if " " in kind else 1),
        )
        return pack_nvfp4(*parts, dtype), decode_nvfp4(*parts[:2]).double() * parts[2].double().view(-1, 1)
    shape = {"tensor": (1,), "channel": (outputs, 1), "block": (2, 2)}[kind]
    parts = fp8(g, outputs, columns), uniform(g, *shape)
    return pack_fp8(*parts, dtype), decode_fp8(parts[0], parts[1].double())


@DTYPE
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [(1,), (2, 3), (33,)], ids=str)
def test_matches_decoded_weights(kind, rows, dtype):
    g = generator()
    weight, exact = made(kind, g, dtype)
    x = normal(g, *rows, SHAPE[1], dtype=dtype)
    for bias in (None, normal(g, SHAPE[0], dtype=dtype)):
        got = packed_linear(x, weight, bias)
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
    whole = packed_linear(x, weight)
    close = 1e-6 if dtype == torch.float32 else 2.0**-7
    for rows in (1, 2, 3, 8, 31):
        assert (packed_linear(x[:rows], weight) - whole[:rows]).abs().max() <= close * whole.abs().max()


@DTYPE
@pytest.mark.parametrize("kind", ["channel", "nvfp4"])
def test_compiles_as_one_graph(kind, dtype):
    g = generator()
    weight, _ = made(kind, g, dtype)
    bias = normal(g, SHAPE[0], dtype=dtype)
    torch.compiler.reset()  # every weight is another graph of the same code, of which dynamo keeps few
    compiled = torch.compile(lambda x: packed_linear(x, weight, bias), fullgraph=True, backend="aot_eager")
    with torch.inference_mode():
        for rows in (1, 5):
            x = normal(g, rows, SHAPE[1], dtype=dtype)
            torch.testing.assert_close(compiled(x), packed_linear(x, weight, bias))


def test_other_dtypes_are_not_packed():
    g = generator()
    assert pack_fp8(fp8(g, 4, 16), uniform(g, 1), torch.float16) is None
    assert pack_nvfp4(packed(g, 4, 16), scales(g, 4, 1), uniform(g, 1), torch.float64) is None
