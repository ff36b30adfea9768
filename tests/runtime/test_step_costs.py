"""What is known of a step's cost and of drafts, worked by hand."""

import pytest

from ocria.runtime.draft_rates import DraftRates
from ocria.runtime.step_costs import Beginnings, StepCosts, StepKind

PLAIN, FOUR, SIXTEEN, NETWORK = StepKind(1), StepKind(4), StepKind(16), StepKind(4, True)


def costs_of(**measured):
    """Costs at a batch of 8, each measured twice: by rows."""
    costs = StepCosts(flat_rows=8.0)
    for name, seconds in measured.items():
        for _ in range(2):
            costs.add(StepKind(int(name.removeprefix("rows"))), 8, seconds)
    return costs


def test_an_interruption_does_not_move_a_cost():
    costs = StepCosts(flat_rows=8.0)
    for seconds in (2.0, 90.0, 2.1, 1.9, 80.0):
        costs.add(FOUR, 8, seconds)
    assert costs.of(FOUR, 8) == 2.1


def test_slow_growth_does():
    costs = StepCosts(flat_rows=8.0)
    for step in range(100):
        costs.add(FOUR, 8, 1 + step / 100)
    assert 1.8 < costs.of(FOUR, 8) < 1.95


def test_before_anything_is_measured_rows_count():
    costs = StepCosts(flat_rows=8.0)
    assert (costs.of(PLAIN, 8), costs.of(SIXTEEN, 8)) == (8 + 8, 8 + 128)
    assert costs.of(NETWORK, 8) > costs.of(FOUR, 8)


def test_what_was_not_measured_follows_from_what_was():
    costs = costs_of(rows4=1.0)
    # Presumed (8 + 8 * 16) / (8 + 8 * 4) times as long; at best as long, as long as four times at worst.
    assert costs.estimate(SIXTEEN, 8) == (pytest.approx(136 / 40), 1.0)
    # A single row at least a quarter, and no more.
    cost, least = costs.estimate(PLAIN, 8)
    assert least == 0.25 < cost < 1.0
    # From the same kind at another batch: half the requests take at least half of the time.
    cost, least = costs.estimate(FOUR, 4)
    assert least == 0.5 < cost < 1.0


def test_bounds_hold_where_what_is_presumed_does_not():
    """Rows cost nothing on this machine, as two measurements show: what lies between costs the same."""
    assert costs_of(rows1=1.0, rows16=1.0).estimate(FOUR, 8) == (1.0, 1.0)


def test_a_single_measurement_counts_within_bounds_alone():
    """It was interrupted: a step of four rows takes no more than four times as long as one of one."""
    costs = costs_of(rows1=1.0)
    costs.add(FOUR, 8, 50.0)
    assert costs.estimate(FOUR, 8) == (4.0, 1.0)
    costs.add(FOUR, 8, 1.5)
    assert costs.of(FOUR, 8) == 1.5


def test_what_was_measured_long_ago_may_have_become_cheaper():
    costs = costs_of(rows4=3.0)
    assert costs.estimate(FOUR, 8) == (3.0, 3.0)
    for _ in range(1000):
        costs.tick()
    assert costs.estimate(FOUR, 8) == (3.0, 1.5)


def test_the_first_step_of_a_kind_is_not_its_cost():
    beginnings = Beginnings()
    beginnings.launch(FOUR, 8)
    assert beginnings.caught(FOUR, 8, 101.0)
    assert beginnings.expected(SIXTEEN, 8) == 0, "nothing to go by yet"
    beginnings.launch(FOUR, 8)
    assert not beginnings.caught(FOUR, 8, 1.0)
    assert beginnings.expected(SIXTEEN, 8) == 100.0
    assert beginnings.expected(FOUR, 8) == 0, "it is behind it"
    assert beginnings.expected(FOUR, 4) == 0, "a kind that is known elsewhere is another matter"


def test_with_overlap_a_beginning_falls_into_the_step_before():
    beginnings = Beginnings()
    for seconds in (100.0, 1.0):
        beginnings.launch(FOUR, 8)
        beginnings.caught(FOUR, 8, seconds)
    beginnings.launch(FOUR, 8)
    beginnings.launch(SIXTEEN, 8)  # captured here, for 100 seconds
    assert beginnings.caught(FOUR, 8, 101.0)
    beginnings.launch(SIXTEEN, 8)
    assert beginnings.caught(SIXTEEN, 8, 2.0)
    assert not beginnings.caught(SIXTEEN, 8, 2.0)
    assert beginnings.expected(PLAIN, 8) == 99.0, "101 + 2 in place of two steps of 2, as for the other kind 100 of 1"


def test_rates_by_position():
    """200 blocks of three drafts: half of them hold at the first position, all behind that, none at the third."""
    rates = DraftRates(prior=0.9, most_rows=8)
    rates.add(1, 4, [0, 2] * 100)
    tokens = rates.tokens(1)
    assert len(tokens) == 8
    assert tokens[0] == 1
    assert tokens[1] == pytest.approx(1.5, abs=0.02)
    assert tokens[2] == pytest.approx(2.0, abs=0.03)
    assert tokens[3] == pytest.approx(2.0, abs=0.05)
    assert tokens[7] - tokens[3] < 0.05, "what follows is as good as the last that was seen"
    assert rates.tokens_at_best(1)[7] < 2.1


def test_rates_are_forgotten():
    """At once at best, and on average down to what drafts were on the whole."""
    rates = DraftRates(prior=0.9, most_rows=4)
    rates.add(1, 4, [0] * 50)
    assert rates.tokens(1)[3] < 1.1
    assert rates.tokens_at_best(1)[3] < 1.1
    assert rates.tokens(2000)[3] < 1.3, "nothing better was seen since"
    assert rates.tokens_at_best(2000)[3] == pytest.approx(4.0, abs=0.01)
    rates.add(2001, 4, [3])
    assert rates.tokens(2001)[1] > 1.25, "after so long a time one block says much"
