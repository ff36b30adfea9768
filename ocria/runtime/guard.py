"""When a request must end although the model has not said so: length, loops, time."""

from collections.abc import Sequence
from dataclasses import dataclass

MIN_ROUNDS = 4
"""A loop has been round at least this often."""
CHECK_EVERY = 16
"""Tokens between two looks for a loop."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one request may do. `loop_tokens`: repetition of fewer tokens is text that the image can hold (dot
    leaders, ruled tables, rows of zeros), more is a loop. `deadline`: on the engine's clock."""

    stop_ids: frozenset[int]
    max_tokens: int
    loop_tokens: int
    deadline: float | None = None


def find_loop(tokens: Sequence[int], least: int) -> tuple[int, int] | None:
    """(start, period) of a repetition that covers at least the last `least` tokens in at least MIN_ROUNDS rounds.

    The shortest period wins; `start` is where its first round begins. None when the end does not repeat.
    """
    count = len(tokens)
    if count < max(least, MIN_ROUNDS):
        return None
    tail = tokens[count - least :]
    for period in range(1, least // MIN_ROUNDS + 1):
        if tail[-1] != tail[-1 - period] or tail[period:] != tail[:-period]:
            continue
        start = count - least
        while start > 0 and tokens[start - 1] == tokens[start - 1 + period]:
            start -= 1
        return start, period
    return None


def verdict(tokens: Sequence[int], bounds: Bounds, now: float) -> str | None:
    """Why the request must end after these tokens: `loop`, `length`, `timeout`, or None.

    A loop is also looked for at the length limit, so that running away is not taken for a long text.
    """
    at_limit = len(tokens) >= bounds.max_tokens
    if (at_limit or len(tokens) % CHECK_EVERY == 0) and find_loop(tokens, bounds.loop_tokens):
        return "loop"
    if at_limit:
        return "length"
    if bounds.deadline is not None and now >= bounds.deadline:
        return "timeout"
    return None
