"""What steps of each kind cost, measured while they run, presumed where they have not run yet."""

import math
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

_WINDOW = 25
"""The median of so many steps is a kind's cost: interruptions of a step or two do not move it, slow growth does."""
_STALE = 1000
"""After so many steps without it a kind may cost half of what it did."""
_NETWORK, _MOST_NETWORK = 1.5, 3.0
"""How many times as long a network that drafts is presumed to make a step that has few rows, and at most."""
FLAT_ROWS = {"cpu": 40.0, "cuda": 256.0}
"""`flat_rows` of `StepCosts` by kind of device: of the embedded model, and of large ones on a data centre's GPU."""


class StepKind(NamedTuple):
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
        self._batches: dict[int, dict[StepKind, _Measured]] = {}
        self._now = 0

    def tick(self) -> None:
        """A step is over, whether it could be measured or not."""
        self._now += 1

    def add(self, kind: StepKind, batch: int, seconds: float) -> None:
        """One step took so long."""
        cell = self._batches.setdefault(batch, {}).setdefault(kind, _Measured())
        cell.last.append(seconds)
        cell.cost, cell.at = sorted(cell.last)[(len(cell.last) - 1) // 2], self._now

    def measured(self, batch: int) -> Collection[StepKind]:
        """The kinds that were measured at this batch."""
        return self._batches.get(batch, {}).keys()

    def measured_anywhere(self) -> set[StepKind]:
        """Those that were at any."""
        return {kind for cells in self._batches.values() for kind in cells}

    def of(self, kind: StepKind, batch: int) -> float:
        """As measured, or as it is presumed. Before any measurement the unit is a row, not a second."""
        return self.estimate(kind, batch)[0]

    def estimate(self, kind: StepKind, batch: int) -> tuple[float, float]:
        """What a step costs, and what it may cost at best: less than was measured, the longer ago that was.

        What was not measured follows from what was. A single measurement may be an accident, so it holds within the
        bounds that others set, and at best it was one.
        """
        cell = self._batches.get(batch, {}).get(kind)
        if cell is None:
            cost, lower, upper = self._inferred(kind, batch)
            return max(lower, min(cost, upper)), lower / (1 + self._now / _STALE)
        fresh = 1 + (self._now - cell.at) / _STALE
        if len(cell.last) > 1:
            return cell.cost, cell.cost / fresh
        _, lower, upper = self._inferred(kind, batch)
        cost = max(lower, min(cell.cost, upper))
        return cost, lower / fresh

    def _inferred(self, kind: StepKind, batch: int) -> tuple[float, float, float]:
        """What other kinds at this batch and the same kind at others say, or all if there are none of these: the cost
        by what is presumed of its ratio to that of the most alike, and bounds. More rows cost no less, and no more than
        in proportion; so do more requests, and a network up to its limit."""
        cost, lower, upper, most_alike = self._presumed(kind, batch), 0.0, math.inf, math.inf
        for other, size, known in self._related(kind, batch):
            rows, requests = kind.rows / other.rows, batch / size
            without, beside = other.network and not kind.network, kind.network and not other.network
            lower = max(lower, known * min(1, rows) * min(1, requests) / (_MOST_NETWORK if without else 1))
            upper = min(upper, known * max(1, rows) * max(1, requests) * (_MOST_NETWORK if beside else 1))
            unlike = max(rows, 1 / rows) * max(requests, 1 / requests) * (3 if without or beside else 1)
            if unlike < most_alike:
                most_alike = unlike
                cost = known * self._presumed(kind, batch) / self._presumed(other, size)
        return cost, lower, upper

    def _related(self, kind: StepKind, batch: int) -> list[tuple[StepKind, int, float]]:
        cells = [(other, batch, cell) for other, cell in self._batches.get(batch, {}).items() if other != kind]
        cells += [(kind, size, kinds[kind]) for size, kinds in self._batches.items() if size != batch and kind in kinds]
        if not cells:
            cells = [(other, size, cell) for size, kinds in self._batches.items() for other, cell in kinds.items()]
        return [(other, size, cell.cost) for other, size, cell in cells if len(cell.last) > 1] or [
            (other, size, cell.cost) for other, size, cell in cells
        ]

    def _presumed(self, kind: StepKind, batch: int) -> float:
        flat = self._flat_rows * (_NETWORK if kind.network else 1.0)
        return flat + batch * kind.rows


class Beginnings:
    """First steps of a kind at a batch: they compile or are captured, and say nothing about those after them. With
    overlap that happens while the step before is waited for, which then says nothing either."""

    def __init__(self) -> None:
        self._begun: dict[tuple[StepKind, int], bool] = {}  # and whether the kind was new at every batch
        self._seen: set[tuple[StepKind, int]] = set()
        self._fresh: tuple[StepKind, int] | None = None  # begun since the last step was observed
        self._took: dict[tuple[StepKind, int], list[float]] = {}  # until an ordinary step shows what was extra
        self._extra: dict[bool, list[float]] = {True: [], False: []}

    def launch(self, kind: StepKind, batch: int) -> None:
        """A step of this kind is launched."""
        cell = kind, batch
        if cell not in self._begun:
            self._begun[cell] = self._is_new(kind)
            self._fresh = cell

    def caught(self, kind: StepKind, batch: int, seconds: float | None) -> bool:
        """Whether the time of this step is not its own."""
        mine, self._fresh, begun = (kind, batch), None, self._fresh
        if mine not in self._seen:
            self._seen.add(mine)
            begun = mine
        if seconds is not None and begun is not None:
            self._took.setdefault(begun, []).append(seconds)
        elif seconds is not None and mine in self._took:
            took = self._took.pop(mine)
            self._extra[self._begun.get(mine, True)].append(max(0.0, sum(took) - len(took) * seconds))
        return begun is not None

    def expected(self, kind: StepKind, batch: int) -> float:
        """By how many seconds a step of this kind would be longer for being the first, going by others."""
        if (kind, batch) in self._begun:
            return 0.0
        extra = self._extra[self._is_new(kind)]
        return sorted(extra)[(len(extra) - 1) // 2] if extra else 0.0

    def _is_new(self, kind: StepKind) -> bool:
        return all(kind != other for other, _ in self._begun)
