"""One budget for image tokens, output tokens and memory."""

import numpy as np
import pytest
import torch

from ocria.errors import EngineError, InputError
from ocria.runtime.budget import PageBudget
from ocria.runtime.options import EngineOptions, resolve

SMALL_PASSES = {"prefill_rows": 8, "encoder_patches": 8}


def make_budget(loaded, image=None, **options):
    cpu = torch.device("cpu")
    resolved = resolve(EngineOptions(**options), cpu)
    return PageBudget(loaded.config, image or loaded.image, loaded.profile, resolved, torch.float32, cpu)


def fixed_bytes(loaded, **options):
    """What a plan takes before the first row of state."""
    plan = make_budget(loaded, **options).plan(1)
    return plan.total - plan.bytes


def test_image_tokens_are_those_of_the_processor(loaded, rng):
    from ocria.model.image import preprocess

    budget = make_budget(loaded)
    for height, width in rng.integers(16, 300, (10, 2)).tolist():
        _, (_, rows, columns) = preprocess(np.zeros((height, width), np.uint8), loaded.image)
        assert budget.image_tokens(height, width) == rows * columns // 4


def test_no_image_has_more_tokens_than_planned_for(loaded, rng):
    """Strips, which the processor cannot scale down to the largest area, and specks among them."""
    for _ in range(20):
        smallest = int(rng.integers(1, 20_000))
        image = loaded.image.with_limits(smallest, smallest + int(rng.integers(0, 200_000)))
        most = make_budget(loaded, image).most_image_tokens
        short = np.exp(rng.uniform(0, 7, 500)).astype(int)
        long = np.minimum(short * np.exp(rng.uniform(0, np.log(200), 500)), 200 * short).astype(int)
        tokens = [image.tokens(height, width) for height, width in zip(short.tolist(), long.tolist(), strict=True)]
        assert 0.3 * most < max(tokens) <= most


def test_states_are_allocated_in_buckets(loaded):
    plan = make_budget(loaded, max_batch=3).plan(130)
    assert (plan.slots, plan.max_len) == (3, 256)


@pytest.mark.parametrize("room", [200_000, 1_000_000, 1_999_999])
def test_whatever_is_accepted_can_be_planned(loaded, room):
    memory = fixed_bytes(loaded, max_batch=1, **SMALL_PASSES) + room
    budget = make_budget(loaded, memory_bytes=memory, **SMALL_PASSES)
    assert 0 < budget.max_len < loaded.config.text.max_position_embeddings
    plan = budget.plan(budget.max_len)
    assert plan.slots >= 1
    assert plan.total <= memory
    with pytest.raises(EngineError, match="not enough memory"):
        budget.plan(budget.max_len + 1)


def test_too_little_memory_for_anything(loaded):
    with pytest.raises(InputError, match="too large"):
        make_budget(loaded, memory_bytes=1).output_tokens(1, 0, None)


def test_the_checkpoint_bounds_the_length(loaded):
    assert make_budget(loaded).max_len == loaded.config.text.max_position_embeddings
    assert make_budget(loaded, max_len=77).max_len == 77


def test_output_shrinks_to_the_room_unless_it_was_asked_for(loaded):
    budget = make_budget(loaded, max_len=50)
    assert budget.output_tokens(10, 0, None) == 40
    assert budget.output_tokens(10, 0, 40) == 40
    with pytest.raises(InputError, match=r"10 prompt tokens.*41 output tokens, where 50 fit"):
        budget.output_tokens(10, 0, 41)
