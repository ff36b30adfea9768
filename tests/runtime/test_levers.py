"""Every lever of the engine gives the answers of plain decoding, one request at a time."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scripted import Oracle, all_wrong, chain, some_wrong
from small_model import CONFIG, IM_END, random_weights
from torch.utils._python_dispatch import TorchDispatchMode

import ocria.runtime.runner as runner
from ocria.model.config import ModelConfig
from ocria.model.network import Qwen35
from ocria.ops.register import force_kernels
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions
from ocria.runtime.rows import StepRows
from ocria.runtime.sampling import Sampling

SPOILS = {"right": None, "some wrong": some_wrong, "all wrong": all_wrong}
needs_interpreter = pytest.mark.skipif(torch.cuda.is_available(), reason="kernels run on the GPU, see test_gpu.py")


def plain(loaded, requests):
    """The answers of plain decoding, each request alone."""
    engine = Engine(loaded, EngineOptions(max_batch=1))
    return {request.id: engine.run([request])[0] for request in requests}


def draw(make_request, rng, count, least=1):
    requests = []
    for i in range(count):
        image = (int(rng.integers(1, 3)), int(rng.integers(1, 5))) if rng.random() < 0.5 else None
        limit = int(rng.integers(least, 28))
        requests.append(make_request(i, prompt_len=int(rng.integers(1, 20)), image=image, max_tokens=limit))
    return requests


def check(results, expected):
    for result in results:
        wanted = expected[result.id]
        assert result.tokens == wanted.tokens
        assert (result.text, result.status, result.finish_reason) == (wanted.text, wanted.status, wanted.finish_reason)
        # Other batches and windows sum in another order: probabilities differ by rounding.
        assert result.confidence == pytest.approx(wanted.confidence, abs=1e-3)


def with_oracle(loaded, options, rows, answers, spoil, rng):
    oracle = Oracle({name: full_answer(result) for name, result in answers.items()}, spoil, rng)
    oracle.engine = Engine(loaded, replace(options, draft_rows=rows), drafter=chain(rows, oracle))
    return oracle.engine


def full_answer(result):
    """The tokens that the model chose, the stop token included."""
    return [*result.tokens, *([IM_END] if result.finish_reason == "stop" else [])]


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("ring", [0, 2, 4, 16, 128])
def test_ring_and_overlap(loaded, make_request, rng, ring, overlap):
    requests = draw(make_request, rng, 14)
    options = EngineOptions(max_batch=4, prefill_rows=int(rng.integers(5, 60)), ring=ring, overlap=overlap)
    engine = Engine(loaded, options)
    check(engine.run(requests), plain(loaded, requests))
    engine.check_integrity()


@pytest.mark.parametrize("spoil", SPOILS)
@pytest.mark.parametrize(("rows", "ring"), [(2, 4), (3, 16), (5, None), (8, 16), (16, 32), (16, 128)])
def test_drafts(loaded, make_request, rng, rows, ring, spoil):
    """Right, partly wrong and wrong drafts of every length in one batch, with stops and limits inside windows."""
    requests = draw(make_request, rng, 12)
    expected = plain(loaded, requests)
    options = EngineOptions(max_batch=5, prefill_rows=17, ring=ring, overlap=bool(rng.integers(0, 2)))
    engine = with_oracle(loaded, options, rows, expected, SPOILS[spoil], rng)
    check(engine.run(requests), expected)
    engine.check_integrity()
    m = engine.metrics.acceptance
    if spoil == "right":
        assert m.accepted == m.drafted > 0
    if spoil == "all wrong":
        assert m.accepted == 0 < m.drafted


@pytest.mark.parametrize("rows", [4, 7])
def test_prompt_lengths_around_the_window(loaded, make_request, rng, rows):
    """A prompt as long as a window is still a prompt."""
    requests = [make_request(n, prompt_len=n, max_tokens=9) for n in range(1, 2 * rows + 1)]
    expected = plain(loaded, requests)
    options = EngineOptions(max_batch=int(rng.integers(2, 9)), prefill_rows=int(rng.integers(1, 2 * rows)))
    check(with_oracle(loaded, options, rows, expected, some_wrong, rng).run(requests), expected)


def test_right_drafts_hold_after_images_as_after_text(loaded, make_request, rng):
    """Rotary positions fall behind the KV rows after an image; a draft at the wrong one would be refused."""
    for image in (None, (2, 5)):
        requests = [make_request(i, image=image, max_tokens=25) for i in range(6)]
        expected = plain(loaded, requests)
        engine = with_oracle(loaded, EngineOptions(max_batch=3), 6, expected, None, rng)
        check(engine.run(requests), expected)
        assert engine.metrics.acceptance.accepted == engine.metrics.acceptance.drafted > 0


@pytest.mark.parametrize("rows", [1, 6])
def test_sampled_answers_do_not_depend_on_batch_or_drafts(loaded, make_request, rng, rows):
    sampling = Sampling(temperature=1.3, top_k=40, top_p=0.95, seed=int(rng.integers(0, 1 << 40)))
    greedy = draw(make_request, rng, 8)
    requests = [replace(request, sampling=sampling) for request in greedy]
    expected, greedy = plain(loaded, requests), plain(loaded, greedy)
    assert any(expected[i].tokens != greedy[i].tokens for i in expected), "sampling had no effect"
    if rows == 1:
        engine = Engine(loaded, EngineOptions(max_batch=4))
    else:
        engine = with_oracle(loaded, EngineOptions(max_batch=4), rows, expected, some_wrong, rng)
    check(engine.run(requests), expected)


@pytest.mark.parametrize("batch", [1, 3, 5, 9, 14])
def test_steps_padded_with_the_dummy(loaded, make_request, rng, monkeypatch, batch):
    """As for captured graphs: every number of rows is padded to a bucket."""
    monkeypatch.setattr(runner.StepRunner, "choose_rows", lambda self, owned: StepRows.bucketed(owned, "cpu"))
    requests = draw(make_request, rng, batch + 4)
    expected = plain(loaded, requests)
    check(Engine(loaded, EngineOptions(max_batch=batch)).run(requests), expected)
    engine = with_oracle(loaded, EngineOptions(max_batch=batch), 4, expected, some_wrong, rng)
    check(engine.run(requests), expected)


@pytest.fixture
def shallow(loaded, seed):
    """The small model with one layer of each kind: the interpreter is slow."""
    text = CONFIG["text_config"] | {"layer_types": ["linear_attention", "full_attention"], "num_hidden_layers": 2}
    config = ModelConfig.from_dict(CONFIG | {"text_config": text})
    network = Qwen35(config).eval().requires_grad_(False)
    random_weights(network, seed)
    return SimpleNamespace(**{**vars(loaded), "network": network, "config": config})


@needs_interpreter
@pytest.mark.parametrize("rows", [1, 3])
def test_the_whole_engine_through_the_kernels(shallow, make_request, rng, rows):
    """Prefill, decoding and verification by the Triton kernels, in the interpreter."""
    requests = [
        make_request(0, prompt_len=5, max_tokens=6),
        make_request(1, prompt_len=1, max_tokens=4),
        make_request(2, image=(1, 2), max_tokens=5),
    ]
    expected = plain(shallow, requests)
    options = EngineOptions(max_batch=3, ring=8, prefill_rows=8)
    engine = with_oracle(shallow, options, rows, expected, some_wrong, rng) if rows > 1 else Engine(shallow, options)
    with force_kernels():
        results = engine.run(requests)
    check(results, expected)


class Count(TorchDispatchMode):
    """Names of the operations that reach the dispatcher."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


@needs_interpreter
def test_one_metadata_launch_a_step(shallow, make_request):
    """All metadata of a step is one operation, and so is deciding what its tokens mean."""
    engine = Engine(shallow, EngineOptions(max_batch=2, ring=8))
    for i in range(2):
        engine.submit(make_request(i, max_tokens=9))
    with force_kernels():
        engine.step()
        launch = engine.worker.launch
        counted = []

        def counting(*arguments):
            with Count() as count:
                launched = launch(*arguments)
            counted.append(count.names)
            return launched

        engine.worker.launch = counting
        engine.step()
    (names,) = counted
    assert sum("ocria.metadata" in name for name in names) == 1
    assert sum("ocria.accept" in name for name in names) == 1
    layers = shallow.config.text.layer_types
    assert sum("ocria.replay" in name for name in names) == layers.count("linear_attention")
    assert sum("ocria.attend" in name for name in names) == layers.count("full_attention")
    first = next(i for i, name in enumerate(names) if "ocria." in name)
    assert "ocria.metadata" in names[first]
    # Before the first layer only: metadata, and the embedding of its ids.
    before = [name for name in names[:first] if "view" not in name and "alias" not in name]
    assert before == [], before


def test_overlap_never_reads_between_launches(loaded, make_request):
    """With a device that takes its time: step n + 1 is launched before step n is read."""
    engine = Engine(loaded, EngineOptions(max_batch=2, overlap=True, admit_group=1))
    log = []

    class Slow:
        def __init__(self, inner):
            self.inner = inner

        def start(self, output):
            number = sum(kind == "launch" for kind, _ in log)
            log.append(("launch", number))
            pending = self.inner.start(output)

            class Way:
                def read(self):
                    log.append(("read", number))
                    return pending.read()

            return Way()

    engine.worker.readback = Slow(engine.worker.readback)
    engine.run([make_request(i, max_tokens=12) for i in range(5)])
    launched = [number for kind, number in log if kind == "launch"]
    assert launched == sorted(launched)
    assert len(launched) > 12
    waits = 0
    for place, (kind, number) in enumerate(log):
        if kind == "read" and ("launch", number + 1) not in log[:place]:
            # Only where there was nothing to launch: everything left ended with that step.
            waits += 1
            assert all(entry[0] == "read" for entry in log[place : place + 1])
    assert waits <= 5
    read = [number for kind, number in log if kind == "read"]
    assert read == list(range(len(read)))
    # A step that was on its way when the host ended the last answer (random weights may loop) is nobody's.
    assert len(launched) - len(read) <= 1


@pytest.mark.parametrize("at", ["prefill", "launch"])
def test_out_of_memory_halves_the_batch_once(loaded, make_request, rng, at):
    requests = draw(make_request, rng, 10, least=8)
    expected = plain(loaded, requests)
    engine = Engine(loaded, EngineOptions(max_batch=4, overlap=bool(rng.integers(0, 2))))
    inner, calls = getattr(engine.worker, at), [0]

    def failing(*arguments):
        calls[0] += 1
        if calls[0] == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return inner(*arguments)

    setattr(engine.worker, at, failing)
    check(engine.run(requests), expected)
    assert engine.worker.plan.slots == 2
    engine.check_integrity()
    calls[0] = 1
    with pytest.raises(torch.OutOfMemoryError):
        engine.run(requests)
    engine.check_integrity()
    setattr(engine.worker, at, inner)
    check(engine.run(requests), expected)


def test_random_arrivals_and_cancels_with_overlap_and_drafts(loaded, make_request, rng):
    requests = draw(make_request, rng, 24)
    expected = plain(loaded, requests)
    options = EngineOptions(max_batch=4, prefill_rows=11, admit_group=int(rng.integers(1, 5)), overlap=True)
    engine = with_oracle(loaded, options, 5, expected, some_wrong, rng)
    waiting = [requests[i] for i in rng.permutation(len(requests))]
    results, cancelled, released = {}, set(), []
    slots = None
    while waiting or not engine.idle:
        for _ in range(int(rng.integers(0, 4))):
            if waiting:
                engine.submit(waiting.pop())
        if rng.random() < 0.3:
            victim = int(rng.integers(0, len(requests)))
            if engine.cancel(victim):
                cancelled.add(victim)
        for emission in engine.step():
            if emission.result is not None:
                assert emission.id not in results, "a request ended twice"
                results[emission.id] = emission.result
        if engine._slots is not slots:
            slots, release = engine._slots, engine._slots.release
            slots.release = lambda slot, owner, release=release: (released.append(owner), release(slot, owner))
        engine.check_integrity()
    assert results.keys() == set(range(len(requests)))
    assert len(released) == len(set(released)), "a slot was released twice for one request"
    for name, result in results.items():
        if name in cancelled:
            assert result.status == "cancelled"
            assert result.tokens == expected[name].tokens[: result.tokens_out]
        else:
            check([result], expected)


def test_a_long_prefill_stalls_the_others_for_one_chunk_at_most(loaded, make_request):
    engine = Engine(loaded, EngineOptions(max_batch=3, prefill_rows=16, admit_group=1))
    for i in range(2):
        engine.submit(make_request(i, prompt_len=3, max_tokens=60))
    engine.step()
    engine.step()
    engine.submit(make_request("long", prompt_len=200, max_tokens=3))
    rows = []
    prefill = engine.worker.prefill
    engine.worker.prefill = lambda chunks: (rows.append(sum(c.count for c in chunks)), prefill(chunks))
    running = [s for s in engine._scheduler.running.values() if s.id in (0, 1)]
    while engine._live["long"].phase != "decode":
        before = [len(s.tokens) for s in running]
        engine.step()
        assert all(len(s.tokens) == n + 1 for s, n in zip(running, before, strict=True) if s.phase == "decode")
    assert len(rows) == 13  # 199 rows in chunks of 16
    assert max(rows) <= 16


def test_nothing_non_finite_spreads_with_a_ring(loaded, make_request, rng):
    """Free slots and the dummy hold NaN; ring, drafts and padding never let it out."""
    requests = draw(make_request, rng, 10)
    expected = plain(loaded, requests)
    engine = with_oracle(loaded, EngineOptions(max_batch=4, prefill_rows=9), 4, expected, some_wrong, rng)
    for request in requests:
        engine.submit(request)
    results = []
    while not engine.idle:
        if engine.worker.plan.slots:
            free = [s for s in range(engine._slots.count + 1) if s == 0 or engine._slots.is_free(s)]
            with torch.inference_mode():
                for tensor in engine.worker.state.tensors():
                    tensor[torch.tensor(free)] = float("nan")
        results += [e.result for e in engine.step() if e.result is not None]
    check(results, expected)
    assert np.isfinite([r.confidence for r in results if r.confidence is not None]).all()
