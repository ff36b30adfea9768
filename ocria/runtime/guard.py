"""When a request must end although the model has not said so: length, loops, time."""

from collections.abc import Sequence
from dataclasses import dataclass

MIN_ROUNDS = 4
"""A loop has been round at least this often."""
CHECKS = 16
"""Looks for a loop while the least that a loop covers goes by: it is seen at most a sixteenth later."""
_SUFFIX = 8  # tokens compared before whole windows are: few periods get past it


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
    window = tokens[count - least :]
    compared = min(_SUFFIX, least // 2)
    last, suffix = window[-1], window[-compared:]
    for period in range(1, least // MIN_ROUNDS + 1):
        if last != window[-1 - period] or suffix != window[-compared - period : -period]:
            continue
        if window[period:] != window[:-period]:
            continue
        start = count - least
        while start > 0 and tokens[start - 1] == tokens[start - 1 + period]:
            start -= 1
        return start, period
    return None


def loop_of(tokens: Sequence[int], bounds: Bounds) -> tuple[int, int] | None:
    """The loop at the end of an answer, as `find_loop` gives it.

    At the length limit half of `loop_tokens` is enough: honest text seldom gets there, and an answer that ran away
    after a good beginning has no room for more.
    """
    at_limit = len(tokens) >= bounds.max_tokens
    return find_loop(tokens, bounds.loop_tokens // 2 if at_limit else bounds.loop_tokens)


def verdict(tokens: Sequence[int], bounds: Bounds, now: float) -> str | None:
    """Why the request must end after these tokens: `degenerate` (see `loop_of`), `length`, `timeout`, or None. Ask
    after every token."""
    at_limit = len(tokens) >= bounds.max_tokens
    due = len(tokens) % max(1, bounds.loop_tokens // CHECKS) == 0
    if (at_limit or due) and loop_of(tokens, bounds):
        return "degenerate"
    if at_limit:
        return "length"
    if bounds.deadline is not None and now >= bounds.deadline:
        return "timeout"
    return None
