"""How many rows the next step gets, and whether a network drafts for it: what commits most tokens a second.

A long block pays where rows cost next to nothing and drafts hold; plain decoding where a row costs as much as a step or
drafts are wrong. Neither is known beforehand, and both change with the batch and the text, so both are measured in the
steps themselves. Kinds of steps that might be better are tried now and then, as far as the time that this has lost
stays a small share of all.
"""

from collections.abc import Iterable, Sequence

from ocria.runtime.draft_rates import DraftRates
from ocria.runtime.rows import bucket_of
from ocria.runtime.step_costs import FLAT_ROWS, Beginnings, StepCosts, StepKind

LADDER = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
"""Rows of a slot in a step."""
_EVERY = 4
"""A choice stands for so many steps."""
_MARGIN = 1.05
"""How much better another kind must be."""
_EXPLORED = 0.03
"""The share of time that may be lost by trying kinds that turn out worse."""
_UNFORESEEN = 4.0
"""How many times what was foreseen a trial is charged with at most: an interruption is not its fault, and would forbid
others for long."""
_LEAST_LOSS = 0.05
"""Of a step: what a trial is presumed to lose at least, so that kinds as good as the current one are not tried for
ever."""
_AGAIN = 16
"""Steps from one trial of a kind that was measured to the next."""
_PATIENCE = 16
"""A step that has not been observed after so many others never will be."""


def step_kinds(most_rows: int, *, text: bool, network: bool, ladder: Iterable[int] = LADDER) -> tuple[StepKind, ...]:
    """Plain decoding, and the rungs of the ladder up to `most_rows`, which is one itself: with sources of text alone,
    with a network, or either."""
    rows = sorted({rung for rung in ladder if 1 < rung < most_rows} | {most_rows} - {1})
    drafted = [StepKind(rung, with_network) for rung in rows for with_network in (False,) * text + (True,) * network]
    return (StepKind(1), *drafted)


class FixedLength:
    """Every step is of the same kind: for comparisons."""

    def __init__(self, kind: StepKind):
        self.kind = kind

    def choose(self, batch: int, most_rows: int | None = None) -> StepKind:
        """The one kind there is; a step leaves rows alone that have no room."""
        return self.kind

    def observe(self, kind: StepKind, batch: int, seconds: float | None, accepted: Sequence[int]) -> None:
        """Nothing follows from it."""


class BlockLength:
    """Chooses the kind of each step from what such steps cost and how many drafts hold, as seen so far.

    kinds: those there are (see `step_kinds`); each may have to be compiled, or captured at every batch. prior,
    network_prior: the share of drafts that is presumed to hold before anything is known, from sources of text alone
    and with the network among them. flat_rows: see `StepCosts`.

    Call `choose` before a step is launched and `observe` when it is over, in the same order; with overlap one or more
    are on their way. A step that is lost need not be observed.
    """

    def __init__(
        self,
        kinds: Iterable[StepKind],
        *,
        prior: float = 0.7,
        network_prior: float = 0.7,
        flat_rows: float = FLAT_ROWS["cuda"],
    ):
        self.kinds = tuple(sorted(set(kinds)))
        most = self.kinds[-1].rows
        self._rates = {False: DraftRates(prior, most), True: DraftRates(network_prior, most)}
        self._costs = StepCosts(flat_rows)
        self._beginnings = Beginnings()
        self._now = 0  # steps observed
        self._current = self.kinds[0]
        self._asked = (0, 0)  # batch and most rows that the choice was made for
        self._stands = 0  # steps for which it still stands
        self._trial: StepKind | None = None  # launched, not observed yet
        self._foreseen = 0.0  # seconds it would take
        self._tried: dict[StepKind, int] = {}  # when each kind last was
        self._spent = self._lost = 0.0  # seconds: of all steps, and by trials

    def choose(self, batch: int, most_rows: int | None = None) -> StepKind:
        """The kind of the next step, of `batch` requests, none of which can get more than `most_rows` tokens."""
        longest = self.kinds[-1].rows
        asked = bucket_of(batch), longest if most_rows is None else min(most_rows, longest)
        trial = None
        self._stands -= 1
        if self._stands < 0 or asked != self._asked:
            trial = self._decide(*asked)
            settled = trial is None and self._current in self._costs.measured(asked[0])
            self._asked, self._stands = asked, _EVERY - 1 if settled else 0
        kind = trial or self._current
        self._beginnings.launch(kind, asked[0])
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
                took = min(seconds, _UNFORESEEN * self._foreseen)
                self._lost += took - tokens * self._seconds_per_token(self._current, batch)

    def _decide(self, batch: int, most_rows: int) -> StepKind | None:
        """Make the best kind of those that are known the current one; returns another one that should be tried."""
        here, anywhere = self._costs.measured(batch), self._costs.measured_anywhere()
        if not anywhere and 0 < self._now < _PATIENCE:
            return None  # the first choice is on its way, and what it costs is about to be known
        known = [k for k in self.kinds if k in here] or [k for k in self.kinds if k in anywhere] or self.kinds
        if anywhere and self.kinds[0] not in known:
            known = [self.kinds[0], *known]  # plain decoding costs no more than any other, measured or not
        tokens, hoped = self._tokens(most_rows)
        cost = {kind: self._costs.estimate(kind, batch) for kind in self.kinds}
        pace = {kind: cost[kind][0] / tokens[kind] for kind in self.kinds}
        best = min(known, key=pace.__getitem__)
        if self._current not in known or pace[best] * _MARGIN < pace[self._current]:
            self._current = best
        if not anywhere or (self._trial is not None and self._now < self._tried[self._trial] + _PATIENCE):
            return None  # there is nothing to compare with, or a trial is on its way
        current = pace[self._current]
        hope = {kind: cost[kind][1] / hoped[kind] for kind in self.kinds}
        due = [k for k in self.kinds if k not in here or self._now >= self._tried.get(k, -_AGAIN) + _AGAIN]
        hopeful = [k for k in due if hope[k] * _MARGIN < current and k != self._current]
        if not hopeful:
            return None
        begin = {kind: self._beginnings.expected(kind, batch) for kind in hopeful}
        loss = {kind: cost[kind][0] - tokens[kind] * current + begin[kind] for kind in hopeful}
        least = _LEAST_LOSS * cost[self._current][0]
        waited = {kind: self._now - self._tried.get(kind, -1) for kind in hopeful}
        # What it may gain for what it is going to lose; whoever waits long enough has a turn, however dear it is.
        kind = max(hopeful, key=lambda k: waited[k] * (current - hope[k]) / max(loss[k], least))
        if loss[kind] > 0 and self._lost + loss[kind] > _EXPLORED * self._spent:
            return None
        self._trial, self._tried[kind] = kind, self._now
        self._foreseen = cost[kind][0] + begin[kind]
        return kind

    def _tokens(self, most_rows: int) -> tuple[dict[StepKind, float], dict[StepKind, float]]:
        """What a request may get of a step of each kind: as expected, and at best."""
        expected = {network: rates.tokens(self._now) for network, rates in self._rates.items()}
        at_best = {network: rates.tokens_at_best(self._now) for network, rates in self._rates.items()}
        last = {kind: min(kind.rows, most_rows) - 1 for kind in self.kinds}
        tokens = {kind: expected[kind.network][last[kind]] for kind in self.kinds}
        return tokens, {kind: at_best[kind.network][last[kind]] for kind in self.kinds}

    def _seconds_per_token(self, kind: StepKind, batch: int) -> float:
        return self._costs.of(kind, batch) / self._rates[kind.network].tokens(self._now)[kind.rows - 1]
