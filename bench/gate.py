"""Whether two ways to decode give the same answers: either is right where two tokens are equally likely but for
rounding, which a teacher-forced pass tells."""

from __future__ import annotations

from dataclasses import dataclass

TIE = 1e-4
"""Logits that are nearer to each other than this may come out in either order."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Answers that are not those of plain decoding: lines, and of them those where the two tokens that differ first
    are within `tie` of each other."""

    different: int
    ties: int


def gate(plain: list, others: list, requests: list, teacher, tie: float = TIE) -> Gate:
    """Compare the answers of two sides."""
    different = ties = 0
    for request, a, b in zip(requests, plain, others, strict=True):
        if a.tokens == b.tokens and a.finish_reason == b.finish_reason:
            continue
        different += 1
        pairs = enumerate(zip(a.tokens, b.tokens, strict=False))
        first = next((i for i, (x, y) in pairs if x != y), min(len(a.tokens), len(b.tokens)))
        regrets = teacher.regrets(request, b)
        ties += first < len(regrets) and float(regrets[first]) < tie
    return Gate(different, ties)
