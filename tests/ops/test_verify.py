"""Verification by probabilities: its forms against the definition, worked examples, and what `accept` makes of it.

That tokens follow the target's distribution is tested in `tests/spec/test_lossless_sampling.py`.
"""

import pytest
import torch
import torch.nn.functional as F

import ocria.ops.verify as op
from ocria.errors import EngineError
from ocria.ops.accept import FAILED, RUNNING, accept
from ocria.ops.kernels import verify as kernels
from ocria.ops.philox import ACCEPT, DRAFT, uniform, window_keys
from ocria.ops.sample import greedy
from ocria.ops.verify import RULES, verify, verify_reference
from ocria.spec.draws import Draws, choose

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROWS, WIDTH, VOCAB = 5, 3, 150
NO_TOKEN = 10**12
FORMS = {"reference": verify_reference, "torch": verify.torch_form}


@pytest.fixture
def g():
    seed = torch.seed() % 2**32
    print("seed", seed)
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def small_chunks(monkeypatch):
    """Many chunks in a small vocabulary."""
    monkeypatch.setattr(kernels, "CHUNK", 64)


def windows(g, batch, rows=ROWS, width=WIDTH, vocab=VOCAB):
    """Arguments of `verify` but its rule: drafts from candidates that the target likes more or less, in windows of all
    kinds; what no window uses is NaN or no token."""

    def some(*shape, share=0.5):
        return torch.rand(shape, generator=g) < share

    def whole(low, high, *shape):
        return torch.randint(low, high, shape, generator=g)

    logits = torch.randn(batch, rows, vocab, generator=g) * (torch.rand(batch, 1, 1, generator=g) * 4 + 0.5)
    logits = torch.where(some(batch, 1, 1, share=0.2), logits.round(), logits)  # equal ones
    temperature = (torch.rand(batch, generator=g) * 1.5 + 0.2).masked_fill(some(batch, share=0.15), 0.0)
    top_k = torch.where(some(batch, share=0.3), whole(1, 9, batch), whole(1, vocab + 3, batch))
    top_k[some(batch)] = 0
    top_p = torch.rand(batch, generator=g).masked_fill(some(batch), 1.0).masked_fill(some(batch, share=0.05), 0.0)
    seed = whole(-(2**63), 2**63 - 1, batch)
    position = whole(0, 2**31, batch, 1) + torch.arange(rows)

    drafter = logits[:, :-1] + torch.randn(batch, rows - 1, vocab, generator=g)
    scores, candidates = drafter.topk(width, dim=-1)
    draws = Draws(temperature, seed, window_keys(position[:, :-1]), DRAFT)
    index, probability = choose(scores, temperature[:, None], draws.noise(candidates))
    certain = some(batch, share=0.25)
    index[certain], probability[certain] = 0, torch.eye(width)[0]
    drafts = candidates.gather(2, index[..., None])[..., 0]
    empty = probability == 0  # ids of these may be any: the draft itself, or no token
    candidates = torch.where(empty & some(*empty.shape), drafts[..., None], candidates)
    candidates = torch.where(empty & some(*empty.shape), NO_TOKEN * whole(-1, 2, *empty.shape), candidates)

    ids = torch.cat([whole(0, vocab, batch, 1), drafts], dim=1)
    other = torch.tensor([NO_TOKEN, -1, 3])[whole(0, 3, batch, rows)]  # no tokens, and one that the drafter denies
    ids = torch.where(some(batch, rows, share=0.04), other, ids)
    count = torch.where(some(batch, share=0.6), rows, whole(0, rows + 1, batch))
    given = torch.where(some(batch, share=0.8), 1, whole(1, rows + 1, batch)).minimum(count.clamp(min=1))
    # One where nothing of p is left behind the second draft, which is no token.
    temperature[1], top_p[1], given[1], count[1] = 1.0, 0.0, 1, rows
    candidates[1, :, 0], probability[1] = logits[1, :-1].argmax(-1), torch.eye(width)[0]
    ids[1, 1:2], ids[1, 2:] = candidates[1, :1, 0], NO_TOKEN
    beyond = torch.arange(rows) >= count[:, None]
    ids = torch.where(beyond & some(batch, rows), NO_TOKEN, ids)
    logits[beyond] = torch.nan
    probability[beyond[:, 1:]] = torch.nan
    return logits, ids, given, count, temperature, top_k, top_p, seed, position, candidates, probability


def kernel(*arguments):
    """The kernels, with NaN and the largest integers in all memory that they have not written."""
    moved = [x.to(DEVICE) if isinstance(x, torch.Tensor) else x for x in arguments]
    torch.use_deterministic_algorithms(True)
    try:
        return tuple(x.cpu() for x in verify.kernel(*moved))
    finally:
        torch.use_deterministic_algorithms(False)


def alike(got, expected):
    """Bool `[B]`: equal tokens, and probabilities up to sums of exp in another order."""
    for a, b in zip(got, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
    near = torch.isclose(got[1], expected[1], rtol=1e-5, atol=0, equal_nan=True)
    return ((got[0] == expected[0]) & (got[2] == expected[2]) & near).all(dim=1)


@pytest.mark.parametrize("rule", RULES)
def test_torch_form_is_the_definition(g, rule):
    """The definition has p in fp64 and sums over the vocabulary: where a uniform number falls within 1e-7 of what it is
    compared with, or the best two noisy logits are as near, it may decide otherwise. That two of 200 windows do is no
    chance."""
    arguments = windows(g, 200)
    expected, got = verify_reference(*arguments, rule), verify.torch_form(*arguments, rule)
    assert (~alike(got, expected)).sum() <= 1
    given, count, temperature = arguments[2], arguments[3], arguments[4]
    taken = ((got[2] >= 0) & (torch.arange(ROWS) >= given[:, None]))[(count == ROWS) & (given == 1) & (temperature > 0)]
    assert set(taken.sum(1).tolist()) == set(range(ROWS)), "windows do not end everywhere"


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("batch", "rows", "width"), [(6, ROWS, WIDTH), (2, 1, 1), (3, 2, 1), (2, 9, 17)])
def test_kernel_is_the_torch_form(g, batch, rows, width, rule):
    arguments = windows(g, batch, rows, width)
    assert alike(kernel(*arguments, rule), verify.torch_form(*arguments, rule)).all()


@pytest.mark.parametrize("rule", RULES)
def test_the_kernel_that_decides(g, rule):
    """Alone, on many windows of drafts from what is nearly the target's distribution: each may end anywhere."""
    batch, rows, width = 80, 6, 4
    p, near = torch.randn(2, batch, rows - 1, width, generator=g)
    p, q = p.double().softmax(-1), (p * 0.6 + near * 0.6).softmax(-1)
    given, seed = torch.randint(1, 3, (batch,), generator=g), torch.randint(2**40, (batch,), generator=g)
    count = torch.randint(2, rows + 1, (batch,), generator=g)
    position = torch.arange(7, 7 + rows).expand(batch, -1).contiguous()
    candidates = torch.arange(width).expand(batch, rows - 1, -1).contiguous()
    drafts = q.flatten(0, 1).multinomial(1, generator=g).view(batch, rows - 1)
    ids = torch.cat([torch.zeros(batch, 1, dtype=torch.int64), drafts], dim=1)
    token, share = torch.cat([drafts, ids[:, :1]], dim=1), torch.full((batch, rows), 0.5)
    held, stop, shift = torch.full_like(ids, -2), torch.full_like(count, -2), torch.full((batch, width), torch.nan)
    window = (ids, given, count, torch.ones(batch), seed, position, candidates, q, p, token, share, held, stop, shift)
    moved = [x.to(DEVICE) for x in window]
    kernels.stop_kernel[(batch,)](*moved, T=rows, K=width, BLOCK=rule == "block", BLOCK_T=8, BLOCK_K=4)
    *_, held, stop, shift = (x.cpu() for x in moved)

    p, q = (torch.cat([x.double(), torch.zeros(batch, 1, width)], dim=1) for x in (p, q))
    own = F.one_hot(F.pad(drafts, (0, 1)), width).bool()
    u = uniform(seed[:, None], window_keys(position), ACCEPT)
    row, reach = op._stop(rule, p, q, own, u, given - 1, count - 1)
    every = torch.arange(batch)
    assert torch.equal(stop, row)
    assert torch.equal(held, ids.masked_fill(torch.arange(rows) > row[:, None], -1))
    assert torch.equal(shift, op._residual(p[every, row], q[every, row], reach, row < count - 1))
    assert {*(row - given + 1).tolist()} == set(range(rows))
    assert rule == "token" or ((reach < 1) & (row < count - 1) & (row > given - 1)).any()


@pytest.mark.usefixtures("small_chunks")
def test_bf16_logits(g):
    """And drafts that do not lie side by side."""
    logits, *others = windows(g, 6)
    others[-2:] = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in others[-2:])
    expected = verify.torch_form(logits.bfloat16().float(), *others, "block")
    assert alike(verify.torch_form(logits.bfloat16(), *others, "block"), expected).all()
    assert alike(kernel(logits.bfloat16(), *others, "block"), expected).all()


def example(p, ids, draft_ids, q, **other):
    """One window in which all rows have the distribution p: 40 seeds of it."""
    logits = torch.tensor(p).log()
    rows = len(ids)
    settings = {"given": 1, "count": rows, "temperature": 1.0, "top_k": 0, "top_p": 1.0} | other
    many = 40
    window = [torch.full((many,), settings[name]) for name in ("given", "count", "temperature", "top_k", "top_p")]
    position = torch.arange(100, 100 + rows)
    each = (logits.expand(rows, -1), torch.tensor(ids))
    drafts = (position, torch.tensor(draft_ids), torch.tensor(q))
    expand = [x.expand(many, *x.shape).contiguous() for x in (*each, *drafts)]
    return *expand[:2], *window, torch.arange(many), *expand[2:]


def outcomes(form, arguments, rule):
    chosen, _, held = FORMS[form](*arguments, rule)
    return {(tuple(a), tuple(b)) for a, b in zip(chosen.tolist(), held.tolist(), strict=True)}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("form", FORMS)
class TestExamples:
    def test_drafts_from_the_target_itself_are_all_taken(self, form, rule):
        p = [0.5, 0.25, 0.125, 0.125]
        arguments = example(p, [3, 0, 2], [[0, 1, 2, 3]] * 2, [p] * 2)
        for chosen, held in outcomes(form, arguments, rule):
            assert (chosen[:2], held) == ((0, 2), (3, 0, 2))

    def test_an_impossible_draft_is_never_taken_nor_drawn_instead(self, form, rule):
        arguments = example([0.5, 0.25, 0.25], [2, 0, 0], [[0]] * 2, [[1.0]] * 2, top_k=1)
        assert outcomes(form, arguments, rule) == {((0, 0, 0), (2, 0, 0))}
        arguments = example([0.5, 0.25, 0.25], [2, 1, 0], [[1], [0]], [[1.0]] * 2, top_k=1)
        assert outcomes(form, arguments, rule) == {((0, -1, -1), (2, -1, -1))}
        for absent, id_ in ((NO_TOKEN, NO_TOKEN), (-1, -1), (1, 2)):  # no tokens; one that the drafter denies
            arguments = example([0.5, 0.25, 0.25], [2, absent, 0], [[id_], [0]], [[1.0]] * 2, top_k=1)
            assert outcomes(form, arguments, rule) == {((0, -1, -1), (2, -1, -1))}

    def test_a_refused_certain_draft_is_not_drawn(self, form, rule):
        arguments = example([0.4, 0.3, 0.3], [2, 0], [[0]], [[1.0]])
        seen = outcomes(form, arguments, rule)
        assert {chosen for chosen, held in seen if held[1] == -1} == {(1, -1), (2, -1)}
        assert {chosen for chosen, held in seen if held[1] == 0} == {(0, 0), (0, 1), (0, 2)}

    def test_drafts_begin_behind_what_is_given_and_end_with_the_window(self, form, rule):
        arguments = example([0.5, 0.5], [1, 1, 0, 1, 0], [[0]] * 4, [[1.0]] * 4, given=2, count=3)
        for chosen, held in outcomes(form, arguments, rule):
            assert (chosen[0], chosen[3:], held[:2], held[3:]) == (-1, (-1, -1), (1, 1), (-1, -1))
            assert (chosen[1] == 0 and chosen[2] >= 0) if held[2] == 0 else chosen[1:3] == (1, -1)

    def test_where_nothing_of_p_is_left_the_token_is_from_p(self, form, rule):
        """Rounding aside, that is only where q is no distribution."""
        arguments = example([0.5, 0.5], [1, 1], [[0, 1]], [[1.0, 1.0]])
        seen = outcomes(form, arguments, rule)
        assert {chosen for chosen, held in seen if held[1] == -1} == {(0, -1), (1, -1)}


@pytest.mark.parametrize("rule", RULES)
def test_the_block_may_go_on_behind_a_bad_draft(rule):
    """p of the first draft is half of q, that of the second twice: r is 1/2, then 1."""
    p = torch.tensor([[0.25, 0.75], [0.75, 0.25], [0.5, 0.5]]).log()
    arguments = list(example([0.5, 0.5], [1, 0, 0], [[0, 1]] * 2, [[0.5, 0.5], [0.375, 0.625]]))
    arguments[0] = p.expand(40, -1, -1)
    held = verify.torch_form(*arguments, rule)[2]
    assert set(map(tuple, held.tolist())) == ({(1, 0, 0)} if rule == "block" else {(1, 0, 0), (1, -1, -1)})


@pytest.mark.parametrize("rule", RULES)
def test_empty_candidates_are_harmless(g, rule):
    logits, ids, *others, candidates, probability = windows(g, 60)
    used = torch.arange(ROWS - 1) < others[1][:, None] - 1
    more = torch.cat([candidates[..., :1], ids[:, 1:, None], candidates, ids[:, 1:, None]], dim=2)
    zero = torch.zeros(60, ROWS - 1, 1).masked_fill(~used[..., None], torch.nan)
    padded = torch.cat([zero, zero, probability, zero], dim=2)
    expected = verify.torch_form(logits, ids, *others, candidates, probability, rule)
    assert alike(verify.torch_form(logits, ids, *others, more, padded, rule), expected).all()


@pytest.mark.parametrize("rule", RULES)
def test_a_request_is_verified_alike_alone_and_in_a_batch(g, rule):
    arguments = windows(g, 25)
    together = verify.torch_form(*arguments, rule)
    for i in range(25):
        alone = verify.torch_form(*(x[i : i + 1] for x in arguments), rule)
        assert alike(alone, [x[i : i + 1] for x in together])


def committed(chosen, probability, held, given, count):
    """What `accept` makes of it: tokens, emitted, reason and the rows that it commits."""
    batch, rows = chosen.shape
    slots, zero = torch.arange(1, batch + 1), torch.zeros(batch + 1, dtype=torch.int64)
    length, all_given = zero.clone(), torch.cat([zero[:1], given])
    results = accept.torch_form(
        chosen, probability, held, slots, zero[1:], count, zero[1:].bool(), torch.zeros(batch + 1, rows).long(),
        all_given, zero.clone(), length, zero.clone(), zero + 99, zero.bool(), torch.full((batch + 1, 1), -1),
    )  # fmt: skip
    return *results, length[1:]


@pytest.mark.parametrize("rule", RULES)
def test_accept_commits_what_is_taken(g, rule):
    logits, ids, given, count, temperature, *others = windows(g, 300)
    chosen, probability, held = verify.torch_form(logits, ids, given, count, temperature, *others, rule)
    tokens, emitted, reason, rows = committed(chosen, probability, held, given, count)
    live = count > 0
    assert (reason == RUNNING).all()
    assert torch.equal(emitted[live], (rows - given + 1)[live])
    for b in live.nonzero()[:, 0].tolist():
        drafts = ids[b, given[b] : rows[b]].tolist()
        assert tokens[b, : emitted[b] - 1].tolist() == drafts
        last = logits[b, rows[b] - 1].double()
        token = int(tokens[b, emitted[b] - 1])
        assert float(probability[b, rows[b] - 1]) == pytest.approx(float(last.softmax(-1)[token]), rel=1e-5)
        if temperature[b] > 0 and rows[b] < count[b]:
            assert (held[b, rows[b] :] == -1).all()
    # A slot that does not sample gets today's choice, compared as today.
    plain = temperature == 0
    today = committed(*greedy(logits.nan_to_num()), ids, given, count)
    for mine, theirs in zip((tokens, emitted, reason, rows), today, strict=True):
        assert torch.equal(mine[plain], theirs[plain])


def broken(g, batch):
    """Windows with one row, any, that has a logit which is no finite number; and which row that is."""
    logits, ids, _, _, *others = windows(g, batch)
    every = torch.arange(batch)
    bad = torch.randint(ROWS, (batch,), generator=g)
    logits, others[-1] = logits.nan_to_num(), others[-1].nan_to_num()
    strange = torch.tensor([torch.nan, torch.inf, -torch.inf])[every % 3]
    logits[every, bad, torch.randint(VOCAB, (batch,), generator=g)] = strange
    return (logits, ids, 1 + every % 2, torch.full_like(bad, ROWS), *others), bad


@pytest.mark.parametrize("rule", RULES)
def test_logits_that_are_not_finite(g, rule):
    """Everything before such a row stays, from it on nothing is real. What is given is certain whatever its logits."""
    arguments, bad = broken(g, 100)
    given, count, temperature = arguments[2:5]
    results = verify.torch_form(*arguments, rule)
    assert (~alike(results, verify_reference(*arguments, rule))).sum() <= 1
    tokens, emitted, reason, rows = committed(*results, given, count)
    drawn = temperature > 0
    failed = (rows > bad) & (bad >= given - 1)
    assert torch.equal((reason == FAILED)[drawn], failed[drawn])
    assert torch.equal(emitted[drawn], (torch.where(failed, bad, rows) - given + 1)[drawn])
    assert {*reason[drawn].tolist()} == {FAILED, RUNNING}
    assert torch.equal((tokens >= 0).sum(1), emitted)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("rule", RULES)
def test_kernel_with_logits_that_are_not_finite(g, rule):
    arguments, _ = broken(g, 6)
    assert alike(kernel(*arguments, rule), verify.torch_form(*arguments, rule)).all()


def test_what_is_refused(g):
    arguments = windows(g, 3)
    with pytest.raises(EngineError, match="typical"):
        verify(*arguments, "typical")
    wide = [torch.zeros(3, ROWS - 1, 65, dtype=x.dtype) for x in arguments[-2:]]
    with pytest.raises(EngineError, match="65 candidates"):
        kernel(*arguments[:-2], *wide, "token")
    with pytest.raises(EngineError, match="logits of a row"):
        kernel(arguments[0].transpose(1, 2).contiguous().transpose(1, 2), *arguments[1:], "token")
    with pytest.raises(EngineError, match="contiguous"):
        kernel(arguments[0], arguments[1].t().contiguous().t(), *arguments[2:], "token")


@pytest.mark.usefixtures("small_chunks")
def test_registration(g):
    arguments = [x.to(DEVICE) for x in windows(g, 2, vocab=70)]
    torch.library.opcheck(verify.kernel, (*arguments, "block"))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(("form", "rule"), [("torch_form", "token"), ("torch_form", "block"), ("kernel", "block")])
def test_compiles_as_one_graph(g, form, rule):
    torch._dynamo.reset()
    arguments = windows(g, 4, vocab=70)
    device = DEVICE if form == "kernel" else "cpu"
    compiled = torch.compile(lambda *a: getattr(verify, form)(*a, rule), fullgraph=True, backend="aot_eager")
    got = [x.cpu() for x in compiled(*(x.to(device) for x in arguments))]
    assert alike(got, verify.torch_form(*arguments, rule)).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("rule", RULES)
def test_a_full_vocabulary_on_the_gpu(g, rule):
    arguments = windows(g, 8, 8, 16, 248_320)
    assert alike(kernel(*arguments, rule), verify.torch_form(*arguments, rule)).all()
