"""What steps of each kind cost, measured while they run, presumed where they have not run yet."""

import math
from collections import deque
from dataclasses import dataclass, field

_WINDOW = 9
"""The median of so many steps is a kind's cost: interruptions of a step or two do not move it, slow growth does."""
_STALE = 1000
"""After so many steps without it a kind may cost half of what it did."""
_NETWORK = 2.0
"""A network that drafts is presumed to make a step at most so many times as long."""


@dataclass(frozen=True, slots=True)
class StepKind:
    """rows: of each slot, the anchor and rows - 1 drafts; 1 is plain decoding. network: whether a network is asked for
    drafts, beside the sources that cost next to nothing."""

    rows: int
    network: bool = False


@dataclass(slots=True)
class _Measured:
    last: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    cost: float = 0.0
    at: int = 0


class StepCosts:
    """Seconds by kind of step and batch. `flat_rows`: before anything is known, a step is presumed to take as long as
    so many rows, and its rows on top of that: many where reading the weights is most of it, few on a CPU."""

    def __init__(self, flat_rows: float):
        self._flat_rows = flat_rows
        self._cells: dict[tuple[StepKind, int], _Measured] = {}
        self._now = 0

    def tick(self) -> None:
        """A step is over, whether it could be measured or not."""
        self._now += 1

    def add(self, kind: StepKind, batch: int, seconds: float) -> None:
        """One step took so long."""
        cell = self._cells.setdefault((kind, batch), _Measured())
        cell.last.append(seconds)
        cell.cost, cell.at = sorted(cell.last)[(len(cell.last) - 1) // 2], self._now

    def measured(self, batch: int | None = None) -> set[StepKind]:
        """The kinds that were measured at this batch, or at any."""
        return {kind for kind, size in self._cells if batch is None or size == batch}

    def of(self, kind: StepKind, batch: int) -> float:
        """As measured; else from the nearest that was, by what is presumed of their ratio and within the bounds that
        all others set. Before any measurement the unit is that of a row, not the second."""
        cell = self._cells.get((kind, batch))
        if cell is not None:
            return cell.cost
        if not self._cells:
            return self._presumed(kind, batch)
        (other, size), cell = min(self._cells.items(), key=lambda item: _distance(kind, batch, *item[0]))
        cost = cell.cost * self._presumed(kind, batch) / self._presumed(other, size)
        lower, upper = self._bounds(kind, batch)
        return max(lower, min(cost, upper))

    def least(self, kind: StepKind, batch: int) -> float:
        """What it may cost at best: the lower bound, or what was measured; less, the longer ago that was."""
        cell = self._cells.get((kind, batch))
        cost, at = self._bounds(kind, batch)[0], 0
        if cell is not None:
            cost, at = cell.cost, cell.at
        return cost / (1 + (self._now - at) / _STALE)

    def _presumed(self, kind: StepKind, batch: int) -> float:
        flat = self._flat_rows * (1.25 if kind.network else 1.0)
        return flat + batch * kind.rows

    def _bounds(self, kind: StepKind, batch: int) -> tuple[float, float]:
        """More rows cost no less, and no more than in proportion; so for requests, and for the network."""
        lower, upper = 0.0, math.inf
        for (other, size), cell in self._cells.items():
            rows, requests = kind.rows / other.rows, batch / size
            without, beside = other.network and not kind.network, kind.network and not other.network
            lower = max(lower, cell.cost * min(1, rows) * min(1, requests) / (_NETWORK if without else 1))
            upper = min(upper, cell.cost * max(1, rows) * max(1, requests) * (_NETWORK if beside else 1))
        return lower, upper


def _distance(kind: StepKind, batch: int, other: StepKind, size: int) -> float:
    apart = abs(math.log(kind.rows / other.rows)) + abs(math.log(batch / size))
    return apart + (kind.network != other.network)


class Beginnings:
    """First steps of a kind at a batch: they compile or are captured, and say nothing about those after them. With
    overlap that happens while the step before is waited for, which then says nothing either."""

    def __init__(self, costs: StepCosts):
        self._costs = costs
        self._begun: set[tuple[StepKind, int]] = set()
        self._seen: set[tuple[StepKind, int]] = set()
        self._fresh: tuple[StepKind, int] | None = None  # begun since the last step was observed
        self._took: dict[tuple[StepKind, int], list[float]] = {}
        self._new: dict[tuple[StepKind, int], bool] = {}  # whether the kind was new at any batch

    def launch(self, kind: StepKind, batch: int) -> None:
        """A step of this kind is launched."""
        cell = kind, batch
        if cell not in self._begun:
            self._new[cell] = all(kind != other for other, _ in self._begun)
            self._begun.add(cell)
            self._fresh = cell

    def caught(self, kind: StepKind, batch: int, seconds: float | None) -> bool:
        """Whether the time of this step is not its own."""
        cell, self._fresh = self._fresh, None
        if (kind, batch) not in self._seen:
            self._seen.add((kind, batch))
            cell = kind, batch
        if cell is not None and seconds is not None:
            self._took.setdefault(cell, []).append(seconds)
        return cell is not None

    def expected(self, kind: StepKind, batch: int) -> float:
        """By how many seconds a step of this kind would be longer for being the first, going by others."""
        if (kind, batch) in self._begun:
            return 0.0
        new = all(kind != other for other, _ in self._begun)
        alike = [cell for cell in self._took if self._new[cell] == new and cell[0] in self._costs.measured(cell[1])]
        extra = [max(0.0, sum(self._took[cell]) - len(self._took[cell]) * self._costs.of(*cell)) for cell in alike]
        return sum(extra) / len(extra) if extra else 0.0
