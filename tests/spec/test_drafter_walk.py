"""From hidden rows to tokens: the selector's walk, draws, and the noise that they are made with."""

import pytest
import torch
from drafter_made import RandomTarget, random_drafter, small

from ocria.ops.philox import gumbel_noise
from ocria.spec.dflash2 import Candidates, walk
from ocria.spec.draws import Draws, choose, gumbel_at

DATA = {"one": small(), "two": small(2)}


def reference_walk(ids, unary, pairs, temperature, noise):
    """Row by row. pairs `[n, K, K]` by predecessor; temperature 0 is greedy."""
    at, tokens, probability = 0, [], []
    for i in range(len(ids)):
        scores = unary[i] + pairs[i, at]
        if temperature == 0:
            at = int(scores.argmax())
            probability.append(torch.eye(len(scores))[at])
        else:
            at = int((scores / temperature + noise[i]).argmax())
            probability.append((scores / temperature).softmax(-1))
        tokens.append(int(ids[i, at]))
    return tokens, torch.stack(probability)


def test_walk(generator):
    b, n, k = 4, 6, 5
    ids = torch.stack([torch.randperm(90, generator=generator)[: n * k].view(n, k) for _ in range(b)])
    unary = torch.randn(b, n, k, generator=generator)
    pairs = torch.randn(b, n, k, k, generator=generator)
    pairs[:, 0] = pairs[:, 0, :1]
    noise = -torch.empty(b, n, k).exponential_(generator=generator).log()
    temperature = torch.tensor([0.0, 0.5, 1.0, 2.0])
    found = Candidates(ids, unary[:, :, None] + pairs)
    greedy, drawn = walk(found), walk(found, temperature, noise)
    assert greedy.probability is None
    for i in range(b):
        tokens, _ = reference_walk(ids[i], unary[i], pairs[i], 0, None)
        assert greedy.tokens[i].tolist() == tokens
        tokens, probability = reference_walk(ids[i], unary[i], pairs[i], float(temperature[i]), noise[i])
        assert drawn.tokens[i].tolist() == tokens
        torch.testing.assert_close(drawn.probability[i], probability)


def test_the_first_of_equal_scores():
    ids = torch.tensor([[[7, 3, 5], [9, 2, 4]]])
    flat = Candidates(ids, torch.zeros(1, 2, 3, 3))
    assert walk(flat).tokens.tolist() == [[7, 9]]
    assert walk(flat, torch.zeros(1), torch.zeros(1, 2, 3)).tokens.tolist() == [[7, 9]]


def test_a_walk_is_not_the_best_path():
    """The best first step is taken even where another leads to more."""
    scores = torch.zeros(1, 2, 2, 2)
    scores[0, 0, :, 0] = 1.0
    scores[0, 1, 1] = 9.0
    assert walk(Candidates(torch.tensor([[[1, 2], [3, 4]]]), scores)).tokens.tolist() == [[1, 3]]


def test_noise_of_single_tokens_is_that_of_the_sampler(generator):
    seed = torch.tensor([5, 2**40 + 3])
    position = torch.tensor([77, 2**33])
    whole = gumbel_noise(seed, position, 103)
    ids = torch.randint(103, (2, 9), generator=generator)
    at = gumbel_at(seed[:, None], position[:, None], ids)
    assert torch.equal(at, whole.gather(1, ids))
    assert not (gumbel_at(seed[:, None], position[:, None], ids, stream=1) == at).any()


def test_draws_follow_their_distribution():
    """Chi-square of 20,000 draws by the keyed noise over five tokens."""
    scores, n = torch.tensor([0.3, 1.5, -1.0, 0.0, 2.0]), 20_000
    draws = Draws(torch.tensor([0.8]), torch.tensor([9]), torch.arange(n)[None], stream=2)
    ids = torch.tensor([4, 17, 2, 3, 900]).expand(1, n, 5)
    index, probability = choose(scores.expand(1, n, 5), draws.temperature[:, None], draws.noise(ids))
    expected = (scores / 0.8).softmax(-1)
    torch.testing.assert_close(probability[0, 0], expected)
    count = index.flatten().bincount(minlength=5)
    chi = float(((count - n * expected) ** 2 / (n * expected)).sum())
    assert chi < 18.47  # p = 0.001 with 4 degrees of freedom; the seed is fixed


@pytest.mark.parametrize("kind", DATA)
@torch.no_grad()
def test_drawn_proposals(kind, generator):
    """`propose` with draws: temperature 0 is the greedy choice, and a request draws the same alone."""
    network, target = random_drafter(DATA[kind], generator), RandomTarget(DATA[kind], generator)
    hidden = torch.randn(3, 6, 48, generator=generator)
    anchor = torch.randint(211, (3,), generator=generator)
    position = torch.randint(100, (3, 6), generator=generator)
    draws = Draws(torch.tensor([0.0, 8.0, 8.0]), torch.tensor([4, 5, 6]), position)
    greedy, drawn = network.propose(target, hidden, anchor), network.propose(target, hidden, anchor, draws)
    assert torch.equal(greedy.tokens[0], drawn.tokens[0])
    ids = drawn.ids
    own = (ids == drawn.tokens[:, :, None]).float()
    assert torch.equal(drawn.probability[0], own[0])
    assert (own.sum(-1) == 1).all()
    torch.testing.assert_close(drawn.probability.sum(-1), torch.ones(3, 6))
    alone = Draws(torch.tensor([8.0]), torch.tensor([6]), position[2:])
    again = network.propose(target, hidden[2:], anchor[2:], alone)
    assert torch.equal(again.tokens, drawn.tokens[2:])
    assert not torch.equal(greedy.tokens[1:], drawn.tokens[1:])  # hot enough to be sure
