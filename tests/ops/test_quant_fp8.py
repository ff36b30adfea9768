"""Products with FP8 weights, torch form and kernel, against everything decoded in fp64."""

import pytest
import torch
from quant_made import DEVICE, assert_near, assert_within, fp8, generator, normal, poisoned, uniform

from ocria.errors import UsageError
from ocria.ops import quant_fp8 as q
from ocria.ops.quant_grid import decode_fp8
from ocria.ops.quant_rows import Target, dequantise, quantise
from ocria.ops.register import force_kernels

FORM = pytest.mark.parametrize("form", ["torch_form", "kernel"])
# Odd, and ragged in every tile and block; the last two share K between programs.
SHAPES = [(1, 5, 24), (2, 130, 272), (7, 64, 128), (33, 129, 160), (129, 40, 136), (3, 70, 528), (17, 200, 1040)]
SCALES = {
    "tensor": lambda n, k: () if n % 2 else (1,),
    "channel": lambda n, k: (n, 1),
    "block": lambda n, k: (-(-n // 128), -(-k // 128)),
}
STATIC = torch.tensor([0.02], device=DEVICE)
ACTIVATIONS = {"high": None, "token": Target("token"), "static": Target("static", STATIC), "block": Target("block")}


def sizes(x, x_scale, codes, scale):
    """The sum of the sizes of the products of every output."""
    return q.fp8_matmul_reference(
        x.float().abs(), x_scale, codes.float().abs().to(torch.float8_e4m3fn), scale, None, torch.float64
    )


@FORM
@pytest.mark.parametrize("activations", ACTIVATIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_matches_reference(form, activations, shape):
    g, (rows, outputs, columns) = generator(), shape
    for i, (_, scale_shape) in enumerate(SCALES.items()):
        dtype = torch.bfloat16 if (rows + i) % 2 else torch.float32
        x = normal(g, rows, columns, dtype=dtype)
        target = ACTIVATIONS[activations]
        given, x_scale = (x, None) if target is None else quantise(x, target)
        codes, scale = fp8(g, outputs, columns), uniform(g, *scale_shape(outputs, columns))
        bias = normal(g, outputs, dtype=dtype) if i else None
        arguments = (given, x_scale, codes, scale, bias, dtype)
        with poisoned():
            got = getattr(q.fp8_matmul, form)(*arguments)
        expected = q.fp8_matmul_reference(*arguments[:-1], torch.float64)
        magnitude = sizes(*arguments[:4]) + (0 if bias is None else bias.double().abs())
        assert got.dtype == dtype
        assert_within(got, expected, magnitude, columns)


@FORM
def test_whole_numbers_are_exact(form):
    """Sums below 2^24 and scales that are powers of two leave nothing to round."""
    g, (rows, outputs, columns) = generator(), (5, 70, 528)
    x = torch.randint(-8, 9, (rows, columns), generator=g).float().to(DEVICE)
    codes = torch.randint(-8, 9, (outputs, columns), generator=g).float().to(DEVICE).to(torch.float8_e4m3fn)
    for shape in SCALES.values():
        scale = 2.0 ** torch.randint(-3, 4, shape(outputs, columns), generator=g).float().to(DEVICE)
        expected = x.double() @ decode_fp8(codes, scale).double().T
        assert torch.equal(getattr(q.fp8_matmul, form)(x, None, codes, scale, None, torch.float32).double(), expected)
        tokens = 2.0 ** torch.randint(-3, 4, (rows, 1), generator=g).float().to(DEVICE)
        given = (x.to(torch.float8_e4m3fn), tokens, codes, scale, None, torch.float32)
        assert torch.equal(getattr(q.fp8_matmul, form)(*given).double(), expected * tokens)


@FORM
def test_every_code_of_weights_and_activations(form):
    """256 x 256 products of one term, by an identity: every one exact."""
    every = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).to(DEVICE)
    values = every.float()
    finite = values.isfinite()
    weight = torch.zeros(256, 16, device=DEVICE).to(torch.float8_e4m3fn)
    weight.view(torch.uint8)[:, 0] = every.view(torch.uint8)
    one, x = torch.ones(1, device=DEVICE), torch.zeros(256, 16, device=DEVICE).to(torch.float8_e4m3fn)
    x.view(torch.uint8)[:, 0] = every.view(torch.uint8)
    got = getattr(q.fp8_matmul, form)(x, one, weight, one, None, torch.float32)
    assert torch.equal(got[finite][:, finite], (values[:, None] * values[None, :])[finite][:, finite])
    assert got[~finite].isnan().all()
    assert got[:, ~finite].isnan().all()


@FORM
def test_nan_stays_in_its_row(form):
    g = generator()
    x, codes, scale = normal(g, 3, 256), fp8(g, 5, 256), uniform(g, 1)
    clean = getattr(q.fp8_matmul, form)(x, None, codes, scale, None, torch.float32)
    x[1, 200] = torch.nan
    got = getattr(q.fp8_matmul, form)(x, None, codes, scale, None, torch.float32)
    assert got[1].isnan().all()
    assert_near(got[[0, 2]], clean[[0, 2]])


@FORM
def test_parts_of_a_wider_tensor(form):
    g = generator()
    wide, codes, scale = normal(g, 4, 50), fp8(g, 9, 40), uniform(g, 9)
    got = getattr(q.fp8_matmul, form)(wide[:, 7:47], None, codes, scale, None, torch.float32)
    whole = getattr(q.fp8_matmul, form)(wide[:, 7:47].clone(), None, codes, scale, None, torch.float32)
    assert_near(got, whole)


def test_rows_do_not_depend_on_their_neighbours():
    """Up to the tile of rows, which changes no sum: K is shared the same way whatever the batch."""
    g = generator()
    x, codes, scale = normal(g, 33, 1040), fp8(g, 70, 1040), uniform(g, 70)
    whole = q.fp8_matmul.kernel(x, None, codes, scale, None, torch.float32)
    for rows in (1, 3, 17):
        part = q.fp8_matmul.kernel(x[:rows], None, codes, scale, None, torch.float32)
        assert_near(part, whole[:rows])


def test_public_function():
    g = generator()
    x, codes, scale, bias = normal(g, 2, 3, 160), fp8(g, 20, 160), uniform(g, 20, 1), normal(g, 20)
    weight = decode_fp8(codes, scale)
    for activations in ACTIVATIONS.values():
        seen = x if activations is None else dequantise(quantise(x, activations)).view(x.shape)
        expected = seen @ weight.T + bias
        got = q.fp8_linear(x, codes, scale, bias, activations)
        assert_near(got, expected)
    if DEVICE == "cpu":
        with force_kernels():
            assert_near(q.fp8_linear(x, codes, scale, bias, activations), got)
    assert q.fp8_linear(x[:0], codes, scale, bias).shape == (0, 3, 20)


def test_no_rows():
    codes, scale = fp8(generator(), 20, 32), torch.ones(1, device=DEVICE)
    x = torch.ones(0, 32, device=DEVICE)
    assert q.fp8_matmul.kernel(x, None, codes, scale, None, torch.float32).shape == (0, 20)


@FORM
def test_a_scale_that_fits_nothing_is_refused(form):
    codes, x = fp8(generator(), 20, 32), torch.ones(1, 32, device=DEVICE)
    with pytest.raises(UsageError, match="scale"):
        getattr(q.fp8_matmul, form)(x, None, codes, torch.ones(7, device=DEVICE), None, torch.float32)


def test_registration():
    g = generator()
    x, codes, scale = normal(g, 3, 160), fp8(g, 20, 160), uniform(g, 20)
    for given, x_scale in ((x, None), quantise(x, Target("token"))):
        arguments = (given, x_scale, codes, scale, None, torch.bfloat16)
        torch.library.opcheck(q.fp8_matmul.kernel, arguments, test_utils="test_faketensor")


@FORM
def test_compiles_as_one_graph(form):
    g = generator()
    x, codes, scale = normal(g, 3, 160), fp8(g, 20, 160), uniform(g, 20)

    def step(x):
        return getattr(q.fp8_matmul, form)(x, None, codes, scale, None, x.dtype)

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    assert_near(compiled(x), step(x))
