"""Machines and drafters that exist as formulas: what a step of a kind costs, and how many drafts hold in it."""

import math
import random
from dataclasses import dataclass, field

from ocria.runtime.rows import bucket_of
from ocria.runtime.step_costs import StepKind

NOISE = 0.05
"""Relative deviation of a step's time; one in fifty takes two to five times as long."""


@dataclass
class Machine:
    """A step takes as long as the greater of `flat` and its rows, and `each` more for every row; a network makes it
    `network` times `flat` longer. The first step of a kind at a batch takes `first` more. Seconds are of no unit."""

    flat: float
    each: float = 0.1
    network: float = 0.2
    first: float = 0.0
    rng: random.Random = field(default_factory=random.Random)
    begun: set = field(default_factory=set)

    def cost(self, kind: StepKind, batch: int) -> float:
        rows = bucket_of(batch) * kind.rows
        return max(self.flat, rows) + self.each * rows + self.network * self.flat * kind.network

    def run(self, kind: StepKind, batch: int) -> float:
        seconds = self.cost(kind, batch) * math.exp(self.rng.gauss(0, NOISE))
        if self.rng.random() < 0.02:
            seconds *= self.rng.uniform(2, 5)
        if (kind, bucket_of(batch)) not in self.begun:
            self.begun.add((kind, bucket_of(batch)))
            seconds += self.first
        return seconds


@dataclass
class Drafts:
    """The first draft of a block holds with probability `first`, each after it with `after`, if those before did;
    with a network both with probability `network`."""

    first: float
    after: float
    network: float = 0.0

    def rates(self, kind: StepKind) -> list[float]:
        first, after = (self.network, self.network) if kind.network else (self.first, self.after)
        return [first] * (kind.rows > 1) + [after] * (kind.rows - 2)

    def tokens(self, kind: StepKind) -> float:
        """Of a request and step, on average."""
        return 1 + sum(math.prod(self.rates(kind)[:i]) for i in range(1, kind.rows))

    def draw(self, kind: StepKind, batch: int, rng: random.Random) -> list[int]:
        rates = self.rates(kind)
        return [next((i for i, rate in enumerate(rates) if rng.random() >= rate), len(rates)) for _ in range(batch)]


@dataclass
class Ran:
    """What a run chose, and what came of it but for luck: tokens and seconds as they are on average, the first steps of
    kinds and interruptions left out."""

    kinds: list = field(default_factory=list)
    tokens: float = 0.0
    seconds: float = 0.0

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds


def run(policy, machine, drafts, batches, *, overlap=False, most_rows=None) -> Ran:
    """Steps of these batch sizes; with overlap each is observed after the next was chosen."""
    ran, on_its_way = Ran(), None
    for batch in batches:
        kind = policy.choose(batch, most_rows)
        seconds, accepted = machine.run(kind, batch), drafts.draw(kind, batch, machine.rng)
        ran.kinds.append(kind)
        ran.seconds += machine.cost(kind, batch)
        ran.tokens += batch * drafts.tokens(kind)
        if overlap and on_its_way is not None:
            policy.observe(*on_its_way)
        on_its_way = kind, batch, seconds, accepted
        if not overlap:
            policy.observe(*on_its_way)
    return ran


def speed_of(kind, machine, drafts, batch) -> float:
    """Tokens a second when it is always chosen."""
    return batch * drafts.tokens(kind) / machine.cost(kind, batch)


def best_fixed(kinds, machine, drafts, batch) -> tuple[StepKind, float]:
    """The kind that brings most tokens a second, and how many."""
    speed = {kind: speed_of(kind, machine, drafts, batch) for kind in kinds}
    best = max(kinds, key=speed.__getitem__)
    return best, speed[best]
