"""What became of a run on a cluster, counted from receipts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ocria.batch.tally import Failure, Tally
from ocria.cluster.job import Receipt
from ocria.errors import EXIT_FAILED

_MOST_FAILURES = 10_000


@dataclass(slots=True)
class Outcome:
    """Counts of a run."""

    max_errors: int | None = None
    """How many documents may fail."""
    tally: Tally = field(default_factory=lambda: Tally(0))
    engine_seconds: float = 0.0
    """In which engines had a document."""
    seconds: float = 0.0
    bad_before: int = 0
    """Documents that earlier runs read and that did not come out whole; they were skipped."""
    stopped: bool = False
    """Whether it ended before all was done, by the user's wish or by too many errors."""

    @property
    def too_many_errors(self) -> bool:
        return self.max_errors is not None and self.tally.failed > self.max_errors

    def take(self, receipt: Receipt) -> None:
        """Count a document."""
        tally = self.tally
        setattr(tally, receipt.outcome, getattr(tally, receipt.outcome) + 1)
        tally.codes.append(receipt.code)
        tally.pages += receipt.pages
        tally.tokens_out += receipt.tokens
        tally.failed_pages += sum(bad["page"] is not None for bad in receipt.bad)
        self.engine_seconds += receipt.seconds
        if len(tally.failures) < _MOST_FAILURES:
            tally.failures += _failures(receipt)

    def close(self, listed: int, listed_all: bool, skipped: dict[int, int]) -> None:
        """Count what earlier runs have done, by the code it came to, and what a stop has left."""
        tally = self.tally
        for code, count in skipped.items():
            tally.skipped += count
            tally.codes += [code] * count
            self.bad_before += count if code else 0
        done = tally.ok + tally.partial + tally.failed + tally.skipped
        left = (listed - done if listed_all else max(1, listed - done)) if self.stopped else 0
        tally.documents = done + left

    def exit_code(self, fail_on: str) -> int:
        """As `ocria parse` of many; 1 where too many errors ended the run."""
        return EXIT_FAILED if self.too_many_errors else self.tally.exit_code(fail_on)


def _failures(receipt: Receipt) -> Iterator[Failure]:
    reasons: dict[tuple[str, str], list[int]] = {}
    for bad in receipt.bad:
        pages = reasons.setdefault((bad["status"], bad["why"]), [])
        if bad["page"] is not None:
            pages.append(bad["page"])
    for (status, why), pages in reasons.items():
        cure = receipt.cure or "--retry-failed reads it again"
        yield Failure(receipt.path, tuple(pages), status, why, cure)
