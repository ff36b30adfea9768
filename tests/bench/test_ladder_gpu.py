"""What the ladder runs on a GPU, at tiny shapes: the random model writes what it is built to write, drafts hold as
often as the schedule says, and nothing of that changes an answer."""

import random

import pytest
import torch
from ladder.forced import schedule
from ladder.large import WRONG_EVERY, load
from ladder.shapes import LARGE, TINY
from random_model import made_up_tokenizer

from ocria.errors import UsageError
from ocria.model.config import ModelConfig
from ocria.runtime.options import EngineOptions
from ocria.spec.config import DrafterConfig
from ocria.spec.load import build

SEED = random.randrange(2**31)


@pytest.fixture(scope="module")
def large():
    print(f"seed {SEED}")
    return load(TINY, torch.float32, "cpu", SEED)


def expected(large, requests):
    return [tuple(large.answer(request.prompt[-1], request.limits.max_tokens)) for request in requests]


def tokens(large, draft, requests, batch=3, **options):
    rows = 16 if draft != "none" else 1
    chain = large.chain(draft, rows, options.pop("accept", None))
    engine = large.engine(EngineOptions(max_batch=batch, draft_rows=rows if chain else None, **options), chain)
    results = engine.run(requests)
    assert all(result.finish_reason == "length" for result in results)
    return [result.tokens for result in results], results


@pytest.mark.parametrize("rows", [2, 5, 16])
def test_a_schedule_has_the_mean_that_was_asked_for(rows):
    for eighths in range(8, 8 * rows + 1):
        lengths = schedule(eighths / 8, rows)
        assert len(lengths) == 8
        assert sum(lengths) == eighths
        assert 1 <= min(lengths) <= max(lengths) <= rows
    assert min(schedule(9, 16)) < 6 < 12 < max(schedule(9, 16)), "windows differ"
    for mean in (0.9, rows + 0.1):
        with pytest.raises(UsageError):
            schedule(mean, rows)


def test_the_model_writes_its_cycle(large):
    """Whatever the image and the batch, so that answers can be told beforehand."""
    requests = large.requests(5, SEED)
    assert tokens(large, "none", requests)[0] == expected(large, requests)
    text = torch.arange(TINY.text_tokens)
    assert sorted(large.successor[text].tolist()) == text.tolist()
    walk = large.answer(0, TINY.text_tokens)
    assert len(set(walk)) == TINY.text_tokens, "one cycle: no answer repeats itself"


@pytest.mark.parametrize(("draft", "mean"), [("dflash", 9.0), ("dflash2", 12.0), ("dflash2", 3.125), ("dflash", 1.0)])
def test_drafts_hold_as_often_as_is_asked(large, draft, mean):
    """In all windows of a request but the last, which the end of the answer cuts; the answer is that of plain steps."""
    requests = large.requests(4, SEED)
    found, results = tokens(large, draft, requests, accept={draft: mean})
    assert found == expected(large, requests)
    lengths = schedule(mean, 16)
    for request, result in zip(requests, results, strict=True):
        left, windows = request.limits.max_tokens, 0
        while left > 0:
            left -= lengths[windows % len(lengths)]
            windows += 1
        counted = result.acceptance
        assert counted.steps == windows
        assert counted.sources == [f"{draft}, forced"]


def test_whole_turns_have_the_mean_exactly(large):
    (request,) = large.requests(1, SEED, longest=1)
    turns = 2 * sum(schedule(9, 16))
    request = type(request)(0, request.prompt, request.images, type(request.limits)(max_tokens=turns))
    _, (result,) = tokens(large, "dflash", [request])
    assert (result.acceptance.steps, result.acceptance.accept_length) == (16, 9.0)


def test_the_network_is_asked_in_every_window(large, monkeypatch):
    calls = []
    drafter = large.drafters["dflash2"]
    draft = drafter.draft
    monkeypatch.setattr(drafter, "draft", lambda *arguments: calls.append(1) or draft(*arguments))
    _, (result,) = tokens(large, "dflash2", large.requests(1, SEED))
    assert len(calls) == result.acceptance.steps


def test_lookup_holds_up_to_the_errors_of_the_text(large):
    requests = large.requests(4, SEED)
    found, results = tokens(large, "lookup", requests)
    assert found == expected(large, requests)
    for result in results:
        assert 2 < len(result.tokens) / result.acceptance.steps <= min(16, WRONG_EVERY)


def test_lookup_and_a_network_draft_together(large):
    requests = large.requests(4, SEED)
    found, results = tokens(large, "lookup,dflash2", requests)
    assert found == expected(large, requests)
    sources = set().union(*(result.acceptance.sources for result in results))
    assert sources <= {"lookup", "ngram", "dflash2, forced"}
    assert len(sources) > 1


def test_quantised_weights_write_the_same():
    """Rounding does not reach the margin; the layers hold codes, the drafters' too."""
    mixed = load(TINY, torch.float32, "cpu", SEED, "nvfp4-mlp+fp8+head")
    layer = mixed.loaded.network.model.language_model.layers[0]
    assert layer.mlp.up_proj.held is not None
    assert mixed.loaded.network.lm_head.held is not None
    assert mixed.drafters["dflash"].layers[0].mlp.up_proj.held is not None
    assert mixed.drafters["dflash2"].fc.held is None
    requests = mixed.requests(3, SEED)
    for draft in ("none", "dflash2"):
        assert tokens(mixed, draft, requests)[0] == expected(mixed, requests)


def test_bf16_writes_the_same():
    rough = load(TINY, torch.bfloat16, "cpu", SEED)
    requests = rough.requests(3, SEED)
    assert tokens(rough, "dflash", requests)[0] == expected(rough, requests)


def test_text_of_the_made_up_tokenizer_is_its_tokens():
    tokenizer = made_up_tokenizer(700)
    ids = [random.randrange(700) for _ in range(50)]
    assert tokenizer.encode(tokenizer.decode(ids)) == ids, ids


def test_published_shapes():
    """The drafter's number of parameters is that of the published file; the model's file has no head of its own."""
    with torch.device("meta"):
        drafters = {name: build(DrafterConfig.from_dict(data)) for name, data in LARGE.drafters.items()}
    assert sum(p.numel() for p in drafters["dflash"].parameters()) == 634_425_856
    config = ModelConfig.from_dict(LARGE.data)
    for drafter in drafters.values():
        drafter.config.check_target(config.text)
    tokens = [height * width // 1024 for height, width in LARGE.pages]
    assert tokens == [1064, 1408, 1632, 2520]
