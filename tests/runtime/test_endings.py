"""How requests end: every status, exactly once, with the slot back and the text whole."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from small_model import IM_END

from ocria.errors import EngineError, InputError, TimeoutExceeded, UsageError
from ocria.model.network import Qwen35
from ocria.runtime.engine import Engine
from ocria.runtime.guard import Bounds
from ocria.runtime.options import EngineOptions
from ocria.runtime.request import FINISH_REASONS, STATUSES, Emission, Limits, Request


@pytest.fixture(scope="module")
def loaded(loaded):
    """The small checkpoint without a voice for its stop token, so that only what a test does ends a request."""
    network = Qwen35(loaded.config).eval().requires_grad_(False)
    network.load_state_dict(loaded.network.state_dict())
    network.model.language_model.embed_tokens.weight[IM_END] = 0.0
    return SimpleNamespace(**{**vars(loaded), "network": network})


class Script:
    """A network that says what it is told: after a prompt ending with token p, the tokens of `lines[p]`."""

    def __init__(self, private, lines):
        self.private, self.lines = private, lines

    def engine(self, options=None, clock=None, **changes):
        loaded = self.private(**changes)
        network = loaded.network
        vocab = network.config.text.vocab_size
        follow = torch.zeros(vocab, vocab)
        for line in self.lines:
            for token, after in itertools.pairwise(line):
                follow[token, after] = 50.0
        # hidden = one-hot of the last token, so logits = a row of `follow`
        width = network.config.text.hidden_size
        network.embed = lambda ids: torch.cat([ids[..., None].float(), ids.new_zeros(*ids.shape, width - 1)], dim=-1)
        network.tapped = lambda hidden, window, state, taps: (hidden, None)
        network.logits = lambda hidden: follow[hidden[..., 0].long()]
        return Engine(loaded, options, **({} if clock is None else {"clock": clock}))


def chain(text, start=0, stop=258):
    """A line of distinct bytes from `start` to the stop token."""
    return [start, *text.encode(), stop]


class Clock:
    """Time that passes when told."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def run_one(engine, request, **kwargs):
    (result,) = engine.run([request], **kwargs)
    engine.check_integrity()
    assert engine.idle
    assert result.status in STATUSES
    assert result.finish_reason in FINISH_REASONS
    return result


def test_stop(private):
    result = run_one(Script(private, [chain("abc")]).engine(), Request("r", [0]))
    assert (result.status, result.finish_reason, result.text) == ("ok", "stop", "abc")
    assert result.tokens == (97, 98, 99)
    assert (result.tokens_in, result.tokens_out) == (1, 3)
    assert result.confidence == pytest.approx(1.0)


def test_stop_ids_of_a_request(private):
    result = run_one(Script(private, [chain("abc")]).engine(), Request("r", [0], limits=Limits(stop_ids=(99,))))
    assert (result.status, result.text) == ("ok", "ab")


@pytest.mark.parametrize("stops", [("cd",), ("<|im_end|>", "cd"), ("zz", "cde", "bcd")])
def test_stop_texts_of_the_profile(loaded, private, stops):
    profile = loaded.profile.override(stop=stops)
    engine = Script(private, [chain("abcdef")]).engine(EngineOptions(stream_interval_s=0.0), profile=profile)
    pieces = []
    result = run_one(engine, Request("r", [0]), on_event=pieces.append)
    expected = "a" if "bcd" in stops else "ab"
    assert (result.status, result.finish_reason, result.text) == ("ok", "stop", expected)
    assert "".join(piece.text for piece in pieces if isinstance(piece, Emission)) == expected


def test_length(private):
    result = run_one(Script(private, [chain("abcdef")]).engine(), Request("r", [0], limits=Limits(max_tokens=4)))
    assert (result.status, result.finish_reason, result.text) == ("truncated", "length", "abcd")


def test_length_follows_from_the_image(loaded, make_request):
    profile = loaded.profile.override(max_output_tokens=40, max_output_per_image_token=1.5)
    engine = Engine(SimpleNamespace(**{**vars(loaded), "profile": profile}))
    engine.submit(make_request("small", image=(1, 4)))
    engine.submit(make_request("large", image=(4, 10)))
    assert engine._live["small"].bounds.max_tokens == 6
    assert engine._live["large"].bounds.max_tokens == 40


def test_loop(private):
    engine = Script(private, [[0, 97, 98, 99, 98]]).engine()
    result = run_one(engine, Request("r", [0], limits=Limits(max_tokens=64)))
    assert (result.status, result.finish_reason) == ("degenerate", "degenerate")
    assert result.text.startswith("abcb")
    assert result.text[: result.loop_start] == "abc"
    assert result.tokens_out < 64


def test_a_loop_that_the_length_limit_cuts_is_rolled_back_too(private):
    """The answer begins well and has no room left for all the repetition that would be seen as such at once."""
    engine = Script(private, [[0, *b"abcdefghijklmnopqrst", 46, 46]]).engine()
    result = run_one(engine, Request("r", [0], limits=Limits(max_tokens=40)))
    assert (result.status, result.finish_reason, result.tokens_out) == ("degenerate", "degenerate", 40)
    assert result.text[: result.loop_start] == "abcdefghijklmnopqrst."


def test_repetition_that_the_image_can_hold_is_no_loop(private, rng):
    """Dots across an image of 20 tokens: 60 of them, then the end."""
    engine = Script(private, []).engine()
    image = rng.integers(0, 256, (16, 16 * 20), dtype=np.uint8)
    engine.submit(Request("r", [259, 261, 260], [image], Limits(max_tokens=64)))
    bounds = engine._live["r"].bounds
    assert bounds.loop_tokens == 120
    assert isinstance(bounds, Bounds)
    engine.cancel("r")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_non_finite(private, make_request, value):
    engine = Engine(private(), EngineOptions(max_batch=2))
    network = engine.network
    logits, count = network.logits, [0]

    def broken(hidden):
        count[0] += 1
        out = logits(hidden)
        if count[0] == 4:
            out[0, 0, 7] = value
        return out

    network.logits = broken
    result = run_one(engine, make_request("r", max_tokens=20))
    assert (result.status, result.finish_reason) == ("failed", "failed")
    assert result.tokens_out == 3
    assert isinstance(result.error, EngineError)
    assert "3 tokens" in str(result.error)


def test_a_failed_request_does_not_spoil_the_next_in_its_slot(loaded, private, make_request):
    engine = Engine(private(), EngineOptions(max_batch=1))
    network = engine.network
    embed = network.embed
    network.embed = lambda ids: embed(ids) * float("nan")
    assert run_one(engine, make_request("bad", prompt_len=30, max_tokens=20)).status == "failed"
    network.embed = embed
    good = make_request("good", max_tokens=10)
    assert run_one(engine, good).tokens == Engine(loaded).run([good])[0].tokens


def test_timeout(loaded, make_request):
    clock = Clock()
    engine = Engine(loaded, EngineOptions(max_batch=1), clock=clock)
    engine.submit(make_request("runs", max_tokens=60, timeout_s=5.0))
    engine.submit(make_request("waits", max_tokens=60, timeout_s=3.0))
    results = {}
    while not engine.idle:
        clock.now += 1.0
        results |= {e.id: e.result for e in engine.step() if e.result}
    assert {name: result.status for name, result in results.items()} == {"runs": "timeout", "waits": "timeout"}
    assert 0 < results["runs"].tokens_out < 60
    assert results["waits"].tokens_out == 0
    assert results["waits"].confidence is None
    assert all(isinstance(result.error, TimeoutExceeded) for result in results.values())
    assert f"after 5 s and {results['runs'].tokens_out} tokens" in str(results["runs"].error)
    assert "after 3 s and 0 tokens" in str(results["waits"].error)
    assert "--page-timeout" in results["waits"].error.cure
    engine.check_integrity()


@pytest.mark.parametrize("steps", range(6))
def test_cancel_in_every_phase(loaded, make_request, steps):
    engine = Engine(loaded, EngineOptions(max_batch=2, prefill_rows=4))
    for name in ("a", "b", "c"):
        engine.submit(make_request(name, prompt_len=9, max_tokens=8))
    seen = [emission for _ in range(steps) for emission in engine.step()]
    for name in ("a", "c"):
        assert engine.cancel(name)
        assert not engine.cancel(name)
    engine.check_integrity()
    while not engine.idle:
        seen += engine.step()
    statuses = {emission.id: emission.result.status for emission in seen if emission.result}
    assert statuses == {"a": "cancelled", "b": "truncated", "c": "cancelled"}
    engine.check_integrity()


def test_cancel_from_a_callback(loaded, make_request):
    engine = Engine(loaded, EngineOptions(stream_interval_s=0.0))

    def stop_the_other(event):
        if isinstance(event, Emission) and event.id == "a":
            engine.cancel("b")

    requests = [make_request("a", max_tokens=8), make_request("b", max_tokens=60)]
    assert [r.status for r in engine.run(requests, stop_the_other)][1] == "cancelled"
    engine.check_integrity()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupt_leaves_the_engine_usable(loaded, make_request, error):
    requests = [make_request(i, max_tokens=9) for i in range(5)]
    expected = [result.tokens for result in Engine(loaded).run(requests)]
    engine = Engine(loaded, EngineOptions(max_batch=2))

    def explode(event):
        raise error

    with pytest.raises(error):
        engine.run(requests, explode)
    assert engine.idle
    engine.check_integrity()
    # in the middle of a pass
    network, calls = engine.network, [0]
    tapped = network.tapped

    def interrupted(*args):
        calls[0] += 1
        if calls[0] == 3:
            raise error
        return tapped(*args)

    network.tapped = interrupted
    try:
        with pytest.raises(error):
            engine.run(requests)
    finally:
        del network.tapped
    assert engine.idle
    engine.check_integrity()
    assert [result.tokens for result in engine.run(requests)] == expected


def test_leaving_a_stream_early_ends_its_requests(loaded, make_request):
    engine = Engine(loaded)
    stream = engine.stream([make_request(i, max_tokens=20) for i in range(3)])
    next(stream)
    with pytest.raises(UsageError, match="another run"):
        engine.run([make_request("inner")])
    stream.close()
    assert engine.idle
    engine.check_integrity()
    assert run_one(engine, make_request(0, max_tokens=2)).tokens_out == 2


def test_streamed_text_is_the_text(private):
    """Characters of two, three and four bytes, each byte a token, arrive whole; a broken one becomes U+FFFD."""
    text = "aé€😀z"
    line = [0]
    for byte in text.encode():
        line.append(byte)
    assert len(set(line)) == len(line), "the script needs distinct bytes"
    engine = Script(private, [[*line, 258]]).engine(EngineOptions(stream_interval_s=0.0))
    pieces = []
    result = run_one(engine, Request("r", [0]), on_event=pieces.append)
    deltas = [piece.text for piece in pieces if isinstance(piece, Emission)]
    assert result.text == text == "".join(deltas)
    assert [delta for delta in deltas if delta] == list(text)
    cut = run_one(engine, Request("r", [0], limits=Limits(max_tokens=len("aé€".encode()) - 1)))
    assert cut.text == "aé\ufffd"


def test_the_interval_bounds_how_often_text_is_sent(loaded, make_request):
    clock = Clock()
    engine = Engine(loaded, EngineOptions(stream_interval_s=1.0), clock=clock)
    engine.submit(make_request("r", max_tokens=40))
    sent = 0
    while not engine.idle:
        clock.now += 0.1
        sent += len(engine.step())
    assert sent <= 7


def test_too_large_is_refused_at_submit(loaded, make_request, rng):
    engine = Engine(loaded, EngineOptions(max_len=64))
    with pytest.raises(InputError, match="64 fit"):
        engine.submit(make_request("long", prompt_len=64))
    with pytest.raises(InputError, match="60 output tokens"):
        engine.submit(make_request("talkative", prompt_len=10, max_tokens=60))
    with pytest.raises(InputError, match="image"):
        engine.submit(make_request("image", image=(8, 9)))
    assert engine.idle
    # what was not asked for shrinks to the room there is
    assert run_one(engine, make_request("fits", prompt_len=60)).tokens_out <= 4
    refused, fine = engine.run([make_request("long", prompt_len=64), make_request("short", prompt_len=3, max_tokens=2)])
    assert (refused.status, refused.finish_reason, fine.tokens_out) == ("failed", "failed", 2)
    assert "too large" in str(refused.error)


def test_memory_bounds_the_slots(loaded, make_request):
    plan = Engine(loaded, EngineOptions(max_batch=3)).budget.plan(128)
    engine = Engine(loaded, EngineOptions(max_batch=32, memory_bytes=plan.total + 5))
    requests = [make_request(i, max_tokens=6) for i in range(7)]
    ticks = []
    results = engine.run(requests, lambda event: ticks.append(engine.tick()))
    assert [r.tokens for r in results] == [r.tokens for r in Engine(loaded).run(requests)]
    assert max(tick.running for tick in ticks) == 3
    assert ticks[-1].state_bytes == plan.bytes
    tight = EngineOptions(memory_bytes=plan.total - plan.bytes + plan.bytes // 4)
    with pytest.raises(InputError, match="too large"):
        Engine(loaded, tight).submit(make_request("r", prompt_len=140))


@pytest.mark.parametrize(
    ("prompt", "images"),
    [
        ([], []),
        ([1, 272], []),
        ([1, -1], []),
        ([1, 261], []),
        ([1], [np.zeros((16, 16), np.uint8)]),
        ([261], ["image.png"]),
        ([261], [np.zeros((0, 5), np.uint8)]),
        ([261], [np.zeros((16, 8000), np.uint8)]),
    ],
)
def test_what_cannot_run_is_refused(loaded, prompt, images):
    engine = Engine(loaded)
    with pytest.raises(InputError):
        engine.submit(Request("r", prompt, images))
    assert engine.idle
    assert engine.run([Request("r", prompt, images)])[0].finish_reason == "failed"


def test_an_unreadable_image_fails_alone(loaded, make_request):
    good = make_request("good", image=(1, 3), max_tokens=5)
    bad = Request("bad", [259, 261, 260], [np.zeros((16, 32), np.float32)])
    engine = Engine(loaded)
    results = engine.run([bad, good])
    assert (results[0].status, results[0].finish_reason) == ("failed", "failed")
    assert "float32" in str(results[0].error)
    assert results[1].tokens == Engine(loaded).run([good])[0].tokens
    engine.check_integrity()


def test_ids_are_unique(loaded, make_request):
    engine = Engine(loaded)
    engine.submit(make_request("r"))
    with pytest.raises(UsageError, match="'r'"):
        engine.submit(make_request("r"))
    with pytest.raises(UsageError, match="same id"):
        engine.run([make_request("x"), make_request("x")])
    engine.cancel("r")


def test_submitted_beside_a_run(loaded, make_request):
    engine = Engine(loaded)
    engine.submit(make_request("own", max_tokens=3))
    engine.run([make_request("other", max_tokens=9)])
    emissions = engine.step()
    assert [e.id for e in emissions if e.result] == ["own"]
    assert engine.idle


def test_events_and_metrics(loaded, make_request):
    from ocria.events import EngineTick

    engine = Engine(loaded, EngineOptions(max_batch=2, tick_interval_s=0.0))
    events = []
    results = engine.run([make_request(i, prompt_len=5, max_tokens=6) for i in range(4)], events.append)
    ticks = [event for event in events if isinstance(event, EngineTick)]
    assert ticks
    assert max(tick.running for tick in ticks) <= 2
    metrics = engine.metrics
    chosen = sum(r.tokens_out + (r.finish_reason == "stop") for r in results)
    assert metrics.emitted == chosen <= metrics.acceptance.committed
    assert (metrics.acceptance.drafted, metrics.acceptance.accepted) == (0, 0)
    assert metrics.finished == 4
    assert ticks[-1].decode_tokens_per_s > 0
    assert ticks[-1].state_bytes > 0
    assert ticks[-1].accept_length is None
