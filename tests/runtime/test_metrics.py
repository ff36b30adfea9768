"""What the counters count: nothing twice, drafts and accepted drafts apart, idle time never."""

import pytest

from ocria.errors import EngineError
from ocria.runtime.acceptance import Acceptance
from ocria.runtime.memory import MemoryPlan
from ocria.runtime.metrics import WINDOW_S, Metrics
from ocria.runtime.traffic import Traffic


class Clock:
    def __init__(self):
        self.now = 50.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def accepted(*pairs):
    """What became of the drafts of some requests in one step: (drafted, accepted) of each."""
    counted = Acceptance()
    for drafted, held in pairs:
        counted.add("vision" if drafted else None, drafted, held)
    return counted


def random_step(rng, drafts):
    """The counts of one step over some requests."""
    pairs = [(n, int(rng.integers(0, n + 1))) for n in rng.integers(0, drafts + 1, int(rng.integers(1, 9))).tolist()]
    emitted = [int(rng.integers(1, held + 2)) for _, held in pairs]  # cut after a stop token or at the limit
    return {"acceptance": accepted(*pairs), "emitted": sum(emitted)}


def test_totals_are_the_sums_of_the_steps(rng, clock):
    metrics = Metrics(clock=clock)
    steps = [random_step(rng, 7) for _ in range(200)]
    for step in steps:
        metrics.step(**step, seconds=0.25)
    assert metrics.emitted == sum(step["emitted"] for step in steps)
    for name in ("drafted", "accepted", "steps", "committed"):
        assert getattr(metrics.acceptance, name) == sum(getattr(step["acceptance"], name) for step in steps)
    assert metrics.emitted <= metrics.acceptance.committed
    assert metrics.decode_steps == 200
    assert metrics.decode_tokens_per_s == pytest.approx(metrics.emitted / 50.0)


def test_an_answer_cut_at_its_stop_token_accepted_more_than_it_emitted(clock):
    metrics = Metrics(clock=clock)
    metrics.step(acceptance=accepted((7, 5)), emitted=2, seconds=0.1)
    assert (metrics.acceptance.accepted, metrics.emitted, metrics.acceptance.committed) == (5, 2, 6)


@pytest.mark.parametrize(
    ("pairs", "emitted"), [([(3, 1), (0, 0)], 4), ([(0, 0)], 2), ([(0, 0)], -1), ([], 1)]
)
def test_counts_that_cannot_be_are_refused_and_not_counted(clock, pairs, emitted):
    metrics = Metrics(clock=clock)
    with pytest.raises(EngineError, match="cannot emit"):
        metrics.step(acceptance=accepted(*pairs), emitted=emitted, seconds=0.1)
    assert (metrics.decode_steps, metrics.emitted, metrics.acceptance.steps) == (0, 0, 0)


def test_the_encoder_is_part_of_the_prefill_and_not_counted_beside_it(clock):
    metrics = Metrics(clock=clock)
    metrics.prefill(rows=300, seconds=2.0, encoder_seconds=1.5)
    metrics.prefill(rows=100, seconds=2.0)
    assert metrics.prefilled == 400
    assert (metrics.prefill_seconds, metrics.encoder_seconds) == (4.0, 1.5)
    assert metrics.prefill_tokens_per_s == 100.0
    assert metrics.decode_steps == 0


def test_last_second_and_whole_run(clock):
    metrics = Metrics(clock=clock)
    for tokens in (10, 10, 10, 40):  # the last one fast, long after the others
        clock.now += 0.2 if tokens == 10 else 100.0
        metrics.step(acceptance=accepted(*[(0, 0)] * tokens), emitted=tokens, seconds=0.2)
    tick = metrics.tick(1, 0)
    assert tick.decode_tokens_per_last_s == pytest.approx(200.0)
    assert tick.decode_tokens_per_s == pytest.approx(70 / 0.8), "the pause is no decoding"
    clock.now += WINDOW_S
    assert metrics.tick(0, 0).decode_tokens_per_last_s == 0.0
    assert metrics.tick(0, 0).decode_tokens_per_s == tick.decode_tokens_per_s
    assert metrics.tick(0, 0).prefill_tokens_per_last_s == 0.0
    for rows in (10, 90):
        clock.now += 0.2
        metrics.prefill(rows=rows, seconds=0.1)
    assert metrics.tick(0, 0).prefill_tokens_per_last_s == pytest.approx(500.0)
    clock.now += WINDOW_S
    assert metrics.tick(0, 0).prefill_tokens_per_last_s == 0.0


def test_the_window_forgets(clock):
    metrics = Metrics(clock=clock)
    for _ in range(10_000):
        clock.now += 0.001
        metrics.step(acceptance=accepted(*[(0, 0)] * 1), emitted=1, seconds=0.001)
    assert len(metrics._decode.last) <= WINDOW_S / 0.001 + 1
    assert metrics.emitted == 10_000


def test_bytes_moved(clock):
    """Two steps of 3 requests in 10 ms each: 1000 + 3 * 50 + 40 rows * 2 bytes a step."""
    metrics = Metrics(Traffic(step=1000, request=50, kv_row=2, limit=2e6), clock)
    assert metrics.tick(0, 0).bytes_per_s is None
    for _ in range(2):
        metrics.step(acceptance=accepted(*[(0, 0)] * 3), emitted=3, seconds=0.01, kv_rows=40)
    tick = metrics.tick(3, 0)
    assert tick.bytes_per_s == pytest.approx(123_000)
    assert tick.bandwidth_percent == pytest.approx(6.15)
    unlimited = Metrics(Traffic(1000, 50, 2), clock)
    unlimited.step(acceptance=accepted(*[(0, 0)] * 1), emitted=1, seconds=0.1)
    assert unlimited.tick(0, 0).bytes_per_s > 0
    assert unlimited.tick(0, 0).bandwidth_percent is None


def test_what_is_not_known_is_none(clock):
    tick = Metrics(clock=clock).tick(4, 9)
    assert (tick.running, tick.waiting) == (4, 9)
    assert tick.accept_length is tick.state_bytes is tick.device_bytes is tick.bytes_per_s is tick.pages_per_s is None
    tick = Metrics(clock=clock).tick(0, 0, MemoryPlan(1, 1, kv=7, checkpoints=5, weights=1000), 99)
    assert (tick.state_bytes, tick.device_bytes) == (12, 99)
