"""Drafted, accepted, accept length and what held at each position: worked by hand, and against counting one by one."""

import json

import pytest

from ocria.errors import EngineError
from ocria.runtime.acceptance import Acceptance


def counted(*steps):
    acceptance = Acceptance()
    for source, drafted, accepted in steps:
        acceptance.add(source, drafted, accepted)
    return acceptance


# Five request-steps: two of a text source, two of a network, one in which nobody had a draft.
BY_HAND = [("lookup", 3, 3), ("lookup", 3, 0), ("dflash", 4, 2), ("dflash", 2, 2), (None, 0, 0)]


def test_worked_by_hand():
    acceptance = counted(*BY_HAND)
    assert (acceptance.steps, acceptance.drafted, acceptance.accepted) == (5, 12, 7)
    assert acceptance.committed == 12
    assert acceptance.accept_length == 12 / 5
    assert acceptance.verified_at() == [4, 4, 3, 1]
    assert acceptance.accepted_at() == [3, 3, 1, 0]
    assert acceptance.rates() == [3 / 4, 3 / 4, 1 / 3, 0]
    # Behind drafts that held: at the third position the block of two is over, at the fourth none was left but one
    # that had failed before.
    assert acceptance.rates_after() == [3 / 4, 3 / 3, 1 / 2, None]


def test_each_source_alone():
    acceptance = counted(*BY_HAND)
    assert acceptance.sources == ["dflash", "lookup"]
    network = acceptance.of("dflash")
    assert (network.steps, network.drafted, network.accepted, network.accept_length) == (2, 6, 4, 3.0)
    assert (network.verified_at(), network.accepted_at()) == ([2, 2, 1, 1], [2, 2, 0, 0])
    assert acceptance.of("lookup").accept_length == (1 + 3 + 1 + 0) / 2


def test_accept_length_counts_the_token_after_the_drafts():
    assert Acceptance().accept_length is None
    assert counted((None, 0, 0), (None, 0, 0)).accept_length is None, "without drafts there is nothing to accept"
    assert counted(("lookup", 7, 0), ("lookup", 7, 0)).accept_length == 1, "all wrong: each request still gets a token"
    assert counted(("lookup", 7, 7), (None, 0, 0)).accept_length == (8 + 1) / 2, "a step without drafts is a step"


def test_a_source_whose_drafts_had_no_room_drafted_nothing():
    assert counted(("lookup", 0, 0)) == counted((None, 0, 0))


@pytest.mark.parametrize("step", [("lookup", 3, 4), ("lookup", 3, -1), ("lookup", -1, -1), (None, 3, 1)])
def test_counts_that_cannot_be(step):
    acceptance = Acceptance()
    with pytest.raises(EngineError, match="cannot have drafted"):
        acceptance.add(*step)
    assert acceptance.steps == 0


def random_steps(rng, number):
    steps = []
    for _ in range(number):
        drafted = int(rng.integers(0, 17))
        source = ["lookup", "ngram", "vision", "dflash"][rng.integers(4)] if drafted else None
        steps.append((source, drafted, int(rng.integers(0, drafted + 1))))
    return steps


def test_against_counting_one_by_one(rng):
    steps = random_steps(rng, 300)
    acceptance = counted(*steps)
    longest = max(drafted for _, drafted, _ in steps)
    assert len(acceptance.rates()) == longest
    for i in range(1, longest + 1):
        assert acceptance.verified_at()[i - 1] == sum(drafted >= i for _, drafted, _ in steps)
        assert acceptance.accepted_at()[i - 1] == sum(accepted >= i for _, _, accepted in steps)
        behind = [accepted >= i for _, drafted, accepted in steps if drafted >= i and accepted >= i - 1]
        assert acceptance.rates_after()[i - 1] == (sum(behind) / len(behind) if behind else None)
    assert sum(acceptance.verified_at()) == acceptance.drafted
    assert sum(acceptance.accepted_at()) == acceptance.accepted


def test_sums_are_what_all_steps_together_count(rng):
    steps = random_steps(rng, 90)
    parts = [counted(*steps[at : at + 30]) for at in (0, 30, 60)]
    before = parts[0].copy()
    assert parts[0] + parts[1] + parts[2] == counted(*steps)
    assert parts[0] == before, "a sum leaves its terms alone"
    parts[0] += parts[1]
    assert parts[0] == counted(*steps[:60])
    assert parts[0].since(before) == parts[1]
    assert sum(parts[0].of(source).drafted for source in parts[0].sources) == parts[0].drafted


def test_plain_data(rng):
    acceptance = counted(*BY_HAND)
    data = json.loads(json.dumps(acceptance.as_dict()))
    assert data == acceptance.as_dict()
    assert data["accept_length"] == 2.4
    assert data["accepted_at"] == [3, 3, 1, 0]
    assert data["sources"]["lookup"] == {
        "steps": 2, "drafted": 6, "accepted": 3, "accept_length": 2.5, "verified_at": [2, 2, 2],
        "accepted_at": [1, 1, 1],
    }  # fmt: skip
    assert Acceptance().as_dict()["sources"] == {}
