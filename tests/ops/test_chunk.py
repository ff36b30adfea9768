"""The delta rule over prompts: packed and padded segments, carried state, hard gates, garbage around the rows."""

import pytest
import torch
import torch.nn.functional as F

from ocria.ops.chunk import chunk, chunk_reference

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SLOTS = 9
# fp32 sums of at most a few hundred terms of order 1 in another order: some 1e-6 are seen.
FP32 = {"atol": 2e-5, "rtol": 2e-5}
FORMS = [chunk.torch_form, chunk.kernel]


@pytest.fixture(autouse=True)
def seed():
    value = torch.seed() % 2**31
    torch.manual_seed(value)
    print(f"seed {value}")


def draw(rows, key_heads=1, heads=2, key_dim=12, value_dim=24, dtype=torch.float32):
    """q, k, v, g, beta of N rows and a checkpoint."""
    q, k = F.normalize(torch.randn(2, rows, key_heads, key_dim), dim=-1)
    g, beta = -torch.rand(rows, heads) * 0.5, torch.rand(rows, heads)
    checkpoint = torch.randn(SLOTS, heads, key_dim, value_dim)
    return [
        (q * key_dim**-0.5).to(dtype),
        k.to(dtype),
        torch.randn(rows, heads, value_dim).to(dtype),
        g,
        beta,
        checkpoint,
    ]


def packed(*counts, gap=0):
    """slots, first, count of segments one after the other, `gap` rows before each, in the order of random slots."""
    slots = torch.randperm(SLOTS - 1)[: len(counts)] + 1
    first, at = [], 0
    for rows in counts:
        first.append(at + gap)
        at += gap + rows
    count = torch.tensor(counts)
    return at + gap, (torch.where(count > 0, slots, 0), torch.tensor(first), count)


def run(form, inputs, where):
    """o and the checkpoint after, on the CPU; NaN in all rows and slots that are not the segments' own."""
    device = DEVICE if form is chunk.kernel else "cpu"
    slots, first, count = where
    inside = torch.zeros(inputs[0].shape[0], dtype=torch.bool)
    for start, rows in zip(first.tolist(), count.tolist(), strict=True):
        inside[start : start + rows] = True
    *flat, checkpoint = inputs
    flat = [torch.where(inside.view(-1, *[1] * (x.dim() - 1)), x, float("nan")) for x in flat]
    mine = torch.zeros(SLOTS, dtype=torch.bool).index_fill(0, slots[count > 0], True)
    checkpoint = torch.where(mine[:, None, None, None], checkpoint, float("nan")).to(device)
    o = form(*(x.to(device) for x in flat), checkpoint, *(x.to(device) for x in where)).cpu()
    checkpoint = checkpoint.cpu()
    assert (o[~inside] == 0).all(), "rows outside all segments"
    assert checkpoint[~mine].isnan().all(), "slots that are not used"
    return o, checkpoint[mine]


def check(form, inputs, where, tolerance=FP32):
    actual, expected = run(form, inputs, where), run(chunk_reference, inputs, where)
    for name, x, y in zip(("o", "checkpoint"), actual, expected, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape), name
        assert torch.allclose(x.float(), y.float(), **tolerance), (name, (x.float() - y.float()).abs().max())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [1, 2, 63, 64, 65, 130])
def test_one_segment(form, rows):
    total, where = packed(rows)
    check(form, draw(total), where)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "sizes", [(1, 1, 12, 24), (1, 3, 24, 12), (2, 2, 16, 32), (2, 4, 24, 24), (3, 3, 12, 12), (1, 1, 40, 72)]
)
def test_heads_and_their_sizes(form, sizes):
    total, where = packed(70, 5, gap=2)
    check(form, draw(total, *sizes), where)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("counts", [(3, 0, 130, 64, 1), (0, 0, 2), (65, 66, 0), (0, 0)])
def test_segments_of_all_lengths_packed(form, counts):
    total, where = packed(*counts, gap=1)
    check(form, draw(total), where)


@pytest.mark.parametrize("form", FORMS)
def test_segments_out_of_order(form):
    total, (slots, first, count) = packed(5, 70, 0, 66)
    shuffled = torch.randperm(4)
    check(form, draw(total), (slots[shuffled], first[shuffled], count[shuffled]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("counts", [(0, 66), (66, 0)])
def test_a_segment_without_rows_may_name_a_slot_in_use(form, counts):
    check(form, draw(66), (torch.tensor([4, 4]), torch.tensor([0, 0]), torch.tensor(counts)))


@pytest.mark.parametrize("form", FORMS)
def test_padded_windows(form):
    """A `[B, T]` window seen as N = B T rows."""
    batch, window = 4, 66
    where = torch.tensor([5, 0, 2, 8]), torch.arange(batch) * window, torch.tensor([66, 0, 1, 65])
    check(form, draw(batch * window), where)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("split", [1, 63, 64, 65, 100])
def test_a_prompt_in_two_parts_is_the_prompt(form, split):
    inputs, slot = draw(130), torch.tensor([4])
    one = inputs[-1].clone()
    two = inputs[-1].clone()
    device = DEVICE if form is chunk.kernel else "cpu"

    def part(checkpoint, start, rows):
        arguments = [*inputs[:5], checkpoint, slot, torch.tensor([start]), torch.tensor([rows])]
        arguments = [x.to(device) for x in arguments]
        o = form(*arguments)
        checkpoint.copy_(arguments[5])
        return o.cpu()

    o = part(one, 0, 130)
    first = part(two, 0, split)
    assert not first[split:].any()
    assert torch.allclose(first + part(two, split, 130 - split), o, **FP32)
    assert torch.allclose(one, two, **FP32)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("gates", ["from zero", "no decay", "all forgotten", "mixed", "ignored rows"])
def test_hard_gates(form, gates):
    total, where = packed(67, 9)
    inputs = draw(total)
    g, beta, checkpoint = inputs[3:]
    tolerance = FP32
    if gates == "from zero":
        checkpoint.zero_()
    elif gates == "no decay":
        g.zero_()
        beta.fill_(1)
    elif gates == "all forgotten":
        g.fill_(-1000)
    elif gates == "mixed":
        # Sums of g reach -1e4, where fp32 steps are 1e-3: so much relative error in what is left of earlier rows.
        g[torch.rand(g.shape) < 0.2] = -1000
        tolerance = {"atol": 2e-3, "rtol": 2e-3}
    else:
        g.zero_()
        beta.zero_()
    check(form, inputs, where, tolerance)
    o, after = run(form, inputs, where)
    assert o.isfinite().all()
    if gates == "ignored rows":
        slots = where[0].sort().values
        assert torch.equal(after, checkpoint[slots]), "g = 0 and beta = 0 leave the state as it is"


@pytest.mark.parametrize("form", FORMS)
def test_rows_that_are_all_alike(form):
    """One key over and over, as blank paper gives it: powers of the triangular system reach 1e17 here.

    The exact inverse has entries of order 1, so the tolerance stays that of the other tests.
    """
    total, where = packed(128)
    inputs = draw(total)
    inputs[1] = inputs[1][:1].expand_as(inputs[1]).clone()
    inputs[3].zero_()
    inputs[4].fill_(0.999)
    check(form, inputs, where)


@pytest.mark.parametrize("form", FORMS)
def test_bf16_is_rounded_once(form):
    """Both sides compute in fp32 (TF32 on a GPU: 2e-3 of values of order 1), the output is rounded to 2^-9."""
    total, where = packed(65, 3)
    tolerance = {"atol": 5e-3, "rtol": 2**-7} if DEVICE == "cuda" else {"atol": 2e-5, "rtol": 2**-7}
    check(form, draw(total, dtype=torch.bfloat16), where, tolerance)


def test_rows_that_are_not_contiguous():
    total, where = packed(20)
    inputs = draw(total)
    strided = [torch.stack([x, x], dim=-1)[..., 0] for x in inputs[:5]]
    assert not strided[0].is_contiguous()
    for form in FORMS:
        actual, expected = run(form, [*strided, inputs[5]], where), run(form, inputs, where)
        assert all(torch.equal(x, y) for x, y in zip(actual, expected, strict=True))


def small():
    total, where = packed(5, 66)
    return [x.to(DEVICE) for x in (*draw(total, 1, 1, 4, 4), *where)]


def test_kernel_is_a_well_formed_operation():
    torch.library.opcheck(chunk.kernel, small())


def test_kernel_compiles_as_one_graph():
    arguments = small()
    compiled = torch.compile(lambda *x: chunk.kernel(*x) + 1, fullgraph=True, backend="aot_eager")
    expected = chunk_reference(*(x.clone().cpu() for x in arguments))
    assert torch.allclose(compiled(*arguments).cpu() - 1, expected, **FP32)
