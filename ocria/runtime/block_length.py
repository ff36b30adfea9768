"""How many rows the next step gets, and whether a network drafts for it: what commits most tokens a second.

A long block pays where rows cost next to nothing and drafts hold; plain decoding where a row costs as much as a step or
drafts are wrong. Neither is known beforehand, and both change with the batch and the text, so both are measured in the
steps themselves. Kinds of steps that might be better are tried now and then, as far as the time that this has lost
stays a small share of all.
"""

from collections.abc import Iterable, Sequence

from ocria.runtime.draft_rates import DraftRates
from ocria.runtime.rows import bucket_of
from ocria.runtime.step_costs import Beginnings, StepCosts, StepKind

LADDER = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
"""Rows of a slot in a step."""
_EVERY = 4
"""A choice stands for so many steps."""
_MARGIN = 1.05
"""How much better another kind must be."""
_EXPLORED = 0.03
"""The share of time that may be lost by trying kinds that turn out worse."""
_PATIENCE = 16
"""A trial whose step has not been observed after so many others never will be."""


def step_kinds(most_rows: int, *, text: bool, network: bool, ladder: Iterable[int] = LADDER) -> tuple[StepKind, ...]:
    """Plain decoding, and the rungs of the ladder up to `most_rows`, which is one itself: with sources of text alone,
    with a network, or either."""
    rows = sorted({rung for rung in ladder if 1 < rung < most_rows} | {most_rows} - {1})
    drafted = [StepKind(rung, with_network) for rung in rows for with_network in (False,) * text + (True,) * network]
    return (StepKind(1), *drafted)


class FixedLength:
    """Every step has the same kind: for comparisons."""

    def __init__(self, kind: StepKind):
        self.kinds = (kind,)

    def choose(self, batch: int, most_rows: int | None = None) -> StepKind:
        return self.kinds[0]

    def observe(self, kind: StepKind, batch: int, seconds: float | None, accepted: Sequence[int]) -> None:
        pass


class BlockLength:
    """Chooses the kind of each step.

    kinds: those there are (see `step_kinds`); every one may cost a compilation or a capture. prior: the share of drafts
    that is presumed to hold before anything is known. flat_rows: see `StepCosts`.
    """

    def __init__(self, kinds: Iterable[StepKind], prior: float = 0.7, flat_rows: float = 256.0):
        self.kinds = tuple(sorted(set(kinds), key=lambda kind: (kind.rows, kind.network)))
        most = self.kinds[-1].rows
        self._rates = {network: DraftRates(prior, most) for network in (False, True)}
        self._costs = StepCosts(flat_rows)
        self._beginnings = Beginnings(self._costs)
        self._now = 0  # steps observed
        self._stands = 0  # steps for which the choice still stands
        self._current: StepKind | None = None
        self._batch = 0
        self._trial: StepKind | None = None  # launched, not observed yet
        self._trial_at = 0
        self._spent = self._lost = 0.0

    def choose(self, batch: int, most_rows: int | None = None) -> StepKind:
        """The kind of the next step, of `batch` requests of which none has use for more than `most_rows` rows."""
        batch = bucket_of(batch)
        kinds = self._usable(most_rows)
        kind = None
        self._stands -= 1
        if self._stands < 0 or batch != self._batch or self._current not in kinds:
            self._batch = batch
            kind = self._decide(kinds, batch)
            settled = kind is None and self._current in self._costs.measured(batch)
            self._stands = _EVERY - 1 if settled else 0
        kind = kind or self._current
        self._beginnings.launch(kind, batch)
        return kind

    def observe(self, kind: StepKind, batch: int, seconds: float | None, accepted: Sequence[int]) -> None:
        """A step chosen before is over. seconds: None where something else went on in them, such as a prefill;
        accepted: of each request whose tokens counted."""
        batch = bucket_of(batch)
        self._now += 1
        self._costs.tick()
        if kind.rows > 1 and accepted:
            self._rates[kind.network].add(self._now, kind.rows, accepted)
        began = self._beginnings.caught(kind, batch, seconds)
        if seconds is not None:
            self._spent += seconds
            if not began:
                self._costs.add(kind, batch, seconds)
        if kind == self._trial:
            self._trial = None
            if seconds is not None and accepted:
                tokens = 1 + sum(accepted) / len(accepted)
                self._lost += seconds - tokens * self._seconds_per_token(self._current, batch)

    def _usable(self, most_rows: int | None) -> tuple[StepKind, ...]:
        if most_rows is None:
            return self.kinds
        enough = next((kind.rows for kind in self.kinds if kind.rows >= most_rows), self.kinds[-1].rows)
        return tuple(kind for kind in self.kinds if kind.rows <= enough)

    def _decide(self, kinds: Sequence[StepKind], batch: int) -> StepKind | None:
        """Make the best kind of those that are known the current one; returns another one that should be tried."""
        here, anywhere = self._costs.measured(batch), self._costs.measured()
        known = [k for k in kinds if k in here] or [k for k in kinds if k in anywhere] or kinds
        expected = {network: rates.tokens(self._now) for network, rates in self._rates.items()}
        pace = {kind: self._costs.of(kind, batch) / expected[kind.network][kind.rows - 1] for kind in kinds}
        best = min(known, key=pace.__getitem__)
        if self._current not in known or pace[best] * _MARGIN < pace[self._current]:
            self._current = best
        if self._trial is not None and self._now < self._trial_at + _PATIENCE:
            return None
        if not anywhere:
            return None
        hoped = {network: rates.tokens_at_best(self._now) for network, rates in self._rates.items()}
        least = {kind: self._costs.least(kind, batch) / hoped[kind.network][kind.rows - 1] for kind in kinds}
        for kind in sorted(kinds, key=least.__getitem__):
            if least[kind] * _MARGIN >= pace[self._current]:
                break
            if kind != self._current and self._affordable(kind, batch, pace, expected):
                self._trial, self._trial_at = kind, self._now
                return kind
        return None

    def _affordable(self, kind, batch, pace, expected) -> bool:
        tokens = expected[kind.network][kind.rows - 1]
        loss = tokens * (pace[kind] - pace[self._current]) + self._beginnings.expected(kind, batch)
        return loss <= 0 or self._lost + loss <= _EXPLORED * self._spent

    def _seconds_per_token(self, kind: StepKind, batch: int) -> float:
        return self._costs.of(kind, batch) / self._rates[kind.network].tokens(self._now)[kind.rows - 1]
