"""Acceptance: worked examples, every pattern of acceptance and ending, and whole generations with wild drafts."""

import itertools

import pytest
import torch

from ocria.ops.accept import FAILED, LENGTH, RUNNING, STOP, accept, accept_reference
from ocria.ops.metadata import metadata

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MUTATED = ("pending", "given", "drafted", "length_all", "folded_all", "left", "done")
FORMS = {"reference": accept_reference, "torch": accept.torch_form}
WRONG = 500  # a token that no test chooses
STOP_ID = 7


def step(**fields):
    return fields


def window(rows):
    """Arguments of `accept` from steps with given, count, ids, chosen and, if wanted, nan, left and flush.

    One slot a row, from slot 1 on; two padded rows at the end that name the dummy slot and hold garbage.
    """
    wide, batch = len(rows[0]["ids"]), len(rows)
    slots = torch.tensor([*range(1, batch + 1), 0, 0])
    ids, chosen = torch.full((2, batch + 2, wide), STOP_ID)
    probability = torch.full((batch + 2, wide), torch.nan)
    count, flush = torch.zeros(batch + 2, dtype=torch.int64), torch.ones(batch + 2, dtype=torch.bool)
    given, drafted, left = torch.full((3, batch + 1), 3)
    length, folded = torch.arange(batch + 1) * 3 + 5, torch.arange(batch + 1) * 3
    pending = torch.full((batch + 1, wide), WRONG)
    stops = torch.full((batch + 1, 3), -1)
    stops[:, 1] = STOP_ID
    for b, row in enumerate(rows):
        ids[b], chosen[b] = torch.tensor(row["ids"]), torch.tensor(row["chosen"])
        probability[b] = 0.5
        if row.get("nan") is not None:
            probability[b, row["nan"]] = torch.nan
        count[b], flush[b] = row["count"], row.get("flush", False)
        given[b + 1], drafted[b + 1] = row["given"], row["count"] - row["given"]
        left[b + 1] = row.get("left", 99)
    done = torch.zeros(batch + 1, dtype=torch.bool)
    cursors = (pending, given, drafted, length, folded, left, done)
    return chosen, probability, ids, slots, length[slots], count, flush, *cursors, stops


def run(form, arguments, device="cpu"):
    """Results and what was written in place, by name."""
    moved = [x.clone().to(device) for x in arguments]
    results = form(*moved)
    names = ("tokens", "emitted", "reason", *MUTATED)
    return dict(zip(names, (x.cpu() for x in (*results, *moved[7:14])), strict=True))


def same(got, expected):
    for name in expected:
        assert got[name].dtype == expected[name].dtype, name
        assert torch.equal(got[name], expected[name]), name


def kernel(*arguments):
    return accept.kernel(*arguments)


EXAMPLES = [
    # row, emitted, reason, committed, tokens left (of 99 unless said)
    (step(given=1, count=1, ids=[4, 0, 0, 0], chosen=[5, 9, 9, 9]), [5], RUNNING, 1, 98),
    (step(given=1, count=4, ids=[4, 5, 6, 8], chosen=[5, 6, 8, 9]), [5, 6, 8, 9], RUNNING, 4, 95),
    (step(given=1, count=4, ids=[4, 5, 0, 8], chosen=[5, 6, 8, 9]), [5, 6], RUNNING, 2, 97),
    (step(given=1, count=4, ids=[4, 0, 6, 8], chosen=[5, 6, 8, 9]), [5], RUNNING, 1, 98),
    (step(given=1, count=3, ids=[4, 5, 6, 8], chosen=[5, 6, 8, 9]), [5, 6, 8], RUNNING, 3, 96),
    (step(given=3, count=3, ids=[1, 2, 3, 0], chosen=[9, 9, 5, 9]), [5], RUNNING, 3, 98),
    (step(given=2, count=4, ids=[1, 2, 5, 6], chosen=[STOP_ID, 5, 6, 8]), [5, 6, 8], RUNNING, 4, 96),
    (step(given=2, count=4, ids=[1, 2, 5, 6], chosen=[3, 5, 6, 8], nan=0), [5, 6, 8], RUNNING, 4, 96),
    (step(given=1, count=3, ids=[4, STOP_ID, 6, 0], chosen=[STOP_ID, 6, 8, 9]), [STOP_ID], STOP, 3, 99),
    (step(given=1, count=3, ids=[4, 5, 6, 0], chosen=[5, STOP_ID, 8, 9]), [5, STOP_ID], STOP, 2, 98),
    (step(given=1, count=3, ids=[4, 5, 6, 0], chosen=[5, 6, 8, 9], left=2), [5, 6], LENGTH, 3, 0),
    (step(given=1, count=3, ids=[4, 5, 6, 0], chosen=[5, 6, 8, 9], left=3), [5, 6, 8], LENGTH, 3, 0),
    (step(given=1, count=1, ids=[4, 0, 0, 0], chosen=[5, 9, 9, 9], left=0), [], LENGTH, 1, 0),
    (step(given=1, count=1, ids=[4, 0, 0, 0], chosen=[STOP_ID, 9, 9, 9], left=0), [STOP_ID], STOP, 1, 0),
    (step(given=1, count=1, ids=[4, 0, 0, 0], chosen=[STOP_ID, 9, 9, 9], left=1), [STOP_ID], STOP, 1, 1),
    (step(given=1, count=2, ids=[4, 5, 0, 0], chosen=[5, STOP_ID, 9, 9], left=1), [5], LENGTH, 2, 0),
    (step(given=1, count=1, ids=[4, 0, 0, 0], chosen=[5, 9, 9, 9], nan=0), [], FAILED, 1, 99),
    (step(given=1, count=3, ids=[4, 5, 6, 0], chosen=[5, 6, 8, 9], nan=1), [5], FAILED, 3, 98),
    (step(given=1, count=3, ids=[4, 0, 6, 0], chosen=[5, 6, 8, 9], nan=1), [5], RUNNING, 1, 98),
    (step(given=3, count=2, ids=[4, 5, 0, 0], chosen=[5, 6, 8, 9]), [], FAILED, 2, 99),
    (step(given=0, count=1, ids=[4, 0, 0, 0], chosen=[5, 6, 8, 9]), [], FAILED, 1, 99),
]


@pytest.mark.parametrize("form", ["reference", "torch", "kernel"])
def test_worked_examples(form):
    arguments = window([{**row, "flush": i % 2 == 0} for i, (row, *_) in enumerate(EXAMPLES)])
    got = run(*((kernel, arguments, DEVICE) if form == "kernel" else (FORMS[form], arguments)))
    for b, (row, emitted, reason, committed, left) in enumerate(EXAMPLES):
        slot, what = b + 1, f"{row}"
        assert got["tokens"][b].tolist() == emitted + [-1] * (4 - len(emitted)), what
        assert got["emitted"][b] == len(emitted), what
        assert got["reason"][b] == reason, what
        assert got["length_all"][slot] == 3 * slot + 5 + committed, what
        assert got["folded_all"][slot] == 3 * slot + (5 if b % 2 == 0 else 0), what
        assert got["left"][slot] == left, what
        assert got["done"][slot] == (reason != RUNNING), what
        assert got["pending"][slot].tolist() == [*(emitted[-1:] or [WRONG]), WRONG, WRONG, WRONG], what
        assert (got["given"][slot], got["drafted"][slot]) == (1, 0), what


def every_window(wide):
    """Each count, number of given rows, pattern of right and wrong drafts, place of a stop, of a NaN, and limit."""
    for given in range(1, wide + 1):
        for count in range(given, wide + 1):
            for right in itertools.product([True, False], repeat=count - given):
                for stop, nan, left in itertools.product([None, *range(wide)], [None, *range(wide)], range(wide + 2)):
                    chosen = [10 + t for t in range(wide)]
                    if stop is not None:
                        chosen[stop] = STOP_ID
                    ids = [1] * given + [chosen[given - 1 + i] if ok else WRONG for i, ok in enumerate(right)]
                    ids += [0] * (wide - count)
                    flush = (stop or 0) % 2 == 0
                    yield step(given=given, count=count, ids=ids, chosen=chosen, nan=nan, left=left, flush=flush)


@pytest.fixture(scope="module")
def every_result():
    arguments = window(list(every_window(4)))
    return arguments, run(accept_reference, arguments)


def test_every_pattern(every_result):
    arguments, expected = every_result
    assert len(arguments[3]) > 3000
    same(run(accept.torch_form, arguments), expected)


def test_every_pattern_keeps_the_invariants(every_result):
    arguments, got = every_result
    count, slots = arguments[5], arguments[3]
    committed = (got["length_all"] - arguments[9 + 1])[slots]
    live = count > 0
    assert (committed[live] >= 1).all()
    assert (committed <= count).all()
    assert (got["emitted"] <= committed.clamp(min=0)).all()
    assert (got["emitted"][live & (got["reason"] == RUNNING)] >= 1).all()
    assert ((got["tokens"] >= 0).sum(1) == got["emitted"]).all()
    assert not (got["pending"] < 0).any(), "no placeholder enters what the model is fed"
    assert (got["left"] >= 0).all()


def test_kernel_on_patterns_drawn_from_all(every_result):
    arguments, _ = every_result
    seed = torch.seed() % 2**32
    print("seed", seed)
    picked = torch.randperm(len(arguments[3]) - 2, generator=torch.Generator().manual_seed(seed))[:120]
    rows = torch.cat([picked, torch.tensor([-1, -2])])
    some = [x[rows] if i < 7 else x for i, x in enumerate(arguments)]
    same(run(kernel, some, DEVICE), run(accept_reference, some))


@pytest.mark.parametrize("wide", [1, 2, 5, 16])
def test_forms_agree_on_random_windows(wide):
    seed = torch.seed() % 2**32
    print("seed", seed)
    g = torch.Generator().manual_seed(seed)
    slots_all, batch = 60, 50

    def integers(low, high, *shape):
        return torch.randint(low, high, shape, generator=g)

    slots = torch.randperm(slots_all, generator=g)[:batch]
    count = integers(0, wide + 1, batch) * (slots > 0)
    given = integers(1, wide + 1, slots_all)
    given[slots] = torch.where(integers(0, 9, batch) > 0, given[slots].minimum(count.clamp(min=1)), given[slots])
    chosen, ids = integers(0, 40, batch, wide), integers(0, 40, batch, wide)
    right = integers(0, 4, batch, wide - 1) > 0
    ids[:, 1:] = torch.where(right, chosen[:, :-1], ids[:, 1:])
    probability = torch.rand(batch, wide, generator=g)
    probability[integers(0, 25, batch, wide) == 0] = torch.nan
    length_all, folded_all = integers(50, 99, slots_all), integers(0, 50, slots_all)
    flush, done = integers(0, 2, batch) == 1, integers(0, 5, slots_all) == 0
    cursors = (integers(0, 40, slots_all, wide), given, integers(0, wide, slots_all), length_all, folded_all)
    arguments = (chosen, probability, ids, slots, length_all[slots], count, flush, *cursors)
    arguments += (integers(0, wide + 3, slots_all), done, integers(-1, 40, slots_all, 2))
    expected = run(accept_reference, arguments)
    same(run(accept.torch_form, arguments), expected)
    same(run(kernel, arguments, DEVICE), expected)


@pytest.mark.parametrize("form", [accept_reference, accept.torch_form, kernel])
def test_padded_and_done_rows_change_nothing(form):
    arguments = list(window([step(given=1, count=0, ids=[4, 5, 6], chosen=[5, STOP_ID, 9], flush=True)] * 3))
    arguments[4] = arguments[4] + 100  # of no meaning where count is 0
    before = run(accept_reference, [*arguments[:3], arguments[3][:0], *arguments[4:]])
    got = run(form, arguments, DEVICE if form is kernel else "cpu")
    for name in MUTATED:
        assert torch.equal(got[name], before[name]), name
    assert (got["tokens"] == -1).all()
    assert not got["emitted"].any()
    assert not got["reason"].any()


VOCAB, WIDEST, RING, MAX_LEN, SLOTS = 23, 5, 16, 64, 6


def model(prefix):
    """The next token of a prefix; with a few stop tokens among them."""
    return hash(tuple(prefix)) % VOCAB


def plain(prompt, limit):
    tokens = []
    while True:
        token = model(prompt + tokens)
        tokens.append(token)
        if token == STOP_ID:
            return tokens, STOP
        if len(tokens) == limit:
            return tokens, LENGTH


@pytest.mark.parametrize("quality", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("form", [accept_reference, accept.torch_form])
def test_generations_equal_plain_decoding_whatever_the_drafts(form, quality):
    seed = torch.seed() % 2**32
    print("seed", seed)
    g = torch.Generator().manual_seed(seed)

    def below(high):
        return int(torch.randint(0, high, (), generator=g))

    for _ in range(4):
        generate_and_compare(form, quality, below, torch.Generator().manual_seed(below(2**31)))


def generate_and_compare(form, quality, below, g):
    pending = torch.zeros(SLOTS, WIDEST, dtype=torch.int64)
    given, drafted, length, folded, rope_delta, left = torch.zeros(6, SLOTS, dtype=torch.int64)
    done = torch.ones(SLOTS, dtype=torch.bool)
    cos = sin = torch.zeros(MAX_LEN, 2)
    stops = torch.full((SLOTS, 2), -1)
    stops[:, 0] = STOP_ID
    prompts, fed, out, reasons = {}, {}, {s: [] for s in range(1, SLOTS)}, {}
    for slot in range(1, SLOTS):
        prompts[slot] = [below(VOCAB) for _ in range(1 + below(2 * WIDEST))]
        tail = 1 + below(min(WIDEST, len(prompts[slot])))
        fed[slot] = prompts[slot][:-tail]  # what a prefill left in the state
        pending[slot, :tail] = torch.tensor(prompts[slot][-tail:])
        given[slot], left[slot], done[slot] = tail, 1 + below(25), False
        length[slot] = folded[slot] = len(fed[slot])
    limits = left.clone()
    slots = torch.cat([torch.randperm(SLOTS - 1, generator=g) + 1, torch.tensor([0, 0])])
    for _ in range(40):
        rows = 1 + below(WIDEST) if all(given[s] == 1 for s in range(1, SLOTS) if not done[s]) else WIDEST
        for slot in range(1, SLOTS):  # the drafter: right at times, else anything, of any number
            if done[slot]:
                continue
            drafted[slot] = below(WIDEST - int(given[slot]) + 1)
            prefix = fed[slot] + pending[slot, : given[slot]].tolist()
            for i in range(int(drafted[slot])):
                draft = model(prefix) if below(100) < 100 * quality else below(VOCAB)
                pending[slot, int(given[slot]) + i] = draft
                prefix.append(draft)
        cursors = (slots, pending, given, drafted, length, folded, rope_delta, done)
        ids, start, old, count, flush, *_ = metadata(*cursors, cos, sin, rows, RING, MAX_LEN)
        chosen = torch.full((len(slots), rows), STOP_ID)
        probability = torch.full((len(slots), rows), torch.nan)
        for b, slot in enumerate(slots.tolist()):
            for t in range(int(count[b])):
                chosen[b, t] = model(fed[slot] + ids[b, : t + 1].tolist())
                probability[b, t] = 1.0
            history = 0 if flush[b] else int(start[b] - old[b])
            assert history + int(count[b]) <= RING
        window_of = (chosen, probability, ids, slots, start, count, flush)
        tokens, emitted, reason = form(*window_of, pending, given, drafted, length, folded, left, done, stops)
        for b, slot in enumerate(slots.tolist()):
            if count[b] == 0:
                continue
            committed = int(length[slot] - start[b])
            assert committed >= 1
            fed[slot] += ids[b, :committed].tolist()
            out[slot] += tokens[b, : emitted[b]].tolist()
            if reason[b] == RUNNING:
                assert fed[slot] + [int(pending[slot, 0])] == prompts[slot] + out[slot]
            else:
                reasons[slot] = int(reason[b])
        if done[1:].all():
            break
    for slot in range(1, SLOTS):
        assert (out[slot], reasons[slot]) == plain(prompts[slot], int(limits[slot]))


def test_registration():
    arguments = window([row for row, *_ in EXAMPLES[:5]])
    torch.library.opcheck(accept.kernel, tuple(x.clone().to(DEVICE) for x in arguments))


@pytest.mark.parametrize("form", [accept.torch_form, kernel])
def test_compiles_as_one_graph(form):
    torch._dynamo.reset()
    arguments = window([row for row, *_ in EXAMPLES])
    compiled = torch.compile(lambda *a: form(*a), fullgraph=True, backend="aot_eager")
    same(run(compiled, arguments, DEVICE if form is kernel else "cpu"), run(accept_reference, arguments))
