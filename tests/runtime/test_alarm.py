"""The alarm rings where drafts start to hold and the text repeats, and for neither alone."""

from ocria.runtime.alarm import LEVEL, RECENT, AcceptanceAlarm

LOOP = 200
"""Tokens of a repetition that the guard would end an answer for."""


def step(rng, rate, drafted):
    """How many of these drafts hold, each with this probability."""
    return next((i for i in range(drafted) if rng.random() >= rate), drafted)


def answer(rng, alarm, tokens, rate, length, token, drafted=7):
    """Go on with an answer until it has `length` tokens; the alarm sees it as it was before each step."""
    while len(tokens) < length:
        held = step(rng, rate, drafted)
        alarm.watch(drafted, held, tokens, LOOP)
        tokens += [token(len(tokens) + i) for i in range(held + 1)]


def text(rng):
    return lambda place: int(rng.integers(10, 200))


def loop(place):
    return (5, 6, 7)[place % 3]


def test_it_rings_once_where_an_answer_starts_to_repeat_itself(rng):
    alarm, tokens = AcceptanceAlarm(), []
    answer(rng, alarm, tokens, 0.55, 2000, text(rng))
    assert alarm.rang_at is None
    answer(rng, alarm, tokens, 0.99, 2600, loop)
    rang_at = alarm.rang_at
    # Not before a quarter of a loop is there, and before all recent drafts are of the loop.
    assert 2000 + LOOP // 4 <= rang_at <= 2000 + RECENT
    answer(rng, alarm, tokens, 0.2, 3000, text(rng))
    answer(rng, alarm, tokens, 0.99, 4000, loop)
    assert alarm.rang_at == rang_at


def test_a_rise_without_repetition_is_speed(rng):
    """Such as the step from a bad text layer to a good one."""
    alarm, tokens = AcceptanceAlarm(), []
    answer(rng, alarm, tokens, 0.3, 1500, text(rng))
    answer(rng, alarm, tokens, 1.0, 6000, text(rng))
    assert alarm.rang_at is None


def test_repetition_without_a_rise_is_what_the_page_says(rng):
    """A ruled table from its first line on, drafted as well as ever."""
    alarm, tokens = AcceptanceAlarm(), []
    answer(rng, alarm, tokens, 0.9, 6000, loop)
    assert alarm.rang_at is None


def test_a_short_answer_has_no_level_to_rise_above(rng):
    alarm, tokens = AcceptanceAlarm(), []
    answer(rng, alarm, tokens, 0.5, LEVEL // 2, text(rng))
    answer(rng, alarm, tokens, 1.0, LEVEL + RECENT - 20, loop)
    assert alarm.rang_at is None


def test_steps_without_drafts_say_nothing(rng):
    alarm, tokens = AcceptanceAlarm(), []
    answer(rng, alarm, tokens, 0.5, 1500, text(rng))
    before = vars(alarm).copy()
    alarm.watch(0, 0, [*tokens, *[5, 6, 7] * 100], LOOP)
    assert vars(alarm) == before


def test_drafts_that_always_held_cannot_hold_more_often(rng):
    alarm, tokens = AcceptanceAlarm(), []
    answer(rng, alarm, tokens, 1.0, 3000, text(rng))
    answer(rng, alarm, tokens, 1.0, 5000, loop)
    assert alarm.rang_at is None
