"""The norms: torch forms and kernels against the definitions, and those against transformers; gradients."""

import secrets

import pytest
import torch
import torch.nn.functional as F
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5RMSNorm, Qwen3_5RMSNormGated

from ocria.ops import norm
from ocria.ops.register import force_kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EPS = 1e-6
# fp32: sums in another order. bf16: one last bit where such a difference falls on a rounding border.
CLOSE = {torch.float32: {"atol": 1e-6, "rtol": 2e-6}, torch.bfloat16: {"atol": 1e-6, "rtol": 2**-7}}
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
FORM = pytest.mark.parametrize("form", ["torch_form", "kernel"])
SHAPES = pytest.mark.parametrize("shape", [(1, 1, 256), (5, 3, 24), (3, 1, 6, 64), (17,), (2, 2600)], ids=str)


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    seed = secrets.randbelow(1 << 30)
    print("seed", seed)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return x.to(DEVICE)


def assert_same(got: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(got, expected, **CLOSE[got.dtype])
    if got.dtype == torch.bfloat16:
        # Rounded once too often, too rarely or not to nearest, a third of all values differ; by chance hardly one.
        assert (got != expected).sum() <= 1 + 0.02 * got.numel()


def call(op, form: str, *arguments):
    return getattr(op, form)(*arguments, EPS)


@FORM
@DTYPES
@SHAPES
def test_rms_norm_matches_definition(form, dtype, shape):
    x, scale = random(*shape, dtype=dtype), 1 + random(shape[-1])
    y = call(norm.rms_norm_op, form, x, scale)
    assert_same(y, norm.rms_norm_reference(x, scale, EPS))


@FORM
@DTYPES
@SHAPES
def test_add_rms_norm_matches_definition(form, dtype, shape):
    x, residual, scale = random(*shape, dtype=dtype), 3 * random(*shape, dtype=dtype), 1 + random(shape[-1])
    y, added = call(norm.add_rms_norm_op, form, x, residual, scale)
    assert torch.equal(added, residual + x)
    assert_same(y, norm.rms_norm_reference(added, scale, EPS))


@FORM
@DTYPES
@SHAPES
def test_gated_rms_norm_matches_definition(form, dtype, shape):
    x, gate, weight = random(*shape, dtype=dtype), 4 * random(*shape, dtype=dtype), random(shape[-1])
    y = call(norm.gated_rms_norm_op, form, x, gate, weight)
    assert_same(y, norm.gated_rms_norm_reference(x, gate, weight, EPS))


@FORM
def test_parts_of_a_wider_tensor(form):
    wide, scale = random(3, 2, 4, 31), 1 + random(24)
    part = wide[..., 7:]
    whole = part.clone()
    for op, arguments in (
        (norm.rms_norm_op, lambda x: (x,)),
        (norm.add_rms_norm_op, lambda x: (whole, x)),
        (norm.add_rms_norm_op, lambda x: (x, whole)),
        (norm.gated_rms_norm_op, lambda x: (whole, x)),
        (norm.gated_rms_norm_op, lambda x: (x, whole)),
        (norm.rms_norm_op, lambda x: (x.transpose(0, 2),)),
    ):
        got, expected = (call(op, form, *arguments(x), scale) for x in (part, whole))
        torch.testing.assert_close(got, expected, **CLOSE[torch.float32])


@FORM
def test_rows_of_any_size_do_not_touch_each_other(form):
    # Zero, as small as eps counts, ordinary, near the limit of the squares, and a NaN.
    x = random(5, 24) * torch.tensor([0, 1e-4, 1, 1e17, torch.nan], device=DEVICE)[:, None]
    scale = 1 + random(24)
    y = call(norm.rms_norm_op, form, x, scale)
    torch.testing.assert_close(y[:4], norm.rms_norm_reference(x, scale, EPS)[:4], **CLOSE[torch.float32])
    assert not y[0].any()
    assert y[4].isnan().all()
    for row in range(4):
        assert torch.equal(call(norm.rms_norm_op, form, x[row : row + 1], scale)[0], y[row]), row


@DTYPES
def test_definitions_are_those_of_transformers(dtype):
    x, gate, weight = random(5, 3, 24, dtype=dtype), random(5, 3, 24, dtype=dtype), random(24)
    peer = Qwen3_5RMSNorm(24, eps=EPS).to(DEVICE)
    gated = Qwen3_5RMSNormGated(24, eps=EPS).to(DEVICE)
    with torch.no_grad():
        peer.weight.copy_(weight)
        gated.weight.copy_(weight)
        expected, expected_gated = peer(x), gated(x, gate)
    assert_same(norm.rms_norm_reference(x, 1 + weight, EPS), expected)
    assert_same(norm.gated_rms_norm_reference(x, gate, weight, EPS), expected_gated.to(dtype))


@DTYPES
def test_gradients(dtype):
    """Against the formulas in fp64; a row of zeros, as padding is, has a finite gradient."""
    x, other = random(6, 3, 24, dtype=dtype), random(6, 3, 24, dtype=dtype)
    scale, pull = 1 + random(24), random(6, 3, 24)
    x[1], other[1] = 0, 0

    def gradients(function, cast):
        leaves = [t.to(cast(t)).requires_grad_() for t in (x, other, scale)]
        return torch.autograd.grad((function(*leaves) * pull).sum(), leaves)

    def exact_norm(x, scale):
        return F.rms_norm(x, (24,), scale, EPS)

    pairs = (
        (lambda x, o, s: norm.rms_norm(x, s, EPS) + o, lambda x, o, s: exact_norm(x, s) + o),
        (lambda x, o, s: sum(norm.add_rms_norm(x, o, s, EPS)), lambda x, o, s: exact_norm(x + o, s) + x + o),
        (lambda x, o, s: norm.gated_rms_norm(x, o, s, EPS), lambda x, o, s: exact_norm(x, s) * F.silu(o)),
    )
    # bf16: the norms' results and the sums over rows are each rounded to 8 bits.
    close = {"atol": 2e-5, "rtol": 2e-5} if dtype == torch.float32 else {"atol": 0.2, "rtol": 0.05}
    for ours, exact in pairs:
        got = gradients(ours, lambda t: t.dtype)
        for mine, theirs in zip(got, gradients(exact, lambda t: torch.float64), strict=True):
            assert mine.isfinite().all()
            torch.testing.assert_close(mine.double(), theirs, **close)


def test_training_after_inference_with_the_same_sizes():
    x, scale = random(3, 24), 1 + random(24)
    eps = secrets.randbelow(1 << 30) * 1e-15  # met here first
    with torch.inference_mode():
        expected = norm.rms_norm_op.torch_form(x, scale, eps)
    trained = x.clone().requires_grad_()
    y = norm.rms_norm(trained, scale, eps)
    y.sum().backward()
    assert torch.equal(y, expected)
    assert trained.grad.any()


@pytest.mark.skipif(DEVICE == "cuda", reason="kernels need not be forced")
def test_public_functions_take_kernels_unless_a_gradient_is_wanted():
    x, scale = random(3, 24), 1 + random(24)
    with force_kernels():
        assert torch.equal(norm.rms_norm(x, scale, EPS), norm.rms_norm_op.kernel(x, scale, EPS))
        trained = x.clone().requires_grad_()
        norm.rms_norm(trained, scale, EPS).sum().backward()
    assert trained.grad.any()


CASES = {
    "rms_norm": (norm.rms_norm_op, 1),
    "add_rms_norm": (norm.add_rms_norm_op, 2),
    "gated_rms_norm": (norm.gated_rms_norm_op, 2),
}


@pytest.mark.parametrize(("op", "inputs"), CASES.values(), ids=CASES)
def test_registration(op, inputs):
    arguments = (*(random(3, 2, 24) for _ in range(inputs)), random(24), EPS)
    torch.library.opcheck(op.kernel, arguments)


@FORM
@pytest.mark.parametrize(("op", "inputs"), CASES.values(), ids=CASES)
def test_compiles_as_one_graph(form, op, inputs):
    arguments = (*(random(3, 2, 24) for _ in range(inputs)), random(24))
    compiled = torch.compile(lambda *a: call(op, form, *a), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*arguments), call(op, form, *arguments), **CLOSE[torch.float32])
