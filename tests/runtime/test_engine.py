"""Batched output equals each request alone, whatever the batch, the order and the chunks."""

import numpy as np
import pytest
import torch

from ocria.errors import InputError, UsageError
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions

pytestmark = pytest.mark.filterwarnings("error")


def alone(loaded, request):
    (result,) = Engine(loaded, EngineOptions(max_batch=1)).run([request])
    return result


def mixed(make_request, rng, count):
    return [
        make_request(
            i,
            image=(int(rng.integers(1, 4)), int(rng.integers(1, 6))) if rng.random() < 0.6 else None,
            max_tokens=int(rng.integers(1, 24)),
        )
        for i in range(count)
    ]


def same(result, expected):
    """Everything but times; probabilities may differ by rounding of another batch shape (fp32, some 100 sums)."""
    assert result.tokens == expected.tokens
    assert (result.text, result.status, result.finish_reason) == (expected.text, expected.status, expected.finish_reason)
    assert result.confidence == pytest.approx(expected.confidence, abs=1e-3)
    assert result.min_confidence == pytest.approx(expected.min_confidence, abs=1e-3)


@pytest.mark.parametrize("max_batch", [1, 2, 3, 7, 32])
@pytest.mark.parametrize("prefill_rows", [7, 2048])
def test_batched_equals_alone(loaded, make_request, rng, max_batch, prefill_rows):
    requests = mixed(make_request, rng, 12)
    engine = Engine(loaded, EngineOptions(max_batch=max_batch, prefill_rows=prefill_rows))
    for result, request in zip(engine.run(requests), requests, strict=True):
        assert result.id == request.id
        same(result, alone(loaded, request))
    engine.check_integrity()
