"""Batched output equals each request alone, whatever the batch, the order and the chunks; and transformers' own."""

import numpy as np
import pytest
import torch
from small_model import CONFIG, IM_END, IMAGE_PAD, VISION_END, VISION_START

from ocria.model.image import preprocess
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions
from ocria.runtime.request import Limits, Request


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
    """Everything but times. Probabilities differ by rounding, as batches sum in another order (fp32, logits of some
    tens)."""
    assert result.tokens == expected.tokens
    assert (result.text, result.status) == (expected.text, expected.status)
    assert result.finish_reason == expected.finish_reason
    assert result.confidence == pytest.approx(expected.confidence, abs=1e-3)
    assert result.min_confidence == pytest.approx(expected.min_confidence, abs=1e-3)
    assert (result.tokens_in, result.tokens_out) == (expected.tokens_in, expected.tokens_out)


def drain(engine):
    """Step to the end; the results by id, and the text of each request as it was emitted."""
    results, texts = {}, {}
    while not engine.idle:
        for emission in engine.step():
            texts[emission.id] = texts.get(emission.id, "") + emission.text
            if emission.result is not None:
                assert emission.id not in results, "a request ended twice"
                results[emission.id] = emission.result
    engine.check_integrity()
    return results, texts


@pytest.mark.parametrize("max_batch", [1, 2, 3, 7, 32])
@pytest.mark.parametrize("prefill_rows", [7, 2048])
def test_batched_equals_alone(loaded, make_request, rng, max_batch, prefill_rows):
    requests = mixed(make_request, rng, 12)
    engine = Engine(loaded, EngineOptions(max_batch=max_batch, prefill_rows=prefill_rows))
    for result, request in zip(engine.run(requests), requests, strict=True):
        assert result.id == request.id
        same(result, alone(loaded, request))
    engine.check_integrity()


def test_outputs_are_worth_comparing(loaded, make_request, rng):
    """Guards the other tests: random weights whose text were one repeated token would prove nothing."""
    results = Engine(loaded).run([make_request(i, max_tokens=24) for i in range(16)])
    assert np.median([len(set(result.tokens)) for result in results]) > 6
    assert len({result.tokens for result in results}) == 16


def test_random_arrival_and_cancels_leave_the_others_alone(loaded, make_request, rng):
    requests = mixed(make_request, rng, 20)
    engine = Engine(loaded, EngineOptions(max_batch=4, prefill_rows=11, admit_group=int(rng.integers(1, 5))))
    waiting = [requests[i] for i in rng.permutation(20)]
    results, cancelled = {}, set()
    while waiting or not engine.idle:
        for _ in range(int(rng.integers(0, 4))):
            if waiting:
                engine.submit(waiting.pop())
        if rng.random() < 0.3:
            victim = int(rng.integers(0, 20))
            if engine.cancel(victim):
                cancelled.add(victim)
        for emission in engine.step():
            if emission.result is not None:
                results[emission.id] = emission.result
        engine.check_integrity()
    assert results.keys() == set(range(20))
    for request in requests:
        expected = alone(loaded, request)
        if request.id in cancelled:
            assert results[request.id].status == "cancelled"
            assert results[request.id].tokens == expected.tokens[: results[request.id].tokens_out]
        else:
            same(results[request.id], expected)


@pytest.mark.parametrize("length", range(1, 21))
def test_prompt_lengths(loaded, make_request, rng, length):
    """Prompts of every length from one token on, in chunks of every size up to it."""
    request = make_request("r", prompt_len=length, max_tokens=8)
    expected = alone(loaded, request)
    for rows in {1, 2, 3, 4, 5, length}:
        engine = Engine(loaded, EngineOptions(max_batch=3, prefill_rows=rows))
        others = [make_request(i, max_tokens=8) for i in range(2)]
        same(engine.run([others[0], request, others[1]])[1], expected)


def test_equals_transformers(loaded, make_request, rng):
    transformers = pytest.importorskip("transformers")
    config = transformers.Qwen3_5Config(**CONFIG)
    reference = transformers.Qwen3_5ForConditionalGeneration(config).eval()
    reference.load_state_dict(loaded.network.state_dict(), strict=False)
    reference.tie_weights()
    requests = mixed(make_request, rng, 8)
    for request, result in zip(requests, Engine(loaded).run(requests), strict=True):
        ids = list(request.prompt)
        inputs = {}
        if request.images:
            pixels, grid = preprocess(request.images[0], loaded.image)
            place = ids.index(IMAGE_PAD)
            ids[place : place + 1] = [IMAGE_PAD] * (grid[1] * grid[2] // 4)
            inputs = {"pixel_values": pixels, "image_grid_thw": torch.tensor([grid])}
        tensor = torch.tensor([ids])
        inputs["mm_token_type_ids"] = (tensor == IMAGE_PAD).int()
        made = reference.generate(
            input_ids=tensor,
            attention_mask=torch.ones_like(tensor),
            do_sample=False,
            max_new_tokens=request.limits.max_tokens,
            eos_token_id=IM_END,
            pad_token_id=IM_END,
            **inputs,
        )[0, len(ids) :].tolist()
        stopped = result.finish_reason == "stop"
        assert [*result.tokens, *([IM_END] if stopped else [])] == made


def state_of(engine):
    """All tensors of the state, by slot."""
    return engine.worker.state.tensors() if engine.worker.plan.slots else []


@torch.inference_mode()
def poison(engine):
    """NaN in everything that a free slot, or the dummy, may hold."""
    for slot in range(engine._slots.count + 1):
        if slot == 0 or engine._slots.is_free(slot):
            for tensor in state_of(engine):
                tensor[slot] = float("nan")


def test_poisoned_pools(loaded, make_request, rng):
    """What earlier requests and padding leave in free slots and in the dummy never matters."""
    requests = mixed(make_request, rng, 14)
    engine = Engine(loaded, EngineOptions(max_batch=5, prefill_rows=9, admit_group=2))
    engine.run([make_request("first", max_tokens=30)])
    for request in requests:
        engine.submit(request)
    results = {}
    while not engine.idle:
        poison(engine)
        for emission in engine.step():
            if emission.result is not None:
                results[emission.id] = emission.result
    for request in requests:
        same(results[request.id], alone(loaded, request))


def test_unscheduled_slots_are_untouched(loaded, make_request, rng):
    """A step changes no state of slots that it does not compute: here a long prompt in chunks beside decoding."""
    engine = Engine(loaded, EngineOptions(max_batch=6, prefill_rows=8, admit_group=1))
    for i in range(6):
        engine.submit(make_request(i, prompt_len=40 if i in (1, 4) else 3, max_tokens=30))
    seen = 0
    while not engine.idle:
        tensors = state_of(engine)
        before = [tensor.clone() for tensor in tensors]
        phases = {s.slot: (s.phase, s.filled) for s in engine._scheduler.running.values()}
        engine.step()
        for sequence in engine._scheduler.running.values():
            phase, filled = phases.get(sequence.slot, (None, None))
            if phase == "prefill" and sequence.filled == filled:  # it waited for its turn
                seen += 1
                for old, new in zip(before, tensors, strict=True):
                    assert torch.equal(old[sequence.slot], new[sequence.slot])
    assert seen, "no slot ever waited: the test tests nothing"


def test_a_prompt_may_enter_a_gap_between_running_slots(loaded, make_request):
    """The freed slot was computed along with its neighbours until a prompt in chunks took it."""
    engine = Engine(loaded, EngineOptions(max_batch=5, prefill_rows=6, admit_group=1))
    running = [make_request(i, prompt_len=2, max_tokens=40) for i in range(5)]
    for request in running:
        engine.submit(request)
    late = make_request("late", prompt_len=29, max_tokens=8)
    results = {}
    for step in range(200):
        if step == 5:
            engine.cancel(2)
        if step == 8:
            engine.submit(late)
        results |= {e.id: e.result for e in engine.step() if e.result}
        if engine.idle:
            break
    same(results["late"], alone(loaded, late))
    for request in (running[0], running[4]):
        same(results[request.id], alone(loaded, request))


def test_state_grows_for_a_larger_request(loaded, make_request):
    engine = Engine(loaded, EngineOptions(max_batch=2))
    small, large = make_request("small", max_tokens=4), make_request("large", prompt_len=300, max_tokens=4)
    same(engine.run([small])[0], alone(loaded, small))
    before = engine.worker.plan.max_len
    engine.submit(make_request("running", max_tokens=20))
    engine.step()
    engine.submit(large)
    results, _ = drain(engine)
    assert engine.worker.plan.max_len > before
    same(results["large"], alone(loaded, large))


def test_bfloat16_agrees_with_fp32_where_the_choice_is_clear(loaded, private, make_request, rng):
    """bf16 has 8 bits of mantissa: the first token must agree wherever fp32 gives it a probability of 0.9 and more."""
    half = private()
    for layer in half.network.to(torch.bfloat16).model.language_model.layers:
        if hasattr(layer, "linear_attn"):
            layer.linear_attn.A_log.data = layer.linear_attn.A_log.data.float()
            layer.linear_attn.norm.weight.data = layer.linear_attn.norm.weight.data.float()
    requests = [make_request(i, image=(1, 3), max_tokens=1) for i in range(24)]
    full, low = Engine(loaded).run(requests), Engine(half).run(requests)
    clear = [(a, b) for a, b in zip(full, low, strict=True) if a.confidence >= 0.9]
    assert all(a.tokens == b.tokens for a, b in clear)
    assert all(b.status in ("ok", "truncated") for b in low)


def test_one_large_and_many_images_in_one_prompt(loaded, rng):
    images = [rng.integers(0, 256, (16 * h, 16 * w, 3), dtype=np.uint8) for h, w in ((1, 2), (3, 1), (1, 2))]
    prompt = [65, *[VISION_START, IMAGE_PAD, VISION_END] * 3, 66]
    requests = [Request("three", prompt, images, Limits(max_tokens=9)), Request("none", [65], (), Limits(max_tokens=9))]
    results = Engine(loaded).run(requests)
    assert results[0].tokens_in == 2 + 3 * 2 + 2 + 3 + 2
    for result, request in zip(results, requests, strict=True):
        same(result, alone(loaded, request))
