"""Variants measured in turns, so that what else the machine does meets all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from ocria.benchmark.budget import Budget


class Timed(Protocol):
    """What a variant gives back."""

    @property
    def seconds(self) -> float: ...


T = TypeVar("T", bound=Timed)
MOST_TURNS = 5


def take_turns(
    sides: Mapping[str, Callable[[], T]], budget: Budget, seconds: float, tell: Callable[[], None] = lambda: None
) -> dict[str, list[T]]:
    """Run every side, in alternating order, as often as fits into `seconds` and the budget, 5 times at most. tell:
    called after each run. A side whose first run does not fit has no runs; those that have some have as many.
    """
    runs: dict[str, list[T]] = {name: [] for name in sides}
    until = min(seconds, budget.left) + budget.spent
    for turn in range(MOST_TURNS):
        needed = sum(min(run.seconds for run in done) for done in runs.values() if done)
        if turn and budget.spent + needed > until:
            break
        names = list(sides) if turn % 2 == 0 else list(sides)[::-1]
        for name in names:
            if not budget.left:
                break
            runs[name].append(sides[name]())
            tell()
    fewest = min((len(done) for done in runs.values() if done), default=0)
    return {name: done[:fewest] for name, done in runs.items()}


def ratios(base: Sequence[Timed], own: Sequence[Timed]) -> tuple[float, ...]:
    """How many times as fast as the base, in each turn."""
    return tuple(b.seconds / o.seconds for b, o in zip(base, own, strict=False))
