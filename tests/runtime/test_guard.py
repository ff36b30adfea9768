"""When a request must end: real loops are seen soon, honest repetition is left alone."""

import numpy as np
import pytest

from ocria.model.profiles import Profile
from ocria.runtime.budget import PageBudget
from ocria.runtime.guard import CHECKS, MIN_ROUNDS, Bounds, find_loop, loop_of, verdict


def bounds_of(unit, image_tokens, max_tokens=16384):
    """The bounds that an image of so many tokens gets from the budget."""
    budget = PageBudget.__new__(PageBudget)
    budget.unit = unit
    return Bounds(frozenset(), max_tokens, budget.loop_tokens(image_tokens))


def first_verdict(tokens, bounds):
    """(number of tokens, reason) of the first verdict; (None, None) when there is none."""
    for n in range(1, len(tokens) + 1):
        reason = verdict(tokens[:n], bounds, 0.0)
        if reason:
            return n, reason
    return None, None


def naive_loop(tokens, least):
    """The definition, tried out."""
    count = len(tokens)
    for period in range(1, least // MIN_ROUNDS + 1):
        start = count - period
        while start > 0 and tokens[start - 1] == tokens[start - 1 + period]:
            start -= 1
        if count >= least and count - start >= least:
            return start, period
    return None


def test_equals_its_definition(rng):
    """Over two letters, where nearly everything repeats somehow, with real loops at the end of half of them."""
    found = 0
    for _ in range(3000):
        tokens = rng.integers(0, 2, rng.integers(1, 60)).tolist()
        if rng.random() < 0.5:
            tokens += rng.integers(0, 2, rng.integers(1, 9)).tolist() * int(rng.integers(1, 12))
        least = int(rng.integers(1, 60))
        expected = naive_loop(tokens, least)
        assert find_loop(tokens, least) == expected, (tokens, least)
        found += expected is not None
    assert 300 < found < 2700


def test_a_period_must_go_round_four_times():
    tokens = list(range(11)) * 10
    assert find_loop(tokens, 44) == (0, 11)
    assert find_loop(tokens, 43) is None


@pytest.mark.parametrize("unit", ["line", "page"])
@pytest.mark.parametrize("period", range(1, 61))
def test_real_loops_of_every_period(rng, unit, period):
    """After some honest text: seen within a sixteenth of what the image could hold, from where the loop began."""
    bounds = bounds_of(unit, int(rng.integers(40, 90) if unit == "line" else rng.integers(64, 300)))
    before = rng.integers(1000, 2000, rng.integers(0, 200)).tolist()
    around = rng.permutation(900)[:period].tolist()
    tokens = before + around * (2 * bounds.loop_tokens // period + 2)
    count, reason = first_verdict(tokens, bounds)
    assert reason == "degenerate"
    assert bounds.loop_tokens <= count - len(before) <= bounds.loop_tokens * (1 + 1 / CHECKS) + 1
    assert loop_of(tokens[:count], bounds) == (len(before), period)


@pytest.mark.parametrize(
    "text",
    [
        "Chapter 1 " + "." * 90 + " 12",
        "| " + "--- | " * 20,
        "_" * 100,
        "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
        "0.00 " * 24,
        "ha " * 25,
        "i" * 60,
    ],
)
def test_lines_that_repeat_rightly(text):
    """A line image of 25 tokens (1000 px at 40 px a token) holds all of these, a byte a token."""
    assert first_verdict(list(text.encode()), bounds_of("line", 25, max_tokens=250)) == (None, None)


@pytest.mark.parametrize(
    "rows",
    [
        [list(range(60))] * 60,  # sixty equal rows of a table in HTML
        [[300, 301, 302, 303] * 8 + [304, 305]] * 60,  # an empty form of sixty rows and eight cells
        [[7] * 40 + [8, 9]] * 60,  # sixty lines of a table of contents, ruled with dots
        [[0, 1] * 25 + [2]] * 60,  # sixty rows of zeros
    ],
    ids=["table", "form", "leaders", "zeros"],
)
def test_pages_that_repeat_rightly(rng, rows):
    """On a page of 1,000 image tokens, such as A4 at 110 dpi, between two paragraphs."""
    paragraph = rng.integers(1000, 5000, 50).tolist()
    tokens = [*paragraph, *(token for row in rows for token in row), *paragraph]
    assert first_verdict(tokens, bounds_of("page", 1000)) == (None, None)


def test_near_repetition_is_no_loop():
    tokens = [1, 2, 3, 4] * 40
    tokens[-7] = 99
    assert find_loop(tokens, 40) is None


def test_a_loop_at_the_length_limit_is_a_loop(rng):
    """Also when a good beginning leaves it no room to fill all that the image could hold."""
    bounds = Bounds(frozenset(), max_tokens=41, loop_tokens=40)
    assert verdict([5] * 41, bounds, 0.0) == "degenerate"
    begun = [*rng.integers(50, 90, 18).tolist(), *[5, 6] * 11, 5]
    assert verdict(begun, bounds, 0.0) == "degenerate"
    assert loop_of(begun, bounds) == (18, 2)
    assert verdict(begun[:-1], bounds, 0.0) is None
    assert verdict(rng.permutation(41).tolist(), bounds, 0.0) == "length"


def test_deadline():
    bounds = Bounds(frozenset(), max_tokens=10, loop_tokens=10, deadline=5.0)
    assert verdict([1], bounds, 4.9) is None
    assert verdict([1], bounds, 5.0) == "timeout"


def test_the_line_model_that_is_shipped_can_be_seen_looping(rng):
    """Its answers are cut at the number of tokens that a line can hold, good beginning included."""
    profile = Profile("nano", "line", "", "text", 640, max_output_per_image_token=6.0)
    image_tokens = int(rng.integers(12, 70))
    bounds = bounds_of("line", image_tokens, profile.output_limit(image_tokens))
    begun = rng.integers(100, 200, image_tokens).tolist()
    count, reason = first_verdict(begun + [3, 4, 5] * 600, bounds)
    assert (count, reason) == (bounds.max_tokens, "degenerate")


def test_checks_are_spread(rng, monkeypatch):
    """Looking for loops costs a fixed number of looks over the window, however long it is."""
    from ocria.runtime import guard

    looks = []
    monkeypatch.setattr(guard, "find_loop", lambda tokens, least: looks.append(len(tokens)))
    bounds = Bounds(frozenset(), 10**6, int(rng.integers(32, 5000)))
    for n in range(1, 2 * bounds.loop_tokens + 1):
        verdict(np.empty(n), bounds, 0.0)
    assert 2 * CHECKS - 2 <= len(looks) <= 3 * CHECKS
