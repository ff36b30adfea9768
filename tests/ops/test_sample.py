"""The choice of a token: exact distributions, transformers as a peer for the filters, kernel and torch form alike."""

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from ocria.errors import EngineError
from ocria.ops.kernels import sample as kernels
from ocria.ops.sample import greedy, kept_from, sample

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DRAWS = 20_000
ALARM = 1e-8  # significance of one test, so that all of them together raise less than one false alarm in a million


@pytest.fixture
def g():
    seed = torch.seed() % 2**32
    print("seed", seed)
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def small_chunks(monkeypatch):
    """Many chunks in a small vocabulary."""
    monkeypatch.setattr(kernels, "CHUNK", 128)


def requests(g, rows, vocab):
    """Logits and settings of every kind, ties and extremes among them."""
    logits = torch.randn(rows, vocab, generator=g) * torch.rand(rows, 1, generator=g) * 6
    logits[::3] = (logits[::3] * 2).round() / 2
    logits[1::5] *= 20

    def some(share):
        return torch.rand(rows, generator=g) < share

    temperature = (torch.rand(rows, generator=g) * 1.5 + 0.05).masked_fill(some(0.15), 0.0)
    top_k = torch.randint(1, min(vocab, 60) + 3, (rows,), generator=g).masked_fill(some(0.3), 0)
    top_p = torch.rand(rows, generator=g).masked_fill(some(0.3), 1.0).masked_fill(some(0.1), 0.0)
    seed = torch.randint(-(2**63), 2**63 - 1, (rows,), generator=g)
    return logits, temperature, top_k, top_p, seed, torch.randint(0, 2**33, (rows,), generator=g)


def kernel(op, *arguments):
    return tuple(x.cpu() for x in op.kernel(*(x.to(DEVICE) for x in arguments)))


def filtered(logits, temperature, top_k, top_p):
    """Exact probabilities of one row, fp64, from the words of the definition."""
    y = logits.double() / temperature
    keep = torch.ones_like(y, dtype=torch.bool)
    if top_k:
        keep &= torch.tensor([int((y > own).sum()) < top_k for own in y])
    p = y.masked_fill(~keep, -torch.inf).softmax(0)
    if top_p < 1:
        keep &= torch.tensor([float(p[y > own].sum()) < top_p for own in y])
    return y.masked_fill(~keep, -torch.inf).softmax(0)


def draw(logits, temperature, top_k, top_p, seed, position):
    rows = len(seed)
    settings = (torch.full((rows,), temperature), torch.full((rows,), top_k), torch.full((rows,), top_p))
    return sample.torch_form(logits.expand(rows, -1), *settings, seed, position)[0]


@pytest.mark.parametrize("along", ["seeds", "positions"])
@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (0.4, 0, 1.0), (2.5, 0, 1.0), (1.0, 4, 1.0), (0.8, 0, 0.7), (1.3, 9, 0.8), (1.0, 1, 0.9)],
)
def test_draws_follow_the_distribution(g, along, temperature, top_k, top_p):
    logits = torch.randn(13, generator=g) * 1.5
    expected = filtered(logits, temperature, top_k, top_p).numpy() * DRAWS
    many = torch.arange(DRAWS) + torch.randint(0, 2**40, (), generator=g)
    same = torch.full_like(many, 42)
    seed, position = (many, same) if along == "seeds" else (same, many)
    token = draw(logits, temperature, top_k, top_p, seed, position)
    counts = np.bincount(token.numpy(), minlength=13)
    assert not counts[expected == 0].any(), "a filtered token was drawn"
    rare = (expected > 0) & (expected < 10)  # too few for the approximation by chi-square: one class together
    classes = [(expected > 0) & ~rare]
    seen, due = list(counts[classes[0]]), list(expected[classes[0]])
    if expected[rare].sum() > 0:
        seen, due = [*seen, counts[rare].sum()], [*due, expected[rare].sum()]
    if len(due) > 1:
        statistic = sum((s - d) ** 2 / d for s, d in zip(seen, due, strict=True))
        assert stats.chi2.sf(statistic, len(due) - 1) > ALARM


def test_draws_of_neighbouring_positions_are_independent(g):
    logits = torch.randn(5, generator=g)
    p = filtered(logits, 1.0, 0, 1.0)
    seed = torch.arange(DRAWS) + torch.randint(0, 2**40, (), generator=g)
    first, second = (draw(logits, 1.0, 0, 1.0, seed, torch.full_like(seed, at)) for at in (7, 8))
    counts = torch.bincount(first * 5 + second, minlength=25).double()
    due = (p[:, None] * p).flatten() * DRAWS
    assert stats.chi2.sf(float(((counts - due) ** 2 / due).sum()), 24) > ALARM


def test_a_request_draws_the_same_alone_and_in_a_batch(g):
    arguments = requests(g, 30, 271)
    together, probability = sample(*arguments)
    shuffled = torch.randperm(30, generator=g)
    assert torch.equal(sample(*(x[shuffled] for x in arguments))[0], together[shuffled])
    for i in range(30):
        token, p = sample(*(x[i : i + 1] for x in arguments))
        assert token == together[i]
        assert torch.allclose(p, probability[i : i + 1], rtol=1e-5)  # sums of exp in another order


def test_filters_keep_what_transformers_keeps(g):
    for _ in range(150):
        vocab = int(torch.randint(2, 90, (), generator=g))
        scores = torch.randn(1, vocab, generator=g) * 4
        temperature, top_p = float(torch.rand((), generator=g) + 0.1), float(torch.rand((), generator=g))
        top_k = int(torch.randint(1, vocab + 5, (), generator=g))
        if top_k % 5 == 0:
            scores = (scores * 2).round()  # equal ones at the k-th place
            top_p = 1.0
        peer = TemperatureLogitsWarper(temperature)(None, scores.double())
        peer = TopKLogitsWarper(top_k)(None, peer)
        exact = peer.softmax(-1).sort(descending=True).values.cumsum(-1)
        if top_p < 1:
            peer = TopPLogitsWarper(top_p)(None, peer)
        if (exact - top_p).abs().min() < 1e-6 and top_p < 1:
            continue  # the mass ends at the limit up to rounding: either set is right
        y = scores / temperature
        kept = y >= kept_from(y, torch.tensor([top_k]), torch.tensor([top_p]))[:, None]
        assert torch.equal(kept, peer.isfinite()), (vocab, temperature, top_k, top_p)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(("vocab", "rows"), [(1, 3), (127, 8), (128, 8), (300, 10)])
def test_kernel_draws_what_the_torch_form_draws(g, vocab, rows):
    arguments = requests(g, rows, vocab)
    token, probability = kernel(sample, *arguments)
    expected, its_probability = sample.torch_form(*arguments)
    assert torch.equal(token, expected)
    assert torch.allclose(probability, its_probability, rtol=1e-5)  # sums of exp in another order
    token, probability = kernel(greedy, arguments[0])
    assert torch.equal(token, arguments[0].argmax(-1))
    assert torch.allclose(probability, arguments[0].softmax(-1).amax(-1), rtol=1e-5)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(("top_k", "top_p", "rows"), [(2, 1.0, 16), (0, 0.1, 12), (8, 0.5, 12)])
def test_kernel_ends_where_the_filters_end(g, top_k, top_p, rows):
    """Of almost equal logits, where the one behind the last kept is drawn as readily as that."""
    logits = torch.randn(rows, 30, generator=g) * 0.01
    settings = (torch.ones(rows), torch.full((rows,), top_k), torch.full((rows,), top_p))
    seed, position = torch.randint(0, 2**40, (2, rows), generator=g)
    arguments = (logits, *settings, seed, position)
    assert torch.equal(kernel(sample, *arguments)[0], sample.torch_form(*arguments)[0])


def test_kernel_with_chunks_of_full_size(g):
    logits, *settings = requests(g, 4, 2 * kernels.CHUNK + 37)
    settings[0][:] = 1.1
    settings[1], settings[2] = torch.tensor([0, 50, 0, 50]), torch.tensor([1.0, 1.0, 0.9, 0.9])
    wide = torch.full((4, logits.shape[1] + 8), torch.nan)  # rows of a larger tensor
    wide[:, : logits.shape[1]] = logits
    rows = wide.to(DEVICE)[:, : logits.shape[1]]
    token, _ = sample.kernel(rows, *(x.to(DEVICE) for x in settings))
    assert torch.equal(token.cpu(), sample.torch_form(logits, *settings)[0])


@pytest.mark.usefixtures("small_chunks")
def test_bf16_logits(g):
    logits, *settings = requests(g, 5, 150)
    half = logits.bfloat16()
    expected = sample.torch_form(half.float(), *settings)[0]
    assert torch.equal(sample.torch_form(half, *settings)[0], expected)
    assert torch.equal(kernel(sample, half, *settings)[0], expected)
    assert torch.equal(kernel(greedy, half)[0], half.float().argmax(-1))


@pytest.mark.usefixtures("small_chunks")
def test_equal_logits():
    """Greedy takes the lowest id; filters keep equal ones together."""
    logits = torch.zeros(400, 130)
    logits[:, 3:70:2] = 2.0
    assert (greedy(logits)[0] == 3).all()
    assert (kernel(greedy, logits[:2])[0] == 3).all()
    many = torch.arange(400)
    settings = (torch.ones(400), torch.full((400,), 1), torch.full((400,), 0.1), many, many)
    token = sample(logits, *settings)[0]
    assert set(token.tolist()) == set(range(3, 70, 2))
    assert torch.equal(kernel(sample, *(x[:3] for x in (logits, *settings)))[0], token[:3])
    one = torch.ones(1)
    assert int(sample(logits[:1], one * 0, *(x[:1] for x in settings[1:]))[0]) == 3


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("strange", [torch.nan, torch.inf, -torch.inf])
def test_logits_that_are_not_finite(g, strange):
    logits, *settings = requests(g, 6, 150)
    for row in (0, 2):
        logits[row, int(torch.randint(0, 150, (), generator=g))] = strange
    logits[4] = strange
    for token, probability in (
        greedy(logits), sample(logits, *settings), kernel(greedy, logits), kernel(sample, logits, *settings),
    ):  # fmt: skip
        assert probability[::2].isnan().all()
        assert not token[::2].any()
        assert probability[1::2].isfinite().all()


@pytest.mark.usefixtures("small_chunks")
def test_logits_of_any_finite_size(g):
    logits = torch.randn(4, 100, generator=g) * 3e37
    top_k, top_p = torch.tensor([0, 5, 0, 5]), torch.tensor([1.0, 1.0, 0.5, 0.5])
    arguments = (torch.ones(4), top_k, top_p, *torch.zeros(2, 4).long())
    token, probability = sample(logits, *arguments)
    assert torch.equal(token, logits.argmax(-1))
    assert torch.equal(probability, torch.ones(4))
    assert torch.equal(greedy(logits)[1], torch.ones(4))
    for op, given in ((sample, (logits, *arguments)), (greedy, (logits,))):
        got = kernel(op, *given)
        assert torch.equal(got[0], token)
        assert torch.equal(got[1], probability)


def test_greedy_is_sampling_at_temperature_zero(g):
    logits, temperature, *settings = requests(g, 30, 271)
    token, probability = sample(logits, torch.zeros_like(temperature), *settings)
    assert torch.equal(token, greedy(logits)[0])
    assert torch.allclose(probability, greedy(logits)[1], rtol=1e-5)


@pytest.mark.usefixtures("small_chunks")
def test_greedy_over_a_window(g):
    logits = torch.randn(2, 3, 50, generator=g)
    for token, probability in (greedy(logits), kernel(greedy, logits)):
        assert torch.equal(token, logits.argmax(-1))
        assert torch.allclose(probability, logits.softmax(-1).amax(-1), rtol=1e-5)


def test_strided_rows_are_refused():
    logits = torch.zeros(4, 6, device=DEVICE).t()
    with pytest.raises(EngineError, match="contiguous"):
        greedy.kernel(logits)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("op", [sample, greedy])
def test_registration(g, op):
    arguments = tuple(x.to(DEVICE) for x in requests(g, 3, 70))
    torch.library.opcheck(op.kernel, arguments if op is sample else arguments[:1])


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("form", ["torch_form", "kernel"])
@pytest.mark.parametrize("op", [sample, greedy])
def test_compiles_as_one_graph(g, op, form):
    torch._dynamo.reset()
    arguments = requests(g, 5, 70)[: 6 if op is sample else 1]
    device = DEVICE if form == "kernel" else "cpu"
    compiled = torch.compile(lambda *a: getattr(op, form)(*a), fullgraph=True, backend="aot_eager")
    token, _ = compiled(*(x.to(device) for x in arguments))
    assert torch.equal(token.cpu(), op.torch_form(*arguments)[0])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_full_vocabulary_on_the_gpu(g):
    arguments = requests(g, 64, 248_320)
    assert torch.equal(kernel(sample, *arguments)[0], sample.torch_form(*arguments)[0])
    assert torch.equal(kernel(greedy, arguments[0])[0], arguments[0].argmax(-1))
