"""The replay step: every form against the definition; the fold of each, bit for bit, against its own single steps."""

import pytest
import torch
import torch.nn.functional as F

from ocria.errors import UsageError
from ocria.ops import replay_fold
from ocria.ops.delta import delta_recurrent
from ocria.ops.replay import replay
from ocria.ops.replay_reference import replay_reference

FORMS = {"reference": replay_reference, "torch": replay.torch_form, "kernel": replay.kernel}
OPTIMISED = ["torch", "kernel"]
STATE = ("checkpoint", "ring_k", "ring_v", "ring_u", "ring_gates")


@pytest.fixture(autouse=True)
def seed():
    value = torch.seed() % 2**32
    torch.manual_seed(value)
    print("seed", value)


def device_of(form):
    return "cuda" if form == "kernel" and torch.cuda.is_available() else "cpu"


def draw_rows(*shape, heads, dims, dtype=torch.float32):
    """q, k, v, g, beta of `shape`; heads (Hk, Hv), dims (Dk, Dv). Strong and weak gates in one."""
    (hk, hv), (dk, dv) = heads, dims
    q, k = (F.normalize(torch.randn(*shape, hk, dk), dim=-1) for _ in range(2))
    g = -torch.rand(*shape, hv).square() * torch.rand(*shape, hv).mul(3).exp()
    return (q * dk**-0.5).to(dtype), k.to(dtype), torch.randn(*shape, hv, dv).to(dtype), g, torch.rand(*shape, hv)


def empty_state(slots, ring, heads, dims, dtype=torch.float32):
    """What no row was written to yet: rings of NaN, checkpoints too."""
    (hk, hv), (dk, dv) = heads, dims
    shapes = (
        (slots, hv, dk, dv),
        (slots, ring, hk, dk),
        (slots, ring, hv, dv),
        (slots, ring, hv, dv),
        (slots, ring, 2, hv),
    )
    kinds = torch.float32, dtype, dtype, dtype, torch.float32
    return [torch.full(shape, float("nan"), dtype=kind) for shape, kind in zip(shapes, kinds, strict=True)]


def with_history(slots, length, folded, ring, heads, dims, dtype=torch.float32):
    """State in which `slots` have the rows folded..length-1 in their rings, with the deltas that belong to them."""
    state = empty_state(int(slots.max()) + 2, ring, heads, dims, dtype)
    at = F.pad(slots, (1, 0))  # the dummy slot too: a write to it would show
    state[0][at] = torch.randn(len(at), *state[0].shape[1:])
    for slot, end, start in zip(slots.tolist(), length.tolist(), folded.tolist(), strict=True):
        if end > start:
            rows = draw_rows(1, end - start, heads=heads, dims=dims, dtype=dtype)
            one = torch.tensor([start])
            call(replay_reference, rows, state, torch.tensor([slot]), one, one, one * 0 + end - start, one < 0)
    return state


def call(form, rows, state, slots, length, folded, count, flush):
    return form(*rows, *state, slots, length, folded, count, flush)


def run(name, rows, state, *cursors):
    """Run a form on copies; returns its output and its state, on the CPU."""
    device = device_of(name)
    ours = [tensor.clone().to(device) for tensor in state]
    o = call(FORMS[name], [row.to(device) for row in rows], ours, *(cursor.to(device) for cursor in cursors))
    return o.cpu(), [tensor.cpu() for tensor in ours]


def bits(tensor):
    return tensor.contiguous().view(torch.int16 if tensor.dtype == torch.bfloat16 else torch.int32)


def error(ours, expected):
    """Largest relative error of the entries of the first dimension, by norm. NaN counts as infinite.

    An entry that is small because its terms cancel is measured against the mean of all.
    """
    off = (ours.double() - expected.double()).flatten(1).norm(dim=1)
    size = expected.double().flatten(1).norm(dim=1)
    return (off / torch.maximum(size, size.mean())).nan_to_num(float("inf")).max().item()


def check(name, rows, state, slots, length, folded, count, flush, outputs=1e-5):
    """One step against the definition: outputs, what is written, and that nothing else is."""
    cursors = slots, length, folded, count, flush
    expected_o, expected = run("reference", rows, state, *cursors)
    o, ours = run(name, rows, state, *cursors)
    assert o.dtype == rows[2].dtype
    assert error(o, expected_o) < outputs
    beyond = torch.arange(rows[0].shape[1]) >= count[:, None]
    assert (o[beyond] == 0).all()
    live = count > 0
    assert error(ours[0][slots[live]], expected[0][slots[live]]) < 1e-6
    written = torch.zeros(state[1].shape[:2], dtype=torch.bool)
    for slot, end, used in zip(slots.tolist(), length.tolist(), count.tolist(), strict=True):
        written[slot, torch.arange(end, end + used) % state[1].shape[1]] = True
    for kind, before, after, reference in zip(STATE[1:], state[1:], ours[1:], expected[1:], strict=True):
        if kind == "ring_u":
            if written.any():
                assert error(after[written], reference[written]) < outputs, kind
        else:
            assert torch.equal(bits(after[written]), bits(reference[written])), kind
        assert torch.equal(bits(after[~written]), bits(before[~written])), kind
    folding = torch.zeros(len(state[0]), dtype=torch.bool)
    folding[slots[live & flush]] = True
    assert torch.equal(bits(ours[0][~folding]), bits(state[0][~folding]))


def poison(rows, count):
    """NaN in the rows of the window that are not in use."""
    beyond = torch.arange(rows[0].shape[1]) >= count[:, None]
    return [row.masked_fill(beyond.view(*beyond.shape, *[1] * (row.ndim - 2)), float("nan")) for row in rows]


SHAPES = [
    (16, 32, (1, 1), (8, 12)),
    (8, 16, (1, 2), (12, 8)),
    (5, 16, (2, 2), (5, 7)),
    (1, 8, (1, 3), (9, 3)),
]


@pytest.mark.parametrize("name", OPTIMISED)
@pytest.mark.parametrize(("width", "ring", "heads", "dims"), SHAPES, ids=["T16", "T8", "T5", "T1"])
def test_every_history_and_window(name, width, ring, heads, dims):
    """All pairs of history and window that fit, flushing or not, at random places of the ring, beside padding."""
    cases = [(history, count) for count in range(1, width + 1) for history in range(ring - count + 1)]
    if name == "kernel" and heads != (1, 1):
        # Those of the widest window are all run; the interpreter takes its time for the others.
        cases = [cases[i] for i in torch.randperm(len(cases))[:24]]
    history, count = (torch.tensor(column) for column in zip(*cases, strict=True))
    slots = torch.randperm(len(cases)) + 1
    folded = torch.randint(0, 2**40, slots.shape)
    state = with_history(slots, folded + history, folded, ring, heads, dims)
    length, flush = F.pad(folded + history, (0, 2), value=4), F.pad(torch.rand(len(slots)) < 0.5, (0, 2), value=True)
    slots, folded, count = (F.pad(cursor, (0, 2)) for cursor in (slots, folded, count))
    rows = poison(draw_rows(len(slots), width, heads=heads, dims=dims), count)
    check(name, rows, state, slots, length, folded, count, flush)


def test_a_window_in_full_use():
    """No padding and one history for all: what the torch form leaves out then."""
    heads, dims, slots = (2, 4), (8, 6), torch.tensor([3, 4, 5])
    for width, history, flush in [(1, 0, False), (4, 9, False), (6, 0, False), (3, 7, True), (1, 15, True)]:
        folded = torch.full((3,), 1001)
        state = with_history(slots, folded + history, folded, 16, heads, dims)
        rows = draw_rows(3, width, heads=heads, dims=dims)
        count, flushing = torch.full((3,), width), torch.full((3,), flush)
        check("torch", rows, state, slots, folded + history, folded, count, flushing)


def step_by_step(name, state, rows, tokens):
    """The form's own recurrence: every token a window of one row, folded before the next."""
    device = device_of(name)
    state = [tensor.clone().to(device) for tensor in state]
    slots = torch.arange(1, len(tokens) + 1, device=device)
    longest = max(tokens)
    for p in range(longest + 1):
        # The last window of each folds its last row; a row of zeros goes to the ring after it.
        count = torch.tensor([int(p <= end) for end in tokens], device=device)
        one = [row[:, min(p, longest - 1)][:, None].to(device) for row in rows]
        at = torch.full_like(slots, p)
        call(FORMS[name], one, state, slots, at, (at - 1).clamp_min(0), count, at > 0)
    return state[0].cpu()


def window_of(pattern, width):
    """Rows of a window, and how many of them are committed: drafts accepted or not, the tail of a prompt, no drafts."""
    some = int(torch.randint(1, width + 1, ()))
    return {"all": (width, width), "none": (width, 1), "some": (width, some), "tail": (some, some), "plain": (1, 1)}[
        pattern
    ]


def decode(name, state, rows, tokens, patterns, width, ring):
    """Commit `tokens` rows of each slot in windows, with rejected rows of noise behind the accepted ones; outputs too.

    Slots start at different phases of the ring, flush when they must and, now and then, before; slots that are
    done are padding in a batch with padding of its own.
    """
    device = device_of(name)
    state = [tensor.clone().to(device) for tensor in state]
    batch = len(tokens)
    slots = F.pad(torch.arange(1, batch + 1), (0, 1))
    origin = torch.randint(0, 2**40, (batch + 1,))
    length, folded = torch.zeros_like(origin), torch.zeros_like(origin)
    tokens = torch.tensor([*tokens, 0])
    outputs = torch.full(rows[2].shape, float("nan"))
    while (length < tokens).any():
        count, committed = torch.tensor([window_of(p, width) for p in [*patterns, "plain"]]).T
        count = torch.where(length < tokens, count, 0)
        committed = torch.minimum(torch.minimum(committed, tokens - length), count)
        flush = (length - folded + 2 * width > ring) | (torch.rand(batch + 1) < 0.15)
        heads, dims = (rows[1].shape[2], rows[2].shape[2]), (rows[1].shape[3], rows[2].shape[3])
        window = draw_rows(batch + 1, width, heads=heads, dims=dims)
        for b, (start, n) in enumerate(zip(length.tolist(), committed.tolist(), strict=True)):
            for mine, truth in zip(window, rows, strict=True):
                mine[b, :n] = truth[b, start : start + n] if n else float("nan")
        window = [row.to(device) for row in poison(window, count)]
        cursors = (cursor.to(device) for cursor in (slots, origin + length, origin + folded, count, flush))
        o = call(FORMS[name], window, state, *cursors).cpu()
        for b, (start, n) in enumerate(zip(length.tolist(), committed.tolist(), strict=True)):
            if n:
                outputs[b, start : start + n] = o[b, :n]
        folded = torch.where(flush & (count > 0), length, folded)
        length = length + committed
    last = [torch.zeros_like(row[:, :1]) for row in window]
    cursors = slots, origin + length, origin + folded, (slots > 0).long(), slots > 0
    call(FORMS[name], last, state, *(cursor.to(device) for cursor in cursors))
    return outputs, state[0].cpu()


@pytest.mark.parametrize("name", FORMS)
def test_folding_is_the_recurrence_bit_for_bit(name):
    """Any pattern of acceptance, plain decoding, padding, wraps of the ring: the state is that of single steps."""
    patterns = ["all", "none", "some", "tail", "plain", "some"]
    # 2000 tokens of a slot where that is quick; the interpreter takes 30 ms for one.
    total = 12000 if device_of(name) == "cuda" else {"kernel": 260, "reference": 700, "torch": 12000}[name]
    width, ring, heads, dims = 6, 16, (1, 1), (12, 10)
    share = total // len(patterns)
    tokens = [int(torch.randint(share * 2 // 3, share * 4 // 3, ())) for _ in patterns]
    rows = draw_rows(len(tokens), max(tokens), heads=heads, dims=dims)
    rows = [F.pad(row, (0, 0) * (row.ndim - 1) + (0, 1)) for row in rows]
    state = empty_state(len(tokens) + 2, ring, heads, dims)
    state[0][1:] = torch.randn(state[0][1:].shape)
    outputs, folded = decode(name, state, rows, tokens, patterns, width, ring)
    plain = step_by_step(name, state, [row[:-1] for row in rows], tokens)
    assert torch.equal(bits(folded), bits(plain))

    q, k, v, g, beta = (row[:-1].transpose(1, 2) for row in rows)
    for b, end in enumerate(tokens):
        until = [row[b : b + 1, :, :end].double() for row in (q, k, v, g, beta)]
        o, final = delta_recurrent(*until, state[0][b + 1 : b + 2].double())
        assert error(folded[b + 1 : b + 2], final) < 1e-6, f"slot {b + 1} of {name}"
        # Token by token: a drift would show at the end.
        assert error(outputs[b, :end], o[0].transpose(0, 1)) < 1e-5


@pytest.mark.parametrize("name", ["reference", "torch"])
def test_a_ring_of_one_row_is_the_recurrent_step(name):
    heads, dims, tokens = (1, 2), (6, 5), 40
    rows = draw_rows(1, tokens, heads=heads, dims=dims)
    state = empty_state(3, 1, heads, dims)
    state[0][2] = torch.randn(state[0][2].shape)
    q, k, v, g, beta = (row.transpose(1, 2) for row in rows)
    expected, _ = delta_recurrent(*(x.repeat_interleave(2, dim=1) for x in (q, k)), v, g, beta, state[0][2:3])
    for p in range(tokens):
        at = torch.tensor([p])
        one = [row[:, p : p + 1] for row in rows]
        o = call(FORMS[name], one, state, torch.tensor([2]), at, (at - 1).clamp_min(0), at * 0 + 1, at >= 0)
        assert error(o, expected[:, :, p : p + 1].transpose(1, 2)) < 1e-5


def some_step(width=4, ring=16, heads=(1, 2), dims=(8, 6), dtype=torch.float32):
    """Arguments of one step: flushing and not, in part and in full use, padding."""
    slots, folded = torch.tensor([3, 1, 2, 0, 0]), torch.tensor([77, 5, 1000, 0, 3])
    length, count = folded + torch.tensor([9, 4, 0, 0, 2]), torch.tensor([width, width - 1, 1, 0, 0])
    flush = torch.tensor([True, False, False, False, True])
    state = with_history(slots[:3], length[:3], folded[:3], ring, heads, dims, dtype)
    rows = poison(draw_rows(len(slots), width, heads=heads, dims=dims, dtype=dtype), count)
    return rows, state, (slots, length, folded, count, flush)


@pytest.mark.parametrize("name", OPTIMISED)
def test_bf16(name):
    """The fp32 checkpoint as exact as ever; outputs and deltas to their rounding, 2^-8, of which deltas add some."""
    rows, state, cursors = some_step(dtype=torch.bfloat16)
    check(name, rows, state, *cursors, outputs=2**-7)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_slot_is_folded_alike_alone_and_among_others(threads, monkeypatch):
    """Odd sizes, of which a vector and its tail share the columns, enough of them for two threads."""
    heads, dims, ring, batch = (2, 4), (33, 65), 16, 9
    slots = torch.randperm(batch) + 1
    folded = torch.randint(0, 1000, (batch,))
    length = folded + torch.randint(1, ring + 1, (batch,))
    state = with_history(slots, length, folded, ring, heads, dims)
    flush = torch.ones(batch, dtype=torch.bool)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        together, grouped, alone = (state[0].clone() for _ in range(3))
        monkeypatch.setattr(replay_fold, "GROUP_BYTES", 1 << 30)
        replay_fold.fold(together, state[1], state[2], state[4], slots, folded, length, flush)
        monkeypatch.setattr(replay_fold, "GROUP_BYTES", 3 * state[0][0].nbytes)
        replay_fold.fold(grouped, state[1], state[2], state[4], slots, folded, length, flush)
        for b in range(batch):
            one = (cursor[b : b + 1] for cursor in (slots, folded, length, flush))
            replay_fold.fold(alone, state[1], state[2], state[4], *one)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(bits(together), bits(alone))
    assert torch.equal(bits(grouped), bits(alone))
    assert not torch.equal(bits(alone), bits(state[0]))


def test_fold_leaves_those_that_do_not_flush():
    _, state, (slots, length, folded, _, flush) = some_step()
    ours = state[0].clone()
    replay_fold.fold(ours, state[1], state[2], state[4], slots, folded, length, flush & False)
    assert torch.equal(bits(ours), bits(state[0]))


@pytest.mark.parametrize(
    ("width", "ring", "form"), [(5, 8, "kernel"), (4, 12, "kernel"), (9, 8, "torch"), (2, 6, "torch")]
)
def test_rings_that_cannot_serve_are_refused(width, ring, form):
    rows = draw_rows(1, width, heads=(1, 1), dims=(4, 4))
    state = [t.nan_to_num() for t in empty_state(2, ring, (1, 1), (4, 4))]
    one = torch.tensor([1])
    with pytest.raises(UsageError, match="ring"):
        run(form, rows, state, one, one, one, one, one > 0)


def test_operator_and_graphs():
    """Schema, mutations and fake of the operator; both forms in one graph, with what they leave in the state."""
    rows, state, cursors = some_step()
    device = device_of("kernel")
    arguments = [tensor.nan_to_num().to(device) for tensor in (*rows, *state)] + [c.to(device) for c in cursors]
    torch.library.opcheck(replay.kernel, arguments)
    expected_o, expected = run("reference", rows, state, *cursors)
    for name in OPTIMISED:
        compiled = torch.compile(lambda *a, form=FORMS[name]: form(*a), fullgraph=True, backend="aot_eager")
        ours = [tensor.clone().to(device_of(name)) for tensor in state]
        o = call(compiled, [r.to(device_of(name)) for r in rows], ours, *(c.to(device_of(name)) for c in cursors)).cpu()
        assert error(o, expected_o) < 1e-5
        for after, reference in zip(ours, expected, strict=True):
            assert torch.allclose(after.cpu(), reference, rtol=1e-5, atol=1e-5, equal_nan=True), name


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("width", "ring"), [(1, 16), (8, 64), (16, 64)])
def test_shapes_of_the_4b_model(width, ring):
    rows, state, cursors = some_step(max(width, 2), ring, (16, 32), (128, 128), torch.bfloat16)
    check("kernel", rows, state, *cursors, outputs=2**-7)
