"""Odd options, failures in the middle of something, callers that interfere: what broke the engine once."""

import gc
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from scripted import Scripted, chain
from small_model import IM_END, IMAGE_PAD, VISION_END, VISION_START

from ocria.errors import EngineError, InputError, UsageError
from ocria.model.checkpoint import check_device
from ocria.model.state import DecoderState
from ocria.ops.linear import Packed
from ocria.runtime import prefill
from ocria.runtime.engine import Engine
from ocria.runtime.memory import is_out_of_memory
from ocria.runtime.options import EngineOptions
from ocria.runtime.request import Limits, Request
from ocria.runtime.sampling import Sampling
from ocria.spec.source import Drafts

OUT_OF_MEMORY = "CUDA out of memory"


def fail_at(engine, name, call, error, before=lambda: None):
    """The call with this number of a method of the worker raises, from inside."""
    inner, calls = getattr(engine.worker, name), [0]

    def failing(*arguments):
        calls[0] += 1
        if calls[0] == call:
            before()
            raise error
        return inner(*arguments)

    setattr(engine.worker, name, failing)


@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_of_no_tokens_is_refused(limit):
    """Such a request would never get a token, and so never end."""
    with pytest.raises(UsageError, match="at least 1"):
        Limits(max_tokens=limit)


@pytest.mark.parametrize("token", [-1, 272, 1 << 70])
def test_a_stop_token_outside_the_vocabulary_is_refused(loaded, make_request, token):
    engine = Engine(loaded, EngineOptions(max_batch=2))
    engine.submit(make_request("good", max_tokens=3))
    with pytest.raises(InputError, match="not in the vocabulary of 272"):
        engine.submit(make_request("bad", stop_ids=(token,)))
    engine.check_integrity()
    assert [e.result.status for _ in range(9) for e in engine.step() if e.result] in (["ok"], ["truncated"])


@pytest.mark.parametrize("setting", [{"temperature": 1e-38}, {"top_k": 1 << 63}])
def test_sampling_that_no_kernel_can_do_is_refused(setting):
    with pytest.raises(UsageError, match="must be"):
        Sampling(**setting)


def test_the_coldest_sampling_is_greedy(loaded, make_request):
    request = make_request(0, max_tokens=12)
    (wanted,) = Engine(loaded).run([request])
    cold = Request(0, request.prompt, (), request.limits, Sampling(temperature=1e-6))
    assert Engine(loaded).run([cold])[0].tokens == wanted.tokens


def test_a_caller_that_leaves_at_the_first_refusal_leaves_nothing_behind(loaded, make_request):
    engine = Engine(loaded, EngineOptions(max_batch=2))

    def leave(emission):
        raise KeyError("callback")

    with pytest.raises(KeyError, match="callback"):
        engine.run([make_request("good"), Request("empty", [])], leave)
    gc.collect()
    engine.check_integrity()
    assert engine.idle
    assert len(engine.run([make_request("good", max_tokens=3)])) == 1


def test_a_run_leaves_a_request_of_the_same_name_alone(loaded, make_request):
    """It belongs to somebody else."""
    engine = Engine(loaded, EngineOptions(max_batch=2))
    request = make_request(1, max_tokens=9)
    (wanted,) = Engine(loaded).run([request])
    engine.submit(request)
    refused, other = engine.run([make_request(1), make_request(2, max_tokens=3)])
    assert "already there" in str(refused.error)
    assert other.error is None
    results = []
    while not engine.idle:
        results += [emission.result for emission in engine.step() if emission.result is not None]
    (result,) = results
    assert (result.id, result.tokens, result.text) == (1, wanted.tokens, wanted.text)


def test_a_loop_by_hand_beside_a_run_takes_nothing_from_it(loaded, make_request):
    engine = Engine(loaded, EngineOptions(max_batch=3, admit_group=1))
    engine.submit(make_request("by hand", max_tokens=40))
    requests = [make_request(i, max_tokens=9) for i in range(4)]
    expected = {request.id: Engine(loaded).run([request])[0].text for request in requests}
    texts, by_hand, stream = {}, [], engine.stream(requests)
    for emission in stream:
        texts[emission.id] = texts.get(emission.id, "") + emission.text
        by_hand += engine.step()
    while not engine.idle:
        by_hand += engine.step()
    assert texts == expected
    assert {emission.id for emission in by_hand} == {"by hand"}
    assert sum(emission.result is not None for emission in by_hand) == 1


def test_a_run_whose_requests_another_thread_lost_ends(loaded, make_request):
    engine = Engine(loaded, EngineOptions(max_batch=2))
    fail_at(engine, "launch", 2, ArithmeticError("broken"))
    stream = engine.stream([make_request(0, max_tokens=30)])
    next(stream)
    caught = []

    def other():
        try:
            while True:
                engine.step()
        except ArithmeticError as error:
            caught.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(60)
    assert caught
    with pytest.raises(EngineError, match="another thread"):
        list(stream)
    engine.check_integrity()
    assert engine.idle


@pytest.mark.parametrize("inside", ["prefill", "step"])
def test_out_of_memory_gives_the_old_state_up_first(loaded, make_request, monkeypatch, inside):
    """Half of the state does not fit beside all of it. The frames of the failed pass hold the state too."""
    engine = Engine(loaded, EngineOptions(max_batch=4))
    network, states, left = loaded.network, [], []
    passed = "tapped" if inside == "step" else "remember"
    through, allocate = getattr(network, passed), DecoderState.allocate

    def failing(hidden, window, state, taps):
        if len(states) == 1:
            raise torch.OutOfMemoryError(OUT_OF_MEMORY)
        return through(hidden, window, state, taps)

    def watched(config, slots, *sizes):
        if "meta" in sizes:
            return allocate(config, slots, *sizes)
        left.append([reference() for reference in states].count(None))
        state = allocate(config, slots, *sizes)
        states.append(weakref.ref(state.keys[0]))
        return state

    monkeypatch.setattr(network, passed, failing, raising=False)
    monkeypatch.setattr(DecoderState, "allocate", watched)
    results = engine.run([make_request(i, prompt_len=4, max_tokens=5) for i in range(6)])
    assert all(result.error is None for result in results)
    assert engine.worker.plan.slots == 2
    assert left == [0, 1], "the old state was there when the new one was allocated"


@pytest.mark.parametrize("failures", [1, 2])
@pytest.mark.parametrize("error", [torch.OutOfMemoryError(OUT_OF_MEMORY), KeyboardInterrupt()], ids=["memory", "key"])
def test_an_engine_works_after_its_state_could_not_be_allocated(loaded, make_request, monkeypatch, failures, error):
    batch = 1 if failures == 1 else 4  # with more than one slot the first failure is made up for
    engine = Engine(loaded, EngineOptions(max_batch=batch))
    allocate, calls = DecoderState.allocate, [0]

    def failing(config, slots, *sizes):
        if "meta" not in sizes:
            calls[0] += 1
            if calls[0] <= failures:
                raise error
        return allocate(config, slots, *sizes)

    monkeypatch.setattr(DecoderState, "allocate", failing)
    requests = [make_request(i, max_tokens=4) for i in range(3)]
    with pytest.raises(type(error)):
        engine.run(requests)
    engine.check_integrity()
    if failures == 2 and isinstance(error, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            engine.run(requests)
    assert engine.step() == []
    assert all(result.error is None for result in engine.run(requests))
    engine.check_integrity()


def test_a_large_request_after_out_of_memory_gets_its_one_slot(loaded, make_request):
    """The batch was halved; where the plan has but one slot there is nothing to halve."""
    room = Engine(loaded, EngineOptions(max_batch=1)).budget._plan(1, 2048).total
    engine = Engine(loaded, EngineOptions(max_batch=8, memory_bytes=room))
    fail_at(engine, "launch", 2, torch.OutOfMemoryError(OUT_OF_MEMORY))
    engine.run([make_request(i, max_tokens=4) for i in range(3)])
    assert engine._shrunk
    assert engine.budget.plan(2000).slots == 1
    (result,) = engine.run([make_request("large", prompt_len=1995, max_tokens=3)])
    assert result.error is None


def test_a_chosen_image_placeholder_is_a_token_like_others_after_a_restart(loaded, make_request):
    engine = Engine(loaded, EngineOptions(max_batch=2))

    def choose():
        for sequence in engine._scheduler.running.values():
            sequence.tokens[-1] = IMAGE_PAD

    fail_at(engine, "launch", 4, torch.OutOfMemoryError(OUT_OF_MEMORY), choose)
    requests = [make_request(i, prompt_len=5, image=(2, 3), max_tokens=30) for i in range(2)]
    for request, result in zip(requests, engine.run(requests), strict=True):
        assert result.error is None
        at = result.tokens.index(IMAGE_PAD)
        # Forced into the prompt of another engine behind a text, the same tokens follow.
        again = Engine(loaded)
        again.submit(request)
        (sequence,) = again._scheduler.waiting
        sequence.tokens = list(result.tokens[: at + 1])
        rest = []
        while not again.idle:
            rest += [emission.result for emission in again.step() if emission.result is not None]
        assert rest[0].tokens == result.tokens


@pytest.mark.parametrize(
    "message",
    ["CUDA error: out of memory\nCompile", "Triton Error [CUDA]: out of memory", "CUBLAS_STATUS_ALLOC_FAILED when"],
)
def test_memory_that_runs_out_below_torch_is_recognised(message):
    assert is_out_of_memory(RuntimeError(message))
    assert not is_out_of_memory(RuntimeError("CUDA error: an illegal memory access was encountered"))


def test_engines_leave_no_weights_behind(private):
    """A second engine on a network packs nothing again, and a network that is gone is gone for good."""
    gc.collect()
    before = len(Packed._all)
    model = private()
    Engine(model)
    packed = len(Packed._all)
    if packed == before:
        pytest.skip("oneDNN packs nothing on this machine")
    Engine(model)
    assert len(Packed._all) == packed
    del model
    gc.collect()
    assert len(Packed._all) == before


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name in ("cuda", "cuda:0", "cuda:1", "cpu"):
        check_device(torch.device(name))
    with pytest.raises(EngineError, match="no device cuda:2, only cuda:0 to cuda:1"):
        check_device(torch.device("cuda:2"))


def test_every_step_runs_on_the_device_of_the_network(loaded, make_request):
    """Triton launches, streams and graphs go to whatever device is current."""
    engine = Engine(loaded)
    inside, launches = [0], []

    class Guard:
        def __enter__(self):
            inside[0] += 1

        def __exit__(self, *error):
            inside[0] -= 1

    engine._on_device = Guard()
    for name in ("allocate", "admit", "prefill", "enter", "launch"):
        inner = getattr(engine.worker, name)
        setattr(engine.worker, name, lambda *a, inner=inner: (launches.append(inside[0]), inner(*a))[1])
    engine.run([make_request(0, prompt_len=4, max_tokens=3)])
    assert len(launches) > 5
    assert set(launches) == {1}
    assert inside == [0]


def closed():
    image = Image.new("L", (32, 32))
    image.close()
    return image, lambda: None


def shrunk():
    image = SimpleNamespace(width=64, height=64, mode="L")
    return image, lambda: vars(image).update(width=32)


def changed():
    """A picture whose owner puts another size into it while it waits."""
    holder = np.zeros((64, 64), np.uint8)
    return holder, lambda: setattr(holder, "shape", (32, 128))


@pytest.mark.parametrize("make", [closed, shrunk, changed])
def test_an_image_that_cannot_be_read_any_more_fails_its_own_request_only(loaded, make_request, make):
    engine = Engine(loaded, EngineOptions(max_batch=3))
    image, spoil = make()
    good = make_request("good", image=(1, 2), max_tokens=4)
    (wanted,) = Engine(loaded).run([good])
    engine.submit(good)
    engine.submit(Request("bad", [VISION_START, IMAGE_PAD, VISION_END, 5], [image]))
    spoil()
    results = {}
    while not engine.idle:
        results |= {emission.id: emission.result for emission in engine.step() if emission.result is not None}
    assert results["good"].tokens == wanted.tokens
    assert "image 1 cannot be read" in str(results["bad"].error)
    engine.check_integrity()


def test_memory_that_runs_out_for_an_image_is_no_fault_of_the_image(loaded, make_request, monkeypatch):
    calls = [0]
    preprocess = prefill.preprocess

    def failing(*arguments, **named):
        calls[0] += 1
        if calls[0] == 1:
            raise MemoryError
        return preprocess(*arguments, **named)

    monkeypatch.setattr(prefill, "preprocess", failing)
    engine = Engine(loaded, EngineOptions(max_batch=2))
    (result,) = engine.run([make_request(0, image=(1, 2), max_tokens=4)])
    assert result.error is None
    assert engine._shrunk


class Stubborn(Scripted):
    """Proposes the same for every slot that runs: `tokens`, and that there are `count` of them."""

    def __init__(self, tokens, count):
        self.tokens, self.count = torch.tensor(tokens), count

    def propose(self, seen):
        return Drafts(self.tokens.expand(len(seen.slots), -1), torch.full_like(seen.slots, self.count))


@pytest.mark.parametrize(
    ("tokens", "count"),
    [([-1, -1, -1], 3), ([272, 1 << 40, 5], 3), ([IM_END, IM_END, 3], 3), ([1, 2, 3], -1), ([1, 2, 3], 1 << 40)],
    ids=["sentinels", "outside the vocabulary", "stop tokens", "fewer than none", "more than there is room for"],
)
def test_a_drafter_may_propose_anything(loaded, make_request, tokens, count):
    requests = [make_request(i, prompt_len=3, max_tokens=2 + 3 * i) for i in range(5)]
    expected = [Engine(loaded).run([request])[0] for request in requests]
    engine = Engine(loaded, EngineOptions(max_batch=3, draft_rows=4), drafter=chain(4, Stubborn(tokens, count)))
    for request in requests:
        engine.submit(request)
    results = {}
    for _ in range(200):  # a slot without a row to compute would wait for ever
        results |= {emission.id: emission.result for emission in engine.step() if emission.result is not None}
    assert engine.idle
    for wanted in expected:
        assert (results[wanted.id].tokens, results[wanted.id].text) == (wanted.tokens, wanted.text)
