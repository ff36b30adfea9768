"""Fewer events that say the same: nothing is lost, and nothing moves past what it must not."""

import random

import pytest
from ocria_tui.coalesce import Coalescer
from ocria_tui.messages import DocumentQueued, PausedChanged

from ocria.events import (
    EngineTick,
    Note,
    PageDone,
    PageStarted,
    PrefillDone,
    RequestSubmitted,
    TextDelta,
    TokensAccepted,
)
from ocria.runtime.acceptance import Acceptance


def coalesced(events):
    coalescer = Coalescer()
    for at, event in enumerate(events):
        coalescer.add(float(at), event)
    return coalescer.take()


def tick(running):
    return EngineTick(100.0, 200.0, running, 0)


def acceptance(source, drafted, accepted):
    counts = Acceptance()
    counts.add(source, drafted, accepted)
    return counts


def test_text_of_one_line_is_one_event_with_the_first_time():
    taken = coalesced([TextDelta("a", 1, 0, "He"), TextDelta("a", 1, 1, "x"), TextDelta("a", 1, 0, "llo")])
    assert taken == [(0.0, TextDelta("a", 1, 0, "Hello")), (1.0, TextDelta("a", 1, 1, "x"))]


def test_the_last_tick_stays_and_stands_where_it_came():
    note = Note("info", "between")
    assert coalesced([tick(1), note, tick(2), tick(3)]) == [(1.0, note), (3.0, tick(3))]


def test_tokens_of_a_request_are_summed_with_their_drafts():
    first = TokensAccepted("r", 3, 4, 2, "a", 1, 0, acceptance("lookup", 4, 2))
    second = TokensAccepted("r", 1, 0, 0, "a", 1, 0)
    third = TokensAccepted("r", 6, 8, 5, "a", 1, 0, acceptance("vision", 8, 5))
    ((at, joined),) = coalesced([first, second, third])
    assert at == 0.0
    assert (joined.tokens, joined.drafted, joined.accepted) == (10, 12, 7)
    assert joined.acceptance.counts == (first.acceptance + third.acceptance).counts
    assert first.acceptance.counts.total() == 1, "what was given must not change"


def test_drafts_that_were_read_back_stay_apart_for_they_have_no_sum():
    events = [TokensAccepted("r", 1, 1, 1, "a", 1, 0, {"drafted": 1}) for _ in range(2)]
    assert [event for _, event in coalesced(events)] == events


@pytest.mark.parametrize(
    "between", [PageDone("a", 1, "ok", "model", 1.0, 1, "x"), PageStarted("a", 1), DocumentQueued("a", (1,))]
)
def test_text_does_not_move_past_what_concerns_its_page(between):
    events = [TextDelta("a", 1, 0, "old"), between, TextDelta("a", 1, 0, "new")]
    assert [event for _, event in coalesced(events)] == events


@pytest.mark.parametrize("between", [PageStarted("a", 2), PageStarted("b", 1), PausedChanged(True), tick(1)])
def test_text_is_joined_across_what_concerns_others(between):
    events = [TextDelta("a", 1, 0, "o"), between, TextDelta("a", 1, 0, "n")]
    assert [event for _, event in coalesced(events)] == [TextDelta("a", 1, 0, "on"), between]


def test_taking_leaves_nothing():
    coalescer = Coalescer()
    coalescer.add(0.0, TextDelta("a", 1, 0, "x"))
    assert len(coalescer.take()) == 1
    assert coalescer.take() == []
    coalescer.add(1.0, TextDelta("a", 1, 0, "y"))
    assert coalescer.take() == [(1.0, TextDelta("a", 1, 0, "y"))]


def test_random_streams_lose_nothing_and_keep_their_order():
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    for _ in range(60):
        events = [_random_event(rng) for _ in range(rng.randrange(1, 120))]
        coalescer, taken = Coalescer(), []
        for at, event in enumerate(events):
            coalescer.add(float(at), event)
            if rng.random() < 0.05:
                taken += coalescer.take()
        taken += coalescer.take()
        after = [event for _, event in taken]
        assert [at for at, _ in taken] == sorted(at for at, _ in taken), seed
        assert _alone(after) == _alone(events), seed
        assert _states(after) == _states(events), seed
        assert sum(e.tokens for e in _of(after, TokensAccepted)) == sum(
            e.tokens for e in _of(events, TokensAccepted)
        ), seed
        ticks = _of(events, EngineTick)
        assert _of(after, EngineTick)[-1:] == ticks[-1:], seed


def _random_event(rng):
    path, page, unit = rng.choice("ab"), rng.randrange(1, 3), rng.randrange(2)
    return rng.choice([
        lambda: TextDelta(path, page, unit, rng.choice("xyz")),
        lambda: TextDelta(path, page, unit, rng.choice("xyz")),
        lambda: TokensAccepted(unit, rng.randrange(5), 0, 0, path, page, unit),
        lambda: tick(rng.randrange(9)),
        lambda: RequestSubmitted(unit, 3, path, page, unit),
        lambda: PrefillDone(unit, 3, 0.1, path, page, unit),
        lambda: PageStarted(path, page),
        lambda: PageDone(path, page, "ok", "model", 1.0, 1, "x"),
        lambda: Note("info", "n", path, page),
    ])()


def _of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def _alone(events):
    """Those that are never joined."""
    return [event for event in events if not isinstance(event, (TextDelta, TokensAccepted, EngineTick))]


def _states(events):
    """What somebody has seen of each page whenever an event came that concerns it: its text since it was started."""
    text, seen = {}, []
    for event in events:
        if isinstance(event, PageStarted):
            text = {key: value for key, value in text.items() if key[:2] != (event.path, event.page)}
        if isinstance(event, TextDelta):
            key = (event.path, event.page, event.unit)
            text[key] = text.get(key, "") + event.text
        elif isinstance(event, (PageStarted, PageDone)):
            seen.append((event, sorted(item for item in text.items() if item[0][:2] == (event.path, event.page))))
    return seen, sorted(text.items())
