"""The convolution before the delta rule: both forms, its ring under rejection, wraps and padding."""

import pytest
import torch
import torch.nn.functional as F

from ocria.ops.conv import causal_conv_silu, gated_conv, gated_conv_reference, ring_rows
from ocria.ops.delta import normalise_qk

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RING, SLOTS = 32, 7
# Both sides are fp32 with the same order of sums per channel; exp, log, rsqrt and the sum of a norm may differ in
# the last bits, and the compiler of a GPU fuses products into sums.
FP32 = {"atol": 2e-6, "rtol": 2e-5}


@pytest.fixture(autouse=True)
def seed():
    value = torch.seed() % 2**31
    torch.manual_seed(value)
    print(f"seed {value}")


def poison(tensor, where):
    return torch.where(where, float("nan"), tensor)


def draw(batch, window, key_heads=2, heads=4, key_dim=12, value_dim=24, width=4, dtype=torch.float32):
    """Arguments of gated_conv: garbage in unused rows, strided inputs, and NaN in all slots but those in use."""
    channels = 2 * key_heads * key_dim + heads * value_dim
    slots = torch.randperm(SLOTS - 1)[:batch] + 1
    length, count = torch.randint(0, 100, (batch,)), torch.randint(0, window + 1, (batch,))
    count[-1] = window
    if batch > 2:
        slots[:2], count[:2] = 0, 0
    unused = (torch.arange(window) >= count[:, None])[..., None]
    projected = poison(torch.randn(batch, window, channels + 2 * heads), unused).to(dtype)
    qkv, a, b = projected.split([channels, heads, heads], dim=-1)
    weight = torch.randn(width, channels).to(dtype).t()
    ring = torch.full((SLOTS, RING, channels), float("nan"))
    ring[slots[count > 0]] = torch.randn(RING, channels)
    ring = ring.to(dtype)
    rate, bias = -torch.rand(heads) * 8, torch.randn(heads) * 4
    return qkv, a * 8, b * 8, weight, rate, bias, ring, slots, length, count, key_heads, key_dim


def on(device, arguments):
    return [x.to(device) if torch.is_tensor(x) else x for x in arguments]


def run(form, arguments):
    """Results and the ring after, on the CPU; the arguments are not touched."""
    device = DEVICE if form is gated_conv.kernel else "cpu"
    arguments = on(device, arguments)
    arguments[6] = arguments[6].clone()
    return [x.cpu() for x in (*form(*arguments), arguments[6])]


def bits(tensor):
    return tensor.contiguous().view(torch.int16 if tensor.dtype == torch.bfloat16 else torch.int32)


def check(actual, expected, tolerance):
    for name, x, y in zip(("q", "k", "v", "g", "beta"), actual, expected, strict=False):
        assert (x.dtype, x.shape) == (y.dtype, y.shape), name
        assert torch.allclose(x.float(), y.float(), **tolerance), (name, (x.float() - y.float()).abs().max())
    assert torch.equal(bits(actual[5]), bits(expected[5])), "ring"


@pytest.mark.parametrize("window", [*range(1, 17), 29, 30, 40, 130])
def test_torch_form_is_the_definition(window):
    arguments = draw(4, window)
    check(run(gated_conv.torch_form, arguments), run(gated_conv_reference, arguments), FP32)


@pytest.mark.parametrize("window", [1, 2, 5, 16, 29, 30, 40])
@pytest.mark.parametrize("sizes", [(2, 4, 12, 24, 4), (1, 3, 24, 12, 3), (3, 3, 16, 16, 4)])
def test_kernel_is_the_definition(window, sizes):
    arguments = draw(3, window, *sizes)
    check(run(gated_conv.kernel, arguments), run(gated_conv_reference, arguments), FP32)


@pytest.mark.parametrize("form", [gated_conv.torch_form, gated_conv.kernel])
def test_bf16_is_rounded_once(form):
    """Within one step of bf16 (2^-8 relative): where fp32 results differ in a last bit, rounding may fall apart."""
    arguments = draw(3, 8, dtype=torch.bfloat16)
    actual, expected = run(form, arguments), run(gated_conv_reference, arguments)
    check(actual, expected, {"atol": 2e-6, "rtol": 2**-7})
    same = torch.cat([(x == y).flatten() for x, y in zip(actual[:3], expected[:3], strict=True)])
    assert same.float().mean() > 0.99


def test_the_dummy_and_other_slots_stay_as_they_are():
    arguments = draw(4, 8)
    before, used = arguments[6].clone(), arguments[7][arguments[9] > 0]
    others = torch.ones(SLOTS, dtype=torch.bool).index_fill(0, used, False)
    assert others[0]
    assert others.sum() > 1
    for form in (gated_conv_reference, gated_conv.torch_form, gated_conv.kernel):
        *results, ring = run(form, arguments)
        assert torch.equal(bits(ring[others]), bits(before[others]))
        assert not torch.equal(bits(ring[used]), bits(before[used]))
        unused = torch.arange(8) >= arguments[9][:, None]
        assert all((x[unused] == 0).all() for x in results)


def test_raw_rows_are_stored_bit_for_bit_at_their_positions():
    arguments = draw(3, 7, dtype=torch.bfloat16)
    qkv, slots, length, count = arguments[0], *arguments[7:10]
    for form in (gated_conv_reference, gated_conv.torch_form, gated_conv.kernel):
        ring = run(form, arguments)[-1]
        for t in range(int(count[-1])):
            assert torch.equal(ring[slots[-1], (length[-1] + t) % RING], qkv[-1, t])


def test_known_rows_change_nothing():
    arguments = draw(4, 8)
    rows = ring_rows(arguments[7], arguments[8], 8, 4, RING)
    a, b = run(gated_conv.torch_form, arguments), run(gated_conv.torch_form, (*arguments, rows))
    assert all(torch.equal(bits(x), bits(y)) for x, y in zip(a, b, strict=True))


def whole(qkv, a, b, weight, rate, bias, key_heads, key_dim, heads):
    """The layer's own formulas over whole sequences, without a ring."""
    y, _ = causal_conv_silu(qkv, weight)
    qk, v = y.split([2 * key_heads * key_dim, y.shape[-1] - 2 * key_heads * key_dim], dim=-1)
    q, k = (x.transpose(1, 2) for x in normalise_qk(qk.unflatten(-1, (-1, key_dim)), 1))
    return q, k, v.unflatten(-1, (heads, -1)), rate * F.softplus(a + bias), b.sigmoid()


def play(form, windows, rows=70):
    """Two sequences through the ring, in windows of which some rows are rejected, against the whole sequences.

    Rejected rows are other rows than those that come in their place, so that a window that sees them is found out.
    """
    key_heads, heads, key_dim = 1, 2, 8
    qkv, a, b, weight, rate, bias, ring, *_ = draw(2, 1, key_heads, heads, key_dim, 8)
    channels, device = qkv.shape[-1], DEVICE if form is gated_conv.kernel else "cpu"
    ring = torch.full_like(ring, float("nan"))
    slots, length = torch.tensor([3, 1]), torch.zeros(2, dtype=torch.int64)
    ring[slots] = 0
    qkv, a, b = torch.randn(2, rows, channels), torch.randn(2, rows, heads), torch.randn(2, rows, heads)
    expected = whole(qkv, a, b, weight, rate, bias, key_heads, key_dim, heads)
    ring, step = ring.to(device), 0
    while length.max() < rows:
        window, most = windows[min(step, len(windows) - 1)]
        step += 1
        real = (torch.randint(1, most + 1, (2,)) if most < window else torch.full((2,), most)).minimum(rows - length)
        inputs = [torch.randn(2, window, x.shape[-1]) for x in (qkv, a, b)]
        for i in range(2):
            for new, x in zip(inputs, (qkv, a, b), strict=True):
                new[i, : real[i]] = x[i, length[i] : length[i] + real[i]]
        count = real if window + 3 > RING else torch.full((2,), window)
        got = form(*on(device, (*inputs, weight, rate, bias, ring, slots, length, count, key_heads, key_dim)))
        for i in range(2):
            for x, y in zip(got, expected, strict=True):
                after = y[i, length[i] : length[i] + real[i]]
                assert torch.allclose(x[i, : real[i]].cpu(), after, **FP32), (step, i, int(length[i]))
        length += real
    return step


@pytest.mark.parametrize(
    "windows",
    [
        [(1, 1)],
        [(5, 2)],
        [(1, 1), (2, 1), (8, 5)],
        [(16, 7)],
        [(29, 1), (29, 1), (29, 4)],
        [(40, 40), (1, 1), (8, 3)],
        [(40, 2), (16, 4)],
        [(3, 3), (50, 50), (4, 4)],
    ],
)
def test_windows_with_rejected_rows_equal_whole_sequences(windows):
    assert play(gated_conv.torch_form, windows) > 2
    assert play(gated_conv_reference, windows) > 2


@pytest.mark.parametrize("windows", [[(16, 7)], [(40, 40), (8, 5)], [(29, 1), (29, 12)]])
def test_kernel_with_rejected_rows_equals_whole_sequences(windows):
    play(gated_conv.kernel, windows, rows=48)


@pytest.mark.parametrize("window", [2, 40])
def test_kernel_is_a_well_formed_operation(window):
    arguments = on(DEVICE, draw(2, window, 1, 2, 4, 4))
    arguments[6] = torch.randn_like(arguments[6])
    torch.library.opcheck(gated_conv.kernel, arguments)


@pytest.mark.parametrize("window", [1, 4, 40])
def test_torch_form_compiles_as_one_graph(window):
    arguments = draw(3, window)
    compiled = torch.compile(gated_conv.torch_form, fullgraph=True, backend="aot_eager")
    check(run(compiled, arguments), run(gated_conv_reference, arguments), FP32)


def test_kernel_compiles_as_one_graph():
    arguments = draw(2, 2, 1, 2, 4, 4)
    compiled = torch.compile(lambda *x: gated_conv.kernel(*x), fullgraph=True, backend="aot_eager")
    ours = on(DEVICE, arguments)
    ours[6] = ours[6].clone()
    check([x.cpu() for x in (*compiled(*ours), ours[6])], run(gated_conv_reference, arguments), FP32)
