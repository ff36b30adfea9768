"""How much a recipe may lose."""

from dataclasses import dataclass

from ocria.errors import UsageError
from ocria.quant.search.divergence import Divergence

DEFAULT = "agreement=99.9%"
"""At most one token in a thousand is chosen otherwise: where a token is a character or more, and each change an error,
that is at most 0.1 points of the character error rate."""
_CURE = "Write agreement=99.9% or kl=0.001."


@dataclass(frozen=True, slots=True)
class Bound:
    """measure: `agreement`, share of tokens that stay the likeliest, at least `limit`; or `kl`, the divergence in nats
    a token, at most `limit`."""

    measure: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> "Bound":
        """From `agreement=99.9%`, `agreement=0.999` or `kl=0.001`. Raises UsageError for anything else."""
        measure, _, number = text.strip().partition("=")
        percent = number.endswith("%")
        try:
            limit = float(number.removesuffix("%")) / (100 if percent else 1)
        except ValueError:
            raise UsageError(f"no bound: {text!r}", cure=_CURE) from None
        if measure not in ("agreement", "kl") or (percent and measure == "kl"):
            raise UsageError(f"no bound: {text!r}", cure=_CURE)
        if not 0 <= limit < float("inf") or (measure == "agreement" and limit > 1):
            raise UsageError(f"{text!r} is no bound that could hold or fail", cure=_CURE)
        return cls(measure, limit)

    def holds(self, loss: Divergence) -> bool:
        """Whether a model that moved so far is within."""
        if self.measure == "kl":
            return loss.kl <= self.limit
        return loss.changed <= 1 - self.limit + 1e-12

    def __str__(self) -> str:
        if self.measure == "kl":
            return f"at most {self.limit:g} nats of KL divergence a token"
        return f"at least {100 * self.limit:g} % of the tokens chosen alike"
