"""What became of drafts is counted once and told alike: by the events of a request, by its result, by the engine."""

import pytest
from scripted import Oracle, chain, some_wrong
from small_model import IM_END

from ocria.events import EngineTick, TokensAccepted
from ocria.runtime.acceptance import Acceptance
from ocria.runtime.engine import Engine
from ocria.runtime.options import EngineOptions


@pytest.mark.parametrize("overlap", [False, True])
def test_events_results_and_metrics_agree(loaded, make_request, rng, overlap):
    requests = [make_request(i, prompt_len=int(rng.integers(1, 9)), max_tokens=24) for i in range(5)]
    plain = Engine(loaded, EngineOptions(draft="none")).run(requests)
    truth = {r.id: [*r.tokens, *[IM_END] * (r.finish_reason == "stop")] for r in plain}
    oracle = Oracle(truth, some_wrong, rng)
    options = EngineOptions(draft_rows=5, overlap=overlap, max_batch=3, stream_interval_s=0.0, tick_interval_s=0.0)
    oracle.engine = engine = Engine(loaded, options, drafter=chain(5, oracle))
    told = {request.id: Acceptance() for request in requests}
    tokens, ticks = dict.fromkeys(told, 0), []

    def listen(item):
        if isinstance(item, EngineTick):
            ticks.append(item)
            return
        for event in item.events:
            if isinstance(event, TokensAccepted):
                tokens[item.id] += event.tokens
                if event.acceptance is None:
                    assert (event.drafted, event.accepted) == (0, 0)
                else:
                    assert (event.drafted, event.accepted) == (event.acceptance.drafted, event.acceptance.accepted)
                    told[item.id] += event.acceptance

    results = engine.run(requests, listen)
    for result in results:
        assert result.acceptance.drafted == told[result.id].drafted
        assert result.acceptance.of("scripted") == told[result.id].of("scripted")
        assert result.acceptance.committed >= tokens[result.id] == len(truth[result.id])
        assert len(result.acceptance.verified_at()) <= 4
    assert sum((result.acceptance for result in results), Acceptance()) == engine.metrics.acceptance
    assert 0 < engine.metrics.acceptance.accepted < engine.metrics.acceptance.drafted
    steps = [tick.acceptance.steps for tick in ticks if tick.acceptance is not None]
    assert steps == sorted(steps), "a tick keeps what it told"
    assert engine.tick().acceptance == engine.metrics.acceptance
    assert engine.tick().accept_length == engine.metrics.acceptance.accept_length > 1


def test_plain_decoding_tells_of_no_drafts(loaded, make_request):
    engine = Engine(loaded, EngineOptions(draft="none"))
    events = []
    (result,) = engine.run([make_request(0, max_tokens=5)], lambda item: events.extend(getattr(item, "events", ())))
    assert not result.acceptance
    assert result.alarm_at is None
    assert all(event.acceptance is None for event in events if isinstance(event, TokensAccepted))
    assert engine.tick().acceptance is None
