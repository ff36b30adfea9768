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
    sides: Mapping[str, Callable[[], T]],
    budget: Budget,
    seconds: float,
    runs: dict[str, list[T]],
    tell: Callable[[], None] = lambda: None,
) -> None:
    """Run every side, in alternating order, as often as fits into `seconds`, once if the budget allows it at all and 5
    times at most. What they give goes into `runs` at once, by name. tell: called after each run."""
    until = min(seconds, budget.left) + budget.spent
    for turn in range(MOST_TURNS):
        needed = sum(min(run.seconds for run in done) for done in runs.values() if done)
        if turn and budget.spent + needed > until:
            break
        for name in list(sides) if turn % 2 == 0 else list(sides)[::-1]:
            if not budget.left:
                return
            runs.setdefault(name, []).append(sides[name]())
            tell()


def ratios(base: Sequence[Timed], own: Sequence[Timed]) -> tuple[float, ...]:
    """How many times as fast as the base, in each turn."""
    return tuple(b.seconds / o.seconds for b, o in zip(base, own, strict=False))
