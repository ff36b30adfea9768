"""How tokens are drawn where the likeliest one is not wanted."""

import zlib
from dataclasses import dataclass

from ocria.errors import UsageError

LEAST_TEMPERATURE = 1e-6
"""Logits over less may leave the range of fp32, and infinite ones cannot be told apart."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Draw from softmax(logits / temperature), cut to the `top_k` likeliest tokens (0: all), then to the least set of
    them with a probability of `top_p`. Draws depend on the seed and the token's place alone, so that a request gets
    the same ones in every batch; `seed` None: one that follows from the request's id.

    Raises UsageError for values out of range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self):
        if not LEAST_TEMPERATURE <= self.temperature <= 100.0:
            raise UsageError(
                f"temperature must be from {LEAST_TEMPERATURE:g} to 100, got {self.temperature}",
                cure="For the likeliest token every time, leave sampling out.",
            )
        if not 0 <= self.top_k < 1 << 63:
            raise UsageError(f"top_k must be 0 or more and fit 64 bits, got {self.top_k}")
        if not 0.0 < self.top_p <= 1.0:
            raise UsageError(f"top_p must be above 0 and at most 1, got {self.top_p}")
        if self.seed is not None and not 0 <= self.seed < 1 << 63:
            raise UsageError(f"a seed is a number from 0 to 2**63 - 1, got {self.seed}")

    def seed_of(self, request_id: str | int) -> int:
        """The seed of a request's draws."""
        return zlib.crc32(repr(request_id).encode()) if self.seed is None else self.seed
