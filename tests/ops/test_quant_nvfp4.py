"""Products with NVFP4 weights, torch form and kernel, against everything decoded in fp64."""

import pytest
import torch
from quant_made import DEVICE, assert_near, assert_within, generator, normal, packed, poisoned, scales, uniform

from ocria.errors import UsageError
from ocria.ops import quant_nvfp4 as q
from ocria.ops import quant_scaled_mm
from ocria.ops.quant_grid import decode_nvfp4, pack_fp4
from ocria.ops.quant_rows import Fp4Rows, Target, dequantise, quantise
from ocria.ops.quant_swizzle import swizzle_scales
from ocria.ops.register import force_kernels

FORM = pytest.mark.parametrize("form", ["torch_form", "kernel"])
# Odd, and ragged in every tile; the last two share K between programs.
SHAPES = [(1, 5, 16), (2, 130, 272), (7, 64, 128), (33, 129, 176), (129, 40, 144), (3, 70, 528), (17, 200, 1040)]
MULTIPLIER = torch.tensor([0.0017], device=DEVICE)
ACTIVATIONS = {"high": None, "nvfp4": Target("nvfp4", MULTIPLIER)}


def weight(g: torch.Generator, outputs: int, columns: int, swizzled: bool = False):
    block = scales(g, outputs, columns // 16)
    return packed(g, outputs, columns), swizzle_scales(block) if swizzled else block


@FORM
@pytest.mark.parametrize("activations", ACTIVATIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_matches_reference(form, activations, shape):
    g, (rows, outputs, columns) = generator(), shape
    for several in (False, True):
        dtype = torch.bfloat16 if (rows + several) % 2 else torch.float32
        x = normal(g, rows, columns, dtype=dtype)
        target = ACTIVATIONS[activations]
        given = (x, None, None) if target is None else quantise(x, target)[:3]
        if target and several:
            given = given[0], swizzle_scales(given[1]), given[2]
        codes, block = weight(g, outputs, columns, swizzled=several)
        multiplier = uniform(g, *((outputs,) if several else (1,) if outputs % 2 else ()))
        bias = normal(g, outputs, dtype=dtype) if several else None
        arguments = (*given, codes, block, multiplier, bias, dtype)
        with poisoned():
            got = getattr(q.nvfp4_matmul, form)(*arguments)
        expected = q.nvfp4_matmul_reference(*arguments[:-1], torch.float64)
        seen = x if target is None else q._decoded(*given[:2]) * given[2]
        decoded = q._decoded(codes, block).double() * multiplier.view(-1, 1)
        magnitude = seen.double().abs() @ decoded.abs().T + (0 if bias is None else bias.double().abs())
        assert got.dtype == dtype
        assert_within(got, expected, magnitude, columns)


@FORM
def test_every_code_with_every_scale(form):
    """Products of one term with powers of two: every weight there is, the subnormal scales too, bit for bit."""
    code = torch.arange(16, dtype=torch.uint8)
    outputs = 16 * 127
    # Output (scale, code): its code stands in column 0, then in column 1.
    codes = torch.zeros(2, outputs, 16, dtype=torch.uint8)
    codes[0, :, 0] = codes[1, :, 1] = code.repeat(127)
    block = torch.arange(127, dtype=torch.uint8).repeat_interleave(16).view(torch.float8_e4m3fn).view(-1, 1)
    one = torch.ones(1, device=DEVICE)
    x = torch.zeros(3, 16, device=DEVICE)
    x[:, :2] = torch.tensor([1.0, -0.5, 1024.0])[:, None]
    for half in codes:
        half, block = pack_fp4(half).to(DEVICE), block.to(DEVICE)
        expected = x[:, :1] * decode_nvfp4(half, block).sum(1)
        got = getattr(q.nvfp4_matmul, form)(x, None, None, half, block, one, None, torch.float32)
        assert torch.equal(got, expected)


@FORM
def test_whole_numbers_are_exact(form):
    """W4A4 as well: sums below 2^24 and scales that are powers of two leave nothing to round."""
    g, (rows, outputs, columns) = generator(), (5, 70, 528)
    powers = torch.tensor([0.5, 1.0, 2.0])

    def matrix(rows):
        block = powers[torch.randint(0, 3, (rows, columns // 16), generator=g)].to(torch.float8_e4m3fn)
        return packed(g, rows, columns), block.to(DEVICE)

    w, x = matrix(outputs), matrix(rows)
    multiplier = 2.0 ** torch.randint(-5, 6, (outputs,), generator=g).float().to(DEVICE)
    values = decode_nvfp4(*x)
    expected = values.double() @ (decode_nvfp4(*w) * multiplier[:, None]).double().T
    for given in ((values, None, None), (*x, torch.ones(1, device=DEVICE))):
        got = getattr(q.nvfp4_matmul, form)(*given, *w, multiplier, None, torch.float32)
        assert torch.equal(got.double(), expected)


@FORM
def test_nan_stays_in_its_row(form):
    g = generator()
    x, w, one = normal(g, 3, 256), weight(g, 5, 256), uniform(g, 1)
    clean = getattr(q.nvfp4_matmul, form)(x, None, None, *w, one, None, torch.float32)
    x[1, 200] = torch.nan
    got = getattr(q.nvfp4_matmul, form)(x, None, None, *w, one, None, torch.float32)
    assert got[1].isnan().all()
    assert_near(got[[0, 2]], clean[[0, 2]])
    w[1].view(torch.uint8)[2, 3] = 0x7F
    got = getattr(q.nvfp4_matmul, form)(x, None, None, *w, one, None, torch.float32)
    assert got[:, 2].isnan().all()
    assert got[0, [0, 1, 3, 4]].isfinite().all()


def test_public_function():
    g = generator()
    x, w, multiplier, bias = normal(g, 2, 3, 160), weight(g, 20, 160), uniform(g, 20), normal(g, 20)
    decoded = decode_nvfp4(*w) * multiplier[:, None]
    for activations in ACTIVATIONS.values():
        seen = x if activations is None else dequantise(quantise(x, activations)).view(x.shape)
        expected = seen @ decoded.T + bias
        got = q.nvfp4_linear(x, *w, multiplier, bias, activations)
        assert_near(got, expected)
    if DEVICE == "cpu":
        with force_kernels():
            same = q.nvfp4_linear(x, *w, multiplier, bias, activations)
        assert_near(same, got)


def test_no_rows():
    w, one = weight(generator(), 20, 32), torch.ones(1, device=DEVICE)
    x = torch.ones(0, 32, device=DEVICE)
    assert q.nvfp4_matmul.kernel(x, None, None, *w, one, None, torch.float32).shape == (0, 20)


@FORM
def test_what_does_not_fit_is_refused(form):
    g = generator()
    (codes, block), one = weight(g, 20, 32), torch.ones(1, device=DEVICE)
    x = torch.ones(1, 32, device=DEVICE)
    form = getattr(q.nvfp4_matmul, form)
    for wrong in (
        (x[:, :16], codes, block, one),
        (x, codes, block[:, :1].contiguous(), one),
        (x, codes, block.flatten(), one),
        (x, codes, block, torch.ones(3, device=DEVICE)),
    ):
        with pytest.raises(UsageError, match="do not fit"):
            form(wrong[0], None, None, *wrong[1:], None, torch.float32)


def test_registration():
    g = generator()
    x, w, one = normal(g, 3, 160), weight(g, 20, 160), uniform(g, 1)
    for given in ((x, None, None), quantise(x, ACTIVATIONS["nvfp4"])[:3]):
        arguments = (*given, *w, one, None, torch.bfloat16)
        torch.library.opcheck(q.nvfp4_matmul.kernel, arguments, test_utils="test_faketensor")


@FORM
def test_compiles_as_one_graph(form):
    g = generator()
    x, w, one = normal(g, 3, 160), weight(g, 20, 160), uniform(g, 1)

    def step(x):
        return getattr(q.nvfp4_matmul, form)(x, None, None, *w, one, None, x.dtype)

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    assert_near(compiled(x), step(x))


def scaled_mm_arguments(g: torch.Generator, rows: int, outputs: int, columns: int):
    """Rows and weights with scales that are swizzled, and one multiplier for each."""
    x = quantise(normal(g, rows, columns), Target("nvfp4_swizzled", MULTIPLIER))
    return x, *weight(g, outputs, columns, swizzled=True), uniform(g, 1)


def test_scaled_mm_gets_what_torch_takes(monkeypatch):
    """torch's own checks of shapes, layouts and scales, which need no GPU that multiplies NVFP4."""
    x, *rest = scaled_mm_arguments(generator(), 64, 96, 256)
    monkeypatch.setattr(quant_scaled_mm, "has_scaled_mm", lambda device: True)
    x = Fp4Rows(*(part.to("meta") for part in x[:3]), True)
    y = quant_scaled_mm.nvfp4_scaled_mm(x, *(part.to("meta") for part in rest))
    assert y.shape == (64, 96)
    assert y.dtype == torch.bfloat16
    with pytest.raises(UsageError, match="swizzled"):
        quant_scaled_mm.nvfp4_scaled_mm(x._replace(swizzled=False), *(part.to("meta") for part in rest))


def test_scaled_mm_says_where_it_does_not_run():
    arguments = scaled_mm_arguments(generator(), 3, 32, 64)
    if quant_scaled_mm.has_scaled_mm(arguments[1].device):
        expected = q.nvfp4_matmul_reference(*arguments[0][:3], *arguments[1:], None, torch.float32)
        y = quant_scaled_mm.nvfp4_scaled_mm(*arguments).float()
        torch.testing.assert_close(y, expected, rtol=2e-2, atol=1e-2 * float(expected.abs().max()))
    else:
        with pytest.raises(UsageError, match="multiplies no NVFP4"):
            quant_scaled_mm.nvfp4_scaled_mm(*arguments)
