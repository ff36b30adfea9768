"""Sampling with drafts gives the distribution of plain sampling, by every rule; where it does not, the test sees it.

A toy target, whose next token depends on the last two by a table, generates three tokens for thousands of seeds at
once, in as many steps as it takes, through the ops of the engine. Chi-square compares the counts of all triples with
their probabilities in fp64. Seeds are fresh and printed. The p-values of what is right must not fall below ALARM: the
eighty comparisons of this file together raise a false alarm in fewer than one run of ten thousand. Those of broken
rules must fall below CAUGHT.
"""

from dataclasses import dataclass

import pytest
import torch
from scipy import stats

import ocria.ops.verify as rules
from ocria.ops.accept import RUNNING, accept
from ocria.ops.philox import ACCEPT, DRAFT, RESIDUAL, SAMPLE, gumbel_noise, uniform, window_keys
from ocria.ops.sample import sample
from ocria.ops.verify import BLOCK, RULES, TOKEN, verify
from ocria.spec.dflash2 import Candidates, walk
from ocria.spec.draws import Draws, choose

EXACT = "exact"
VOCAB, WIDTH, ROWS, WANTED = 5, 3, 3, 3
SETTINGS = [(1.0, 0, 1.0), (0.7, 3, 1.0), (1.4, 0, 0.8), (0.9, 4, 0.85), (0.0, 0, 1.0)]
"""Temperature, top-k, top-p."""
DRAFTS = ("one-hot", "parallel", "path")
MANY = 30_000
ALARM, CAUGHT = 1e-6, 1e-10


@dataclass(frozen=True)
class Toy:
    """Logits of the target by the last two tokens `[V, V, V]`; of a drafter for two rows, by the two tokens before the
    drafts, `[2, V, V, V]`, and what it adds for pairs of neighbours, `[V, V]`."""

    target: torch.Tensor
    drafter: torch.Tensor
    pairs: torch.Tensor

    @classmethod
    def random(cls, g):
        target = torch.randn(VOCAB, VOCAB, VOCAB, generator=g) * 1.2
        near = target + torch.randn(2, VOCAB, VOCAB, VOCAB, generator=g)
        return cls(target, near * 1.3, torch.randn(VOCAB, VOCAB, generator=g))


@pytest.fixture
def g():
    seed = torch.seed() % 2**32
    print("seed", seed)
    return torch.Generator().manual_seed(seed)


def propose(toy, drafts, before, anchor, draws):
    """Two drafts `[B, 2]`, and what each is from: ids and probability `[B, 2, K]`."""
    scores, ids = toy.drafter[:, before, anchor].transpose(0, 1).topk(WIDTH, dim=-1)
    if drafts == "one-hot":
        return ids[:, :, 0], ids[:, :, :1], torch.ones(len(ids), 2, 1)
    if drafts == "parallel":
        index, probability = choose(scores, draws.temperature[:, None], draws.noise(ids))
        return ids.gather(2, index[..., None])[..., 0], ids, probability
    first = anchor[:, None, None].expand(-1, 1, WIDTH)
    pairs = toy.pairs[torch.cat([first, ids[:, :1]], dim=1)[..., None], ids[:, :, None]]
    made = walk(Candidates(ids, scores[:, :, None] + pairs), draws.temperature, draws.noise(ids))
    return made.tokens, made.ids, made.probability


def generate(toy, rule, drafts, settings, start, seeds, stream=DRAFT, keys=window_keys, full=False):
    """Tokens `[B, WANTED]` behind the two of `start`, and how many drafts the first step of each request took.

    settings: three tensors `[B]`. A third of the requests have no draft, one, or two in a step.
    """
    batch = len(seeds)
    slots = torch.arange(1, batch + 1)
    pending = torch.zeros(batch + 1, ROWS, dtype=torch.int64)
    pending[:, 0] = start[1]
    given, drafted = torch.ones(batch + 1, dtype=torch.int64), torch.zeros(batch + 1, dtype=torch.int64)
    length, folded = torch.full((batch + 1,), 40), torch.zeros(batch + 1, dtype=torch.int64)
    left, done = torch.full((batch + 1,), 10**6), torch.zeros(batch + 1, dtype=torch.bool)
    stops = torch.full((batch + 1, 1), -1)
    tokens = torch.full((batch, 2 + WANTED + ROWS), -1)
    tokens[:, 0], tokens[:, 1] = start
    filled, taken = torch.full((batch,), 2), None
    while (filled < 2 + WANTED).any():
        at = length[1:, None] + torch.arange(ROWS)
        before, anchor = tokens.gather(1, filled[:, None] + torch.tensor([-2, -1])).unbind(1)
        count = torch.full_like(slots, ROWS) if full else 1 + slots % ROWS
        draws = Draws(settings[0], seeds, at[:, :2] if stream == SAMPLE else keys(at[:, :2]), stream)
        made, draft_ids, probability = propose(toy, drafts, before, anchor, draws)
        ids = torch.cat([anchor[:, None], made], dim=1)
        logits = toy.target[torch.cat([before[:, None], ids[:, :-1]], dim=1), ids]
        if rule == EXACT:
            each = [x[:, None].expand(-1, ROWS).flatten() for x in (*settings, seeds)]
            chosen, share = (x.view(batch, ROWS) for x in sample(logits.flatten(0, 1), *each, at.flatten()))
            held = ids
        else:
            window = (logits, ids, given[1:], count, *settings, seeds, at, draft_ids, probability)
            chosen, share, held = verify(*window, rule)
        flush = torch.zeros(batch, dtype=torch.bool)
        new, emitted, reason = accept(
            chosen, share, held, slots, length[1:].clone(), count, flush, pending, given, drafted, length, folded,
            left, done, stops,
        )  # fmt: skip
        assert (reason == RUNNING).all()
        assert torch.equal(length[1:], at[:, 0] + emitted)
        places = filled[:, None] + torch.arange(ROWS)
        room = tokens.shape[1] - 1
        tokens.scatter_(1, places.clamp(max=room), torch.where(places < room, new, -1))
        filled = torch.minimum(filled + emitted, torch.tensor(2 + WANTED))
        # Requests that have enough go on from there in vain, on the same rows.
        length[1:] = 38 + filled
        pending[1:, 0] = tokens.gather(1, filled[:, None] - 1)[:, 0]
        taken = emitted - 1 if taken is None else taken
    return tokens[:, 2 : 2 + WANTED], taken


def one(logits, temperature, top_k, top_p):
    """Exact probabilities fp64 of one row, from the words of the filters."""
    if temperature == 0:
        return torch.eye(VOCAB, dtype=torch.float64)[logits.argmax()]
    y = logits.double() / temperature
    keep = torch.ones_like(y, dtype=torch.bool)
    if top_k:
        keep &= (y > y[:, None]).sum(1) < top_k
    p = y.masked_fill(~keep, -torch.inf).softmax(0)
    if top_p < 1:
        keep &= (p * (y > y[:, None])).sum(1) < top_p
    return y.masked_fill(~keep, -torch.inf).softmax(0)


def joint(toy, start, setting):
    """Probability fp64 `[V ** WANTED]` of the tokens behind `start`."""
    table = torch.stack([torch.stack([one(row, *setting) for row in rows]) for rows in toy.target])
    a, b = start
    return torch.einsum("i,ij,ijk->ijk", table[a, b], table[b], table).flatten()


def fit(counts, due):
    """The p-value of fp64 counts where `due` are expected; 0 where an impossible one came."""
    if counts[due == 0].any():
        return 0.0
    rare = (due > 0) & (due < 10)  # too few for the approximation by chi-square: one class together
    seen, due = (torch.cat([x[due >= 10], x[rare].sum()[None]]) for x in (counts, due))
    seen, due = seen[due > 0], due[due > 0]
    return float(stats.chi2.sf(float(((seen - due) ** 2 / due).sum()), len(due) - 1)) if len(due) > 1 else 1.0


def counted(tokens):
    """How often each row of tokens `[B, n]` came, fp64 `[V ** n]`."""
    places = VOCAB ** torch.arange(tokens.shape[1]).flip(0)
    return (tokens @ places).bincount(minlength=VOCAB ** tokens.shape[1]).double()


def batch_of(g, settings, each):
    """Settings `[B]`, `each` requests of every kind, and seeds."""
    columns = [torch.tensor(column).repeat_interleave(each) for column in zip(*settings, strict=True)]
    first = int(torch.randint(-(2**62), 2**62, (), generator=g))
    return columns, first + torch.arange(each * len(settings))


@pytest.mark.parametrize("drafts", DRAFTS)
@pytest.mark.parametrize("rule", [EXACT, *RULES])
def test_tokens_follow_the_target(g, rule, drafts):
    toy, start, each = Toy.random(g), torch.randint(VOCAB, (2,), generator=g), 8000
    settings, seeds = batch_of(g, SETTINGS, each)
    tokens, _ = generate(toy, rule, drafts, settings, start, seeds, SAMPLE if rule == EXACT else DRAFT)
    parts = zip(tokens.split(each), SETTINGS, strict=True)
    values = [fit(counted(part), joint(toy, start, setting) * each) for part, setting in parts]
    print(values)
    assert min(values) > ALARM


def plain(toy, start, settings, seeds):
    """Tokens `[B, WANTED]` one at a time, by `sample`."""
    tokens = [start[0].expand(len(seeds)), start[1].expand(len(seeds))]
    for i in range(WANTED):
        tokens.append(sample(toy.target[tokens[-2], tokens[-1]], *settings, seeds, torch.full_like(seeds, 40 + i))[0])
    return torch.stack(tokens[2:], dim=1)


def test_the_exact_rule_gives_the_very_tokens_of_plain_sampling(g):
    toy, start = Toy.random(g), torch.randint(VOCAB, (2,), generator=g)
    settings, seeds = batch_of(g, SETTINGS, 300)
    expected = plain(toy, start, settings, seeds)
    for drafts in DRAFTS:
        for stream in (SAMPLE, DRAFT):
            assert torch.equal(generate(toy, EXACT, drafts, settings, start, seeds, stream)[0], expected)


STUBBORN = Toy(
    torch.tensor([0.4, 0.3, 0.3, 1e-4, 1e-4]).log().expand(VOCAB, VOCAB, VOCAB),
    torch.tensor([0.85, 0.1, 0.05, 1e-4, 1e-4]).log().expand(2, VOCAB, VOCAB, VOCAB),
    torch.zeros(VOCAB, VOCAB),
)
"""Where every fault shows: the drafter always proposes much the same, whatever the target thinks of it."""


def stubborn(g, rule, stream=DRAFT, keys=window_keys):
    """The p-value of tokens that a rule makes of them."""
    start = torch.tensor([1, 2])
    settings, seeds = batch_of(g, SETTINGS[:1], MANY)
    tokens, _ = generate(STUBBORN, rule, "parallel", settings, start, seeds, stream, keys, full=True)
    return fit(counted(tokens), joint(STUBBORN, start, SETTINGS[0]) * MANY)


def too_eager(monkeypatch):
    """Takes a draft with probability p / q / 0.9."""
    monkeypatch.setattr(rules, "uniform", lambda *a: 0.9 * uniform(*a))


def keeps_all_of_p(monkeypatch):
    """Behind a draft that is refused a token is drawn from p."""
    monkeypatch.setattr(rules, "_residual", lambda p, *_: torch.zeros_like(p, dtype=torch.float32))


def forgets_reach(monkeypatch):
    """Blocks, but what is left of p is that of single tokens."""
    stop = rules._stop

    def changed(*arguments):
        row, reach = stop(*arguments)
        return row, torch.ones_like(reach)

    monkeypatch.setattr(rules, "_stop", changed)


def stops_at_the_first(monkeypatch):
    """Blocks that end at the first number that fails, not behind the last that does not."""
    stop = rules._stop

    def changed(rule, p, q, own, u, anchor, end):
        def only(row):
            return stop(rule, p, q, own, torch.where(torch.arange(u.shape[1]) == row, u, 1.0), anchor, end)

        last, reach = anchor.clone(), torch.ones_like(u[:, 0])
        for row in range(u.shape[1] - 1):
            to, there = only(row)
            goes_on = (to == row + 1) & (last == row)
            last, reach = torch.where(goes_on, to, last), torch.where(goes_on, there, reach)
        return last, reach

    monkeypatch.setattr(rules, "_stop", changed)


def ends_like_single_tokens(monkeypatch):
    """Ends where single tokens would, but with what blocks leave of p."""
    stop = rules._stop

    def changed(rule, p, q, own, u, anchor, end):
        row, _ = stop(TOKEN, p, q, own, u, anchor, end)
        lowest = torch.where(torch.arange(u.shape[1]) == row[:, None] - 1, 0.0, 1.0)
        return row, stop(BLOCK, p, q, own, lowest.double(), anchor, end)[1]

    monkeypatch.setattr(rules, "_stop", changed)


def numbers_come_again(monkeypatch):
    """Windows that overlap decide with the same numbers."""
    monkeypatch.setattr(rules, "window_keys", lambda position: position)


@pytest.mark.parametrize("rule", RULES)
def test_right_rules_pass_where_every_fault_shows(g, rule):
    assert stubborn(g, rule) > ALARM


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        (TOKEN, too_eager), (TOKEN, keeps_all_of_p), (BLOCK, too_eager), (BLOCK, keeps_all_of_p),
        (BLOCK, forgets_reach), (BLOCK, stops_at_the_first), (BLOCK, ends_like_single_tokens),
        (BLOCK, numbers_come_again),
    ],
)  # fmt: skip
def test_broken_rules_are_caught(g, monkeypatch, rule, broken):
    broken(monkeypatch)
    assert stubborn(g, rule) < CAUGHT


@pytest.mark.parametrize("rule", RULES)
def test_drafts_with_the_noise_of_the_residual_are_caught(g, rule):
    assert stubborn(g, rule, stream=RESIDUAL) < ALARM


def test_drafts_drawn_again_at_the_same_position(g):
    """Single tokens never look behind the draft that is refused, blocks do: there the noise of a refused draft is used
    up."""
    assert stubborn(g, TOKEN, keys=lambda position: position) > ALARM
    assert stubborn(g, BLOCK, keys=lambda position: position) < CAUGHT


def lengths(toy, start):
    """How many of two parallel drafts are taken in expectation, by rule: the sum over all pairs of drafts."""
    single = block = 0.0
    scores, ids = toy.drafter[:, start[0], start[1]].topk(WIDTH, dim=-1)
    q = scores.double().softmax(-1)
    p = toy.target[start[0], start[1]].double().softmax(-1)
    for i, first in enumerate(ids[0]):
        one = min(1.0, float(p[first] / q[0, i]))
        single += float(q[0, i]) * one
        block += float(q[0, i]) * one
        behind = toy.target[start[1], first].double().softmax(-1)
        for j, second in enumerate(ids[1]):
            both, ratio = float(q[0, i] * q[1, j]), float(behind[second] / q[1, j])
            single += both * one * min(1.0, ratio)
            block += both * min(1.0, one * ratio)
    return {TOKEN: single, BLOCK: block}


def test_blocks_take_more_drafts(g):
    """Means of 20,000 windows against the exact ones, at 5.5 standard errors: one false alarm in ten million."""
    gains = []
    for _ in range(2):
        toy, start = Toy.random(g), torch.randint(VOCAB, (2,), generator=g)
        settings, seeds = batch_of(g, SETTINGS[:1], 20_000)
        expected = lengths(toy, start)
        for rule in RULES:
            _, taken = generate(toy, rule, "parallel", settings, start, seeds, full=True)
            error = 5.5 * float(taken.double().std()) / len(taken) ** 0.5
            assert abs(float(taken.double().mean()) - expected[rule]) < error
        gains.append(expected[BLOCK] - expected[TOKEN])
    assert min(gains) >= 0
    stubborn = lengths(STUBBORN, (1, 2))
    assert stubborn[BLOCK] > stubborn[TOKEN] + 0.02


@pytest.mark.parametrize("stream", [SAMPLE, DRAFT])
def test_drafts_are_drawn_from_what_they_say(g, stream):
    """Pairs of parallel drafts and of walks, each independent of the numbers of the other streams."""
    toy, start = Toy.random(g), torch.randint(VOCAB, (2, 1), generator=g).expand(2, MANY)
    settings, seeds = batch_of(g, [(0.8, 0, 1.0)], MANY)
    draws = Draws(settings[0], seeds, window_keys(torch.full((MANY, 2), 77)), stream)
    for drafts in ("parallel", "path"):
        tokens, ids, probability = propose(toy, drafts, *start, draws)
        p = torch.zeros(VOCAB, VOCAB, dtype=torch.float64)
        for token, share in zip(ids[0, 0].tolist(), probability[0, 0].tolist(), strict=True):
            behind = probability[tokens[:, 0] == token, 1]
            assert torch.equal(behind, behind[:1].expand_as(behind)), "depends on the first draft alone"
            if len(behind):
                p[token, ids[0, 1]] = share * behind[0].double()
        assert fit(counted(tokens), p.flatten() * MANY) > ALARM
        others = [gumbel_noise(seeds, draws.position[:, 0], VOCAB, other).argmax(1)
                  for other in {SAMPLE, DRAFT, RESIDUAL} - {stream}]  # fmt: skip
        others.append((uniform(seeds, draws.position[:, 0], ACCEPT) * VOCAB).long())
        for other in others:
            table = counted(torch.stack([tokens[:, 0], other], dim=1)).view(VOCAB, VOCAB)
            table = table[table.sum(1) >= 50 * VOCAB]
            assert len(table) < 2 or stats.chi2_contingency(table).pvalue > ALARM
