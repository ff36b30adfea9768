"""Quantised rows: every maker and every target, torch form and kernel, against row and block by themselves."""

import pytest
import torch
import torch.nn.functional as F
from quant_made import DEVICE, codes_of, generator, normal, poisoned, uniform

from ocria.errors import UsageError
from ocria.ops import norm
from ocria.ops import quant_rows as q
from ocria.ops.quant_grid import unpack_fp4
from ocria.ops.quant_swizzle import unswizzle_scales
from ocria.ops.register import force_kernels

EPS = 1e-6
FORM = pytest.mark.parametrize("form", ["torch_form", "kernel"])
TARGET = pytest.mark.parametrize("target", q.TARGETS)
DTYPE = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
KINDS = ("plain", "norm", "add_norm", "gated_norm", "silu_mul", "sigmoid_mul")


def factor(target: str) -> torch.Tensor | None:
    known = {"static": 0.0123, "nvfp4": 0.0021, "nvfp4_swizzled": 0.0021}
    return torch.tensor([known[target]], device=DEVICE) if target in known else None


def made(kind: str, g: torch.Generator, rows: int, heads: int, size: int, dtype: torch.dtype):
    """Arguments of a maker: parts of wider tensors, as in the engine."""
    columns = heads * size
    a, b = (normal(g, rows, heads, size + 16, dtype=dtype)[..., 16:] for _ in range(2))
    if kind in ("norm", "add_norm"):
        a, b = (x.reshape(rows, 1, columns) for x in (a, b))
        return a, b if kind == "add_norm" else None, 1 + uniform(g, columns)
    return a, None if kind == "plain" else b, uniform(g, size) if kind == "gated_norm" else None


def split(found, target: str, rows: int, columns: int):
    """Codes, one a column, and scales, linear, as bytes."""
    codes, scales = found[:2]
    if target == "nvfp4_swizzled":
        scales = unswizzle_scales(scales, rows, columns // 16)
    return unpack_fp4(codes) if target.startswith("nvfp4") else codes_of(codes), codes_of(scales)


@FORM
@TARGET
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # an infinity that is clamped, in numpy
@pytest.mark.parametrize("shape", [(3, 48), (2, 272)], ids=str)
def test_quantiser_equals_its_definition(form, target, shape):
    """Bit for bit; with zero rows, huge ones, and ones whose scales are subnormal."""
    g, (rows, columns) = generator(), shape
    x = normal(g, rows, 1, columns) * 10.0 ** torch.randint(-9, 9, (rows, 1, columns), generator=g).to(DEVICE)
    special = torch.stack([torch.zeros(columns), torch.full((columns,), 1e-42), torch.full((columns,), 3e38)])
    x = torch.cat([x, special.to(DEVICE)[:, None]])
    pre = uniform(g, columns)
    for given in (pre,) if target == "nvfp4_swizzled" else (None, pre):  # 128 rows of padding take their time
        arguments = (x, None, None, 0.0, "plain", target, factor(target), given)
        with poisoned():
            found = getattr(q.quant_rows_op, form)(*arguments, False)
        codes, scales = q.quant_rows_reference(*arguments)
        got = split(found, target, len(x), columns)
        assert torch.equal(got[0], codes_of(codes).view(got[0].shape))
        if target != "static":
            assert torch.equal(got[1], codes_of(scales).view(got[1].shape))
        assert found[2].numel() == found[3].numel() == 0


@pytest.mark.skipif(DEVICE == "cuda", reason="there squares are added in the order of the tile, which is not the same")
@pytest.mark.parametrize("kind", KINDS[1:])
@DTYPE
def test_kernel_equals_plain_op_and_quantiser(kind, dtype):
    """Kernel for kernel, bit for bit: fusing changes no number."""
    g, (rows, heads, size) = generator(), (3, 3, 32)
    a, b, weight = made(kind, g, rows, heads, size, dtype)
    plain = {
        "norm": lambda: norm.rms_norm_op.kernel(a.flatten(1), weight, EPS),
        "add_norm": lambda: norm.add_rms_norm_op.kernel(a.flatten(1), b.flatten(1), weight, EPS)[0],
        "gated_norm": lambda: norm.gated_rms_norm_op.kernel(a, b, weight, EPS),
    }
    for target in ("token", "block", "nvfp4"):
        arguments = (a, b, weight, EPS, kind, target, factor(target), None)
        with poisoned():
            codes, scales, added, kept = q.quant_rows_op.kernel(*arguments, True)
        values = plain[kind]().flatten(1) if kind in plain else kept
        assert torch.equal(kept, values)
        expected = q.quant_rows_op.kernel(
            values[:, None], None, None, 0.0, "plain", target, factor(target), None, False
        )
        assert torch.equal(codes_of(codes), codes_of(expected[0]))
        assert torch.equal(codes_of(scales), codes_of(expected[1]))
        if kind == "add_norm":
            assert torch.equal(added, (a + b).flatten(1))


@pytest.mark.parametrize("kind", KINDS)
@DTYPE
def test_values_are_those_of_torch(kind, dtype):
    """fp32: exp and sums by other roundings. bf16: one last bit where such a difference falls on a border."""
    g, (rows, heads, size) = generator(), (5, 3, 16)
    a, b, weight = made(kind, g, rows, heads, size, dtype)
    arguments = (a, b, weight, EPS, kind, "token", None, None, True)
    expected = {
        "plain": lambda: a,
        "norm": lambda: norm.rms_norm_reference(a.flatten(1), weight, EPS),
        "add_norm": lambda: norm.rms_norm_reference((a + b).flatten(1), weight, EPS),
        "gated_norm": lambda: norm.gated_rms_norm_reference(a, b, weight, EPS),
        "silu_mul": lambda: F.silu(a) * b,
        "sigmoid_mul": lambda: (a.float() * torch.sigmoid(b.float())).to(dtype),
    }[kind]().flatten(1)
    close = {"atol": 1e-6, "rtol": 4e-6} if dtype == torch.float32 else {"atol": 1e-6, "rtol": 2**-6}
    for form in ("torch_form", "kernel"):
        kept = getattr(q.quant_rows_op, form)(*arguments)[3]
        torch.testing.assert_close(kept, expected, **close)
        if dtype == torch.bfloat16:
            assert (kept != expected).sum() <= 2 + 0.02 * kept.numel()


@FORM
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_nan_and_infinity_stay_visible(form):
    x = torch.ones(3, 1, 32, device=DEVICE)
    x[1, 0, 17], x[2, 0, 3] = torch.nan, torch.inf
    for target in q.TARGETS[:-1]:
        found = getattr(q.quant_rows_op, form)(x, None, None, 0.0, "plain", target, factor(target), None, False)
        rows = q._rows(found, q.Target(target, factor(target)))
        values = q.dequantise(rows)
        assert values[1, 17].isnan(), target
        assert values[0].isfinite().all()
        if target in ("token", "block"):
            assert values[2, 3].isnan()
        else:
            assert values[2].isfinite().all()


@FORM
def test_what_is_quantised_is_close(form):
    """A code of FP8 is off by 2^-4 of its value, one of FP4 by a sixth of the block's greatest and what its scale, of 4
    bits, adds."""
    g = generator()
    x = normal(g, 5, 1, 160)
    for target in ("token", "block", "nvfp4"):
        found = getattr(q.quant_rows_op, form)(x, None, None, 0.0, "plain", target, factor(target), None, False)
        values = q.dequantise(q._rows(found, q.Target(target, factor(target))))
        flat = x.flatten(1)
        if target in ("token", "block"):
            assert bool(((values - flat).abs() <= 2.0**-4 * flat.abs() + 2.0**-10 * flat.abs().amax() / 448).all())
        else:
            greatest = flat.view(5, -1, 16).abs().amax(2).repeat_interleave(16, 1)
            assert bool(((values - flat).abs() <= greatest * 0.235 + 1e-6).all())


def test_several_programs_share_a_row():
    """More columns than a program has; the last part is ragged."""
    g = generator()
    x, y = normal(g, 2, 2 * 2048 + 112), normal(g, 2, 2 * 2048 + 112)
    for target in ("block", "static", "nvfp4"):
        arguments = (x[:, None], y[:, None], None, 0.0, "silu_mul", target, factor(target), None)
        with poisoned():
            found = q.quant_rows_op.kernel(*arguments, True)
        again = q.quant_rows_op.torch_form(found[3][:, None], None, None, 0.0, "plain", target, factor(target), None, 0)
        assert torch.equal(codes_of(found[0]), codes_of(again[0]))
        if target != "static":
            assert torch.equal(codes_of(found[1]), codes_of(again[1]))


def test_public_functions():
    g = generator()
    x, y = normal(g, 2, 3, 32), normal(g, 2, 3, 32)
    weight, scale, one = uniform(g, 32), 1 + uniform(g, 32), uniform(g, 1)
    nvfp4 = q.Target("nvfp4", one * 0.001)

    def outcomes():
        yield q.quantise(x, q.Target("token"))
        yield q.rms_norm_quant(x, scale, EPS, q.Target("block"))[0]
        yield q.add_rms_norm_quant(x, y, scale, EPS, q.Target("static", one), keep=True)[0]
        yield q.gated_rms_norm_quant(x, y, weight, EPS, nvfp4)
        yield q.silu_mul_quant(x, y, nvfp4)
        yield q.sigmoid_mul_quant(x, y, nvfp4)

    plain = list(outcomes())
    assert [rows.codes.shape for rows in plain] == [(6, 32), (6, 32), (6, 32), (2, 48), (6, 16), (2, 48)]
    with torch.inference_mode():
        sums = q.add_rms_norm_quant(x, y, scale, EPS, q.Target("static", one), keep=True)[1:]
    assert torch.equal(sums[0], (x + y).view(6, 32))
    torch.testing.assert_close(sums[1], norm.rms_norm_reference(x + y, scale, EPS).view(6, 32))
    if DEVICE == "cpu":
        with force_kernels():
            for a, b in zip(plain, outcomes(), strict=True):
                # exp and the sums of norms round differently here and there, and a code with them
                assert (q.dequantise(a) - q.dequantise(b)).abs().max() <= 0.4 * q.dequantise(a).abs().max()


def test_what_does_not_fit_is_refused():
    x, one = torch.ones(2, 24, device=DEVICE), torch.ones(1, device=DEVICE)
    with pytest.raises(UsageError, match="int3"):
        q.quantise(x, q.Target("int3"))
    with pytest.raises(UsageError, match="missing"):
        q.quantise(x, q.Target("static"))
    with pytest.raises(UsageError, match="given"):
        q.quantise(x, q.Target("token", one))
    with pytest.raises(UsageError, match="24"):
        q.quantise(x, q.Target("nvfp4", one))
    with pytest.raises(UsageError, match="24"):
        q.quant_rows_op.kernel(x[:, None], x[:, None], one, EPS, "gated_norm", "token", None, None, False)


def test_registration():
    g = generator()
    a, b, weight = made("add_norm", g, 3, 1, 32, torch.float32)
    for target in ("token", "block", "nvfp4"):
        torch.library.opcheck(
            q.quant_rows_op.kernel, (a, b, weight, EPS, "add_norm", target, factor(target), None, True),
            test_utils=("test_schema", "test_faketensor"),
        )  # fmt: skip


@FORM
def test_compiles_as_one_graph(form):
    g = generator()
    x, residual, scale = normal(g, 3, 32), normal(g, 3, 32), 1 + uniform(g, 32)

    def step(x, residual):
        op = getattr(q.quant_rows_op, form)
        return op(x[:, None], residual[:, None], scale, EPS, "add_norm", "token", None, None, False)[:3]

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for a, b in zip(compiled(x, residual), step(x, residual), strict=True):
        assert torch.equal(codes_of(a), codes_of(b))
