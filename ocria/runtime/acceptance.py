"""What is counted of drafts: the one definition of drafted, accepted and accept length.

A request-step is one request's part in one step. The target verifies `drafted` drafts in it, which may be none, and
the first `accepted` of them are what it chose itself. They are counted as the device verified them, so also those
behind the token at which an answer ends, by a stop token, its limit or on the host: they say how far drafter and target
agree. How many tokens a request got is another count.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ocria.errors import EngineError


@dataclass(slots=True)
class Acceptance:
    """Request-steps counted by who drafted (None where nobody did), drafted and accepted. Sums with `+` and `+=`."""

    counts: Counter[tuple[str | None, int, int]] = field(default_factory=Counter)

    def add(self, source: str | None, drafted: int, accepted: int) -> None:
        """Count one request-step. Raises EngineError for counts that cannot be."""
        if not 0 <= accepted <= drafted or (drafted and source is None):
            raise EngineError(f"{source or 'nobody'} cannot have drafted {drafted} tokens, of which {accepted} held")
        self.counts[source if drafted else None, drafted, accepted] += 1

    def __add__(self, other: "Acceptance") -> "Acceptance":
        return Acceptance(self.counts + other.counts)

    def __iadd__(self, other: "Acceptance") -> "Acceptance":
        self.counts.update(other.counts)
        return self

    def since(self, earlier: "Acceptance") -> "Acceptance":
        """What was counted after `earlier`, a copy of this one as it was."""
        return Acceptance(self.counts - earlier.counts)

    def copy(self) -> "Acceptance":
        return Acceptance(self.counts.copy())

    def __bool__(self) -> bool:
        """Whether anything was drafted."""
        return any(drafted for _, drafted, _ in self.counts)

    @property
    def steps(self) -> int:
        """Request-steps, with drafts or without."""
        return self.counts.total()

    @property
    def drafted(self) -> int:
        """Drafts that the target verified."""
        return sum(drafted * times for (_, drafted, _), times in self.counts.items())

    @property
    def accepted(self) -> int:
        """Drafts that held. The token behind them, which the same pass yields for free, is not one."""
        return sum(accepted * times for (_, _, accepted), times in self.counts.items())

    @property
    def committed(self) -> int:
        """Rows added for good: every request-step commits its anchor and the drafts that held."""
        return self.steps + self.accepted

    @property
    def accept_length(self) -> float | None:
        """Rows committed in a request-step, 1 where no draft held; None while nothing was drafted."""
        return self.committed / self.steps if self else None

    @property
    def sources(self) -> list[str]:
        """Who drafted."""
        return sorted({source for source, _, _ in self.counts if source is not None})

    def of(self, source: str) -> "Acceptance":
        """The request-steps with drafts of this source."""
        return Acceptance(Counter({key: times for key, times in self.counts.items() if key[0] == source}))

    def verified_at(self) -> list[int]:
        """How often a draft at position 1, 2, … of its block was verified."""
        return self._at((drafted, times) for (_, drafted, _), times in self.counts.items())

    def accepted_at(self) -> list[int]:
        """How often one at position 1, 2, … held, and so all before it; as long as `verified_at`."""
        return self._at((accepted, times) for (_, _, accepted), times in self.counts.items())

    def rates(self) -> list[float]:
        """Of the drafts verified at each position, the share that held."""
        return [held / tried for held, tried in zip(self.accepted_at(), self.verified_at(), strict=True)]

    def rates_after(self) -> list[float | None]:
        """The same among those behind drafts that all held; None where there were none."""
        reached = self._at((min(drafted, held + 1), times) for (_, drafted, held), times in self.counts.items())
        return [held / tried if tried else None for held, tried in zip(self.accepted_at(), reached, strict=True)]

    def __str__(self) -> str:
        """For people: `accept length 3.40; lookup: 51 of 60 drafts held; ngram: 2 of 9 drafts held`."""
        if not self:
            return "nothing drafted"
        alone = ((source, self.of(source)) for source in self.sources)
        parts = [f"{source}: {own.accepted} of {own.drafted} drafts held" for source, own in alone]
        return "; ".join([f"accept length {self.accept_length:.2f}", *parts])

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain data: `steps`, `drafted`, `accepted`, `accept_length`, `verified_at`, `accepted_at`, and
        under `sources` the same of each alone."""
        return {**self._figures(), "sources": {source: self.of(source)._figures() for source in self.sources}}

    def _figures(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "drafted": self.drafted,
            "accepted": self.accepted,
            "accept_length": self.accept_length,
            "verified_at": self.verified_at(),
            "accepted_at": self.accepted_at(),
        }

    def _at(self, reached: Iterable[tuple[int, int]]) -> list[int]:
        """From (how many positions, how often): how often each position was among them."""
        longest = max((drafted for _, drafted, _ in self.counts), default=0)
        ended = [0] * (longest + 1)
        for positions, times in reached:
            ended[positions] += times
        at, reach = [], 0
        for times in reversed(ended[1:]):
            reach += times
            at.append(reach)
        return at[::-1]
