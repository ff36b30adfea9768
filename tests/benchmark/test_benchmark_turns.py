"""Taking turns within a time, with a clock that the variants move themselves."""

import random
import time
from dataclasses import dataclass

import pytest

from ocria.benchmark.budget import Budget, OutOfTime, stop_after
from ocria.benchmark.turns import MOST_TURNS, ratios, take_turns


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@dataclass
class Took:
    seconds: float


def side(clock, seconds, log, name):
    def run():
        clock.now += seconds
        log.append(name)
        return Took(seconds)

    return run


def test_a_budget_counts_from_when_it_was_made():
    clock = Clock()
    budget = Budget(10, clock)
    clock.now += 4
    assert (budget.spent, budget.left) == (4, 6)
    assert budget.fits(6)
    assert not budget.fits(6.1)
    clock.now += 100
    assert budget.left == 0


def test_the_order_alternates_and_ends_after_the_most_turns():
    clock, log, runs = Clock(), [], {}
    sides = {name: side(clock, 1.0, log, name) for name in "abc"}
    take_turns(sides, Budget(1000, clock), 1000, runs)
    assert "".join(log) == "abccbaabccbaabc"
    assert {name: len(done) for name, done in runs.items()} == dict.fromkeys("abc", MOST_TURNS)


def test_the_time_is_kept():
    seed = random.randrange(1 << 30)
    numbers = random.Random(seed)
    for _ in range(300):
        clock, log, runs, told = Clock(), [], {}, []
        took = {name: numbers.uniform(0.1, 5) for name in "abc"}
        budget, share = Budget(numbers.uniform(1, 60), clock), numbers.uniform(0, 40)
        sides = {name: side(clock, seconds, log, name) for name, seconds in took.items()}
        take_turns(sides, budget, share, runs, lambda told=told: told.append(1))
        assert len(told) == len(log)
        if len(log) > 3:  # more than the first turn
            assert budget.spent <= min(share, budget.seconds) + 1e-6, seed
        assert budget.spent <= budget.seconds + max(took.values()), seed


def test_with_no_time_left_nothing_runs():
    clock, log, runs = Clock(), [], {}
    budget = Budget(1, clock)
    clock.now += 2
    take_turns({"a": side(clock, 1.0, log, "a")}, budget, 10, runs)
    assert (log, runs) == ([], {})


def test_what_was_measured_before_an_interrupt_is_there():
    clock, log, runs = Clock(), [], {}

    def interrupted():
        if len(log) == 5:
            raise KeyboardInterrupt
        return side(clock, 1.0, log, "b")()

    with pytest.raises(KeyboardInterrupt):
        take_turns({"a": side(clock, 1.0, log, "a"), "b": interrupted}, Budget(100, clock), 100, runs)
    assert {name: len(done) for name, done in runs.items()} == {"a": 3, "b": 2}


def test_ratios_are_those_of_each_turn():
    assert ratios([Took(4), Took(3)], [Took(2), Took(6)]) == (2.0, 0.5)


def test_the_alarm_ends_what_would_not_end():
    with stop_after(0.05), pytest.raises(OutOfTime):
        time.sleep(60)
    with stop_after(0.05):
        pass
    time.sleep(0.1)  # no alarm is left behind: it would end the tests


def test_the_alarm_is_no_fault_that_something_on_the_way_could_catch():
    assert not issubclass(OutOfTime, Exception)
