"""Drafters over slots: a request's drafts are its own, whatever shares the batch and whatever lies around."""

import pytest
import torch
from drafter_made import RandomTarget, random_drafter, small

from ocria.ops.register import INTERPRETED, force_kernels
from ocria.spec.arena import BlockAttention, DraftState
from ocria.spec.dflash import rope
from ocria.spec.draws import Draws
from ocria.spec.rules import LayerRule

SLIDING = {"layer_types": ["sliding_attention"] * 2 + ["full_attention"], "sliding_window": 6}
DATA = {"one": small(top=SLIDING), "two": small(2, top=SLIDING)}


def run(network, target, features, anchors, slots, committed, prepared=False, live=None, first_slot=None, dtype=None):
    """Drafts of every round for requests in `slots`: features `[rounds][B, T, F]`, anchors `[rounds, B]`,
    committed `[rounds, B]`: hidden `[rounds][B, n, H]`, and the state."""
    config = network.config
    if prepared:
        network.prepare()
    dtype = dtype or torch.float32
    state = DraftState.allocate(config, 7, 40, dtype, slots.device)
    live = torch.ones_like(slots, dtype=torch.bool) if live is None else live
    length, out = torch.where(live, 0, 39), []  # an idle slot keeps the cursor of the last request
    for rows, anchor, count in zip(features, anchors, committed, strict=True):
        count = count.masked_fill(~live, 0)
        network.extend(
            rows, length[:, None] + torch.arange(rows.shape[1], device=slots.device), state, slots, length, count
        )
        length = length + count
        bound = int(length[live].max()) + config.block_size
        hidden = network.draft(
            target, anchor, length, state, slots, length, live, config.block_size, bound, first_slot
        )  # fmt: skip
        out.append(hidden)
    return out, state


def rounds(config, generator, batch, count=4, width=9):
    features = [torch.randn(batch, width, config.feature_size, generator=generator) for _ in range(count)]
    anchors = torch.randint(config.vocab_size, (count, batch), generator=generator)
    return features, anchors, torch.randint(1, 8, (count, batch), generator=generator)


@pytest.mark.parametrize("kind", DATA)
@torch.no_grad()
def test_alone_and_in_a_batch(kind, generator):
    network, target = random_drafter(DATA[kind], generator), RandomTarget(DATA[kind], generator)
    features, anchors, committed = rounds(network.config, generator, 4)
    slots = torch.tensor([5, 2, 6, 1])
    together, _ = run(network, target, features, anchors, slots, committed)
    for b in range(4):
        alone, _ = run(
            network, target, [f[b : b + 1] for f in features], anchors[:, b : b + 1], torch.tensor([3]),
            committed[:, b : b + 1],
        )  # fmt: skip
        for ours, own in zip(together, alone, strict=True):
            # Products of other sizes sum in another order.
            torch.testing.assert_close(ours[b : b + 1], own, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", DATA)
@torch.no_grad()
def test_a_view_of_neighbours_and_prepared_weights(kind, generator):
    network, target = random_drafter(DATA[kind], generator), RandomTarget(DATA[kind], generator)
    work = rounds(network.config, generator, 3)
    slots = torch.tensor([2, 3, 4])
    plain, _ = run(network, target, *work[:2], slots, work[2])
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    prepared, _ = run(network, target, *work[:2], slots, work[2], prepared=True, first_slot=2)
    for one, other in zip(plain, prepared, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    after = network.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("kind", DATA)
@torch.no_grad()
def test_what_lies_around_changes_nothing(kind, generator):
    """Rejected and padded rows that are NaN, idle slots in the run of neighbours, and rows beyond the bound."""
    network, target = random_drafter(DATA[kind], generator), RandomTarget(DATA[kind], generator)
    features, anchors, committed = rounds(network.config, generator, 3)
    live = torch.tensor([True, False, True])
    slots = torch.tensor([2, 3, 4])
    clean, _ = run(network, target, features, anchors, slots, committed)
    for rows, count in zip(features, committed, strict=True):
        rows[torch.arange(rows.shape[1]) >= count[:, None]] = torch.nan
    features = [rows.masked_fill(~live[:, None, None], torch.nan) for rows in features]
    dirty, state = run(network, target, features, anchors, slots, committed, live=live, first_slot=2)
    for one, other in zip(clean, dirty, strict=True):
        torch.testing.assert_close(one[live], other[live], rtol=1e-4, atol=1e-4)
    longest = int(committed.sum(0).max()) + network.config.block_size
    for arena in state.tensors():
        assert torch.isfinite(arena).all()  # what was NaN went nowhere
        assert not arena[[1, 3, 5, 6]].any()  # nor did a block of an idle slot
        assert arena[2].any()
        assert not arena[:, longest:].any()


@torch.no_grad()
def test_rows_of_the_context_stay_as_they_were_written(generator):
    """Blocks and later rows do not touch the context: it is what one pass over all committed rows makes."""
    network, target = random_drafter(DATA["two"], generator), RandomTarget(DATA["two"], generator)
    features, anchors, committed = rounds(network.config, generator, 2)
    slots = torch.tensor([4, 1])
    _, state = run(network, target, features, anchors, slots, committed)
    for b, slot in enumerate(slots.tolist()):
        rows = torch.cat([f[b, :count] for f, count in zip(features, committed[:, b].tolist(), strict=True)])
        keys, values = network.context(network.fuse(rows[None]), torch.arange(len(rows))[None])
        for layer in range(3):
            for arena, new in ((state.keys, keys), (state.values, values)):
                torch.testing.assert_close(arena[layer][slot, : len(rows)], new[0, :, layer], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_positions_are_not_rows(generator):
    """After an image the rotary position lags behind the row. A shift of all positions changes nothing, as rotary
    embeddings are relative; a gap between context and block does."""
    network, target = random_drafter(small(), generator), RandomTarget(small(), generator)
    config, slot, count = network.config, torch.tensor([1]), torch.tensor([9])
    features = torch.randn(1, 9, config.feature_size, generator=generator)

    def hidden(context, block):
        state = DraftState.allocate(config, 2, 20, torch.float32)
        network.extend(features, torch.arange(9)[None] + context, state, slot, torch.zeros_like(count), count)
        at = torch.tensor([9 + block])
        return network.draft(target, slot, at, state, slot, count, torch.tensor([True]), 7, 16)

    torch.testing.assert_close(hidden(0, 0), hidden(100, 100), rtol=1e-3, atol=1e-3)
    assert (hidden(0, 0) - hidden(0, 5)).abs().max() > 1e-2


@pytest.mark.parametrize("kind", DATA)
@torch.no_grad()
def test_bf16_is_near_fp32(kind, generator):
    network, target = random_drafter(DATA[kind], generator), RandomTarget(DATA[kind], generator)
    features, anchors, committed = rounds(network.config, generator, 3, count=2)
    slots = torch.tensor([1, 2, 3])
    narrow = random_drafter(DATA[kind], generator, torch.bfloat16)
    network.load_state_dict(narrow.state_dict())
    halves = [rows.bfloat16() for rows in features]
    narrow_target = RandomTarget(DATA[kind], generator, torch.bfloat16)
    target.embedding, target.head = narrow_target.embedding.float(), narrow_target.head.float()
    wide, _ = run(network, target, [rows.float() for rows in halves], anchors, slots, committed)
    short, state = run(narrow, narrow_target, halves, anchors, slots, committed, prepared=True, dtype=torch.bfloat16)
    assert all(arena.dtype == torch.bfloat16 for arena in state.tensors())
    for one, other in zip(wide, short, strict=True):
        assert other.dtype == torch.bfloat16
        # Numbers of 8 bits through three layers; random convolutions amplify. Of 40 seeds the worst was 2 and 20 per
        # cent; what is wrong is at 140, as are any two random vectors.
        assert (one - other.float()).norm() < {"one": 0.06, "two": 0.5}[kind] * one.norm()


def visible(rule, length, rows, kv_len):
    state = DraftState((torch.zeros(2, kv_len, 1, 2),), (torch.zeros(2, kv_len, 1, 2),))
    one, live = torch.tensor([1]), torch.tensor([True])
    mask = BlockAttention(state, (rule,), one, torch.tensor([length]), live, rows, kv_len).masks[rule]
    return mask[0, 0].expand(rows, kv_len) == 0


@pytest.mark.parametrize("window", [None, 1, 3, 6, 50])
@pytest.mark.parametrize("causal", [False, True])
def test_what_a_row_sees(window, causal):
    length, rows, kv_len = 8, 4, 15
    seen = visible(LayerRule(window, causal), length, rows, kv_len)
    for t in range(rows):
        for key in range(kv_len):
            query = length + t
            expected = key < length + rows  # neither what an earlier block left behind nor what comes later
            if causal:
                expected &= key <= query
            if window is not None:
                expected &= abs(query - key) < window
            assert bool(seen[t, key]) == expected, (t, key)


@torch.no_grad()
def test_nothing_waits_for_data(generator):
    """Context, block and proposal are one traced graph: no read on the host, no branch on data."""
    network, target = random_drafter(DATA["two"], generator), RandomTarget(DATA["two"], generator)
    config = network.config
    state = DraftState.allocate(config, 4, 20, torch.float32)

    def step(features, anchor, slots, length, count, live, temperature, seed):
        rows = torch.arange(features.shape[1])
        network.extend(features, length[:, None] + rows, state, slots, length, count)
        length = length + count
        hidden = network.draft(target, anchor, length, state, slots, length, live, 7, 20)
        draws = Draws(temperature, seed, length[:, None] + 1 + torch.arange(6))
        return network.propose(target, hidden, anchor, draws).tokens

    work = (
        torch.randn(2, 7, config.feature_size, generator=generator),
        torch.tensor([3, 8]), torch.tensor([2, 1]), torch.tensor([0, 0]), torch.tensor([5, 2]),
        torch.tensor([True, True]), torch.tensor([0.0, 1.0]), torch.tensor([1, 2]),
    )  # fmt: skip
    traced = torch.compile(step, backend="eager", fullgraph=True)(*work)
    for arena in state.tensors():
        arena.zero_()
    assert torch.equal(traced, step(*work))


def test_planned_bytes():
    config = random_drafter(small(), torch.Generator()).config
    state = DraftState.allocate(config, 3, 20, torch.bfloat16)
    held = sum(t.numel() * t.element_size() for t in state.tensors())
    assert DraftState.bytes_per_slot(config, 20, torch.bfloat16) * 3 == held == 3 * 3 * 2 * 27 * 2 * 10 * 2


def test_reset(generator):
    config = random_drafter(small(), generator).config
    state = DraftState.allocate(config, 3, 20, torch.float32)
    for arena in state.tensors():
        arena.fill_(torch.nan)
    state.reset([1])
    assert all(not arena[1].any() and arena[[0, 2]].isnan().all() for arena in state.tensors())


def test_rope_against_complex_numbers():
    position = torch.tensor([[0, 1, 5], [1000, 65000, 131071]])
    cos, sin = rope(position, 10, 5000.0)
    angle = position.double()[..., None] * 5000.0 ** (-torch.arange(0, 10, 2, dtype=torch.float64) / 10)
    # Positions up to 2^17 in fp32: the angle is right to 2^17 * 2^-24.
    for half in (slice(0, 5), slice(5, 10)):
        torch.testing.assert_close(cos[..., half].double(), angle.cos(), rtol=0, atol=2e-2)
        torch.testing.assert_close(sin[..., half].double(), angle.sin(), rtol=0, atol=2e-2)


def on(device, network, target, features, anchors, committed):
    """Hidden rows of three rounds on a device."""
    network.to(device)
    target.embedding, target.head = target.embedding.to(device), target.head.to(device)
    with torch.device(device):
        slots = torch.tensor([5, 2, 6])
        out, _ = run(
            network, target, [f.to(device) for f in features], anchors.to(device), slots, committed.to(device),
        )  # fmt: skip
    return [hidden.cpu() for hidden in out]


@pytest.mark.skipif(not INTERPRETED, reason="kernels run without a GPU in Triton's interpreter alone")
@torch.no_grad()
def test_kernels(generator):
    network, target = random_drafter(DATA["two"], generator), RandomTarget(DATA["two"], generator)
    work = rounds(network.config, generator, 3, count=2)
    plain = on("cpu", network, target, *work)
    with force_kernels():
        kernels = on("cpu", network, target, *work)
    for one, other in zip(plain, kernels, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@torch.no_grad()
@pytest.mark.parametrize("kind", DATA)
def test_on_a_gpu(kind, generator):
    network, target = random_drafter(DATA[kind], generator), RandomTarget(DATA[kind], generator)
    work = rounds(network.config, generator, 3)
    for one, other in zip(on("cpu", network, target, *work), on("cuda", network, target, *work), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)
