"""Verification by probabilities: its forms against the definition, worked examples, and what `accept` makes of it."""

import pytest
import torch

from ocria.errors import EngineError
from ocria.ops.accept import FAILED, RUNNING, accept
from ocria.ops.kernels import verify as kernels
from ocria.ops.philox import ACCEPT, DRAFT, RESIDUAL, gumbel_noise, uniform, window_keys
from ocria.ops.sample import greedy, sample
from ocria.ops.verify import BLOCK, RULES, TOKEN, verify, verify_reference
from ocria.spec.draws import Draws, choose

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
VOCAB = 150
NOTHING = 10**12  # an id that is no token


@pytest.fixture
def g():
    seed = torch.seed() % 2**32
    print("seed", seed)
    return torch.Generator().manual_seed(seed)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Many chunks in a small vocabulary."""
    monkeypatch.setattr(kernels, "CHUNK", 64)


def windows(g, batch, rows=5, width=3, vocab=VOCAB):
    """Arguments of `verify` but its rule: drafts drawn from candidates that the target likes more or less, in windows
    of every kind; what no window uses is NaN or no token."""

    def some(*shape, share=0.5):
        return torch.rand(shape, generator=g) < share

    logits = torch.randn(batch, rows, vocab, generator=g) * (torch.rand(batch, 1, 1, generator=g) * 4 + 0.5)
    logits[some(batch, share=0.2)] = (logits[some(batch, share=0.2)].mean() * 2).round() / 2  # all tokens alike
    temperature = (torch.rand(batch, generator=g) * 1.5 + 0.2).masked_fill(some(batch, share=0.15), 0.0)
    top_k = torch.randint(1, vocab + 3, (batch,), generator=g).masked_fill(some(batch), 0)
    top_k = torch.where(some(batch, share=0.3), torch.randint(1, 9, (batch,), generator=g), top_k)
    top_p = torch.rand(batch, generator=g).masked_fill(some(batch), 1.0).masked_fill(some(batch, share=0.05), 0.0)
    seed = torch.randint(-(2**63), 2**63 - 1, (batch,), generator=g)
    position = torch.randint(0, 2**31, (batch, 1), generator=g) + torch.arange(rows)

    scores, likely = (logits[:, :-1] + torch.randn(batch, rows - 1, vocab, generator=g)).topk(width, dim=-1)
    draws = Draws(temperature, seed, window_keys(position[:, :-1]), DRAFT)
    index, probability = choose(scores, temperature[:, None], draws.noise(likely))
    certain = some(batch, share=0.25)  # drafts that were the only ones possible
    index[certain], probability[certain] = 0, torch.eye(width)[0]
    drafts = likely.gather(2, index[..., None])[..., 0]
    empty = probability == 0
    likely = torch.where(empty & some(*empty.shape), drafts[..., None], likely)
    likely = torch.where(empty & some(*empty.shape), NOTHING * torch.randint(-1, 2, empty.shape, generator=g), likely)

    ids = torch.cat([torch.randint(vocab, (batch, 1), generator=g), drafts], dim=1)
    given = torch.where(some(batch, share=0.8), 1, torch.randint(1, rows + 1, (batch,), generator=g))
    count = torch.where(some(batch, share=0.6), rows, torch.randint(0, rows + 1, (batch,), generator=g))
    given = torch.minimum(given, count.clamp(min=1))
    beyond = torch.arange(rows) >= count[:, None]
    ids = torch.where(beyond & some(batch, rows), NOTHING, ids)
    logits[beyond] = torch.nan
    probability[beyond[:, 1:]] = torch.nan
    return logits, ids, given, count, temperature, top_k, top_p, seed, position, likely, probability


def kernel(*arguments):
    moved = (x.to(DEVICE) if isinstance(x, torch.Tensor) else x for x in arguments)
    return tuple(x.cpu() for x in verify.kernel(*moved))


def alike(got, expected):
    """Tokens of equal windows; probabilities up to sums of exp in another order."""
    for a, b in zip(got, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
    return (got[0] == expected[0]).all(1) & (got[2] == expected[2]).all(1) & torch.stack(
        [torch.allclose(a, b, rtol=1e-5, equal_nan=True) * torch.ones(()) for a, b in zip(got[1], expected[1])]
    ).bool()


@pytest.mark.parametrize("rule", RULES)
def test_torch_form_is_the_definition(g, rule):
    """The definition knows p in fp64 and sums over the vocabulary, so a decision may differ where a uniform number
    falls within 1e-6 of what it is compared with, or two noisy logits are as near: at most one window in 400."""
    arguments = windows(g, 400)
    expected, got = verify_reference(*arguments, rule), verify.torch_form(*arguments, rule)
    assert alike(got, expected).sum() >= 399
    taken = ((got[2] >= 0) & (torch.arange(5) >= arguments[2][:, None])).sum(1)
    assert set(taken.tolist()) == set(range(5)), "the windows do not end everywhere"


@pytest.mark.parametrize("rule", RULES)
def test_kernel_is_the_torch_form(g, rule):
    arguments = windows(g, 40)
    assert alike(kernel(*arguments, rule), verify.torch_form(*arguments, rule)).all()
