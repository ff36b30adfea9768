"""Counters of an engine, each defined here and nowhere else."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ocria.errors import EngineError
from ocria.events import EngineTick
from ocria.runtime.acceptance import Acceptance
from ocria.runtime.memory import MemoryPlan
from ocria.runtime.traffic import Traffic

WINDOW_S = 1.0
"""What `last` speeds look back on."""


@dataclass(slots=True)
class _Passes:
    """Passes of one kind. `last` holds (end, seconds, tokens, bytes) of those that ended within the window."""

    tokens: int = 0
    seconds: float = 0.0
    count: int = 0
    last: deque[tuple[float, float, int, int]] = field(default_factory=deque)

    def add(self, now: float, seconds: float, tokens: int, moved: int = 0) -> None:
        self.tokens += tokens
        self.seconds += seconds
        self.count += 1
        self.last.append((now, seconds, tokens, moved))
        self.forget(now)

    def forget(self, now: float) -> None:
        while self.last and self.last[0][0] <= now - WINDOW_S:
            self.last.popleft()

    def per_s(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0

    def last_per_s(self, now: float) -> tuple[float, float]:
        """Tokens and bytes a second of the passes in the window; zeros when there are none."""
        self.forget(now)
        seconds = sum(entry[1] for entry in self.last)
        if not seconds:
            return 0.0, 0.0
        return sum(entry[2] for entry in self.last) / seconds, sum(entry[3] for entry in self.last) / seconds


class Metrics:
    """What an engine did. Seconds are wall time of the passes, so that speeds say nothing about idle time.

    emitted: tokens that steps chose for requests, stop tokens included. acceptance: what became of drafts, a count for
    each request in each step. prefilled: prompt rows, image tokens included. encoder_seconds: part of the prefill's
    seconds: image processing and vision encoder. finished: requests that ended, however they did.

    Args:
        traffic: to estimate the bytes that decoding moves; None where that is not known.
        clock: seconds, for the window.
    """

    def __init__(self, traffic: Traffic | None = None, clock: Callable[[], float] = time.monotonic):
        self._traffic, self._clock = traffic, clock
        self._decode, self._prefill = _Passes(), _Passes()
        self.acceptance = Acceptance()
        self.finished = 0
        self.encoder_seconds = 0.0

    def step(self, *, emitted: int, acceptance: Acceptance, seconds: float, kv_rows: int = 0) -> None:
        """Count one decode step over the requests in `acceptance`, whose states held `kv_rows` rows together.

        Call it once for each step, when its tokens are known. Raises EngineError for more tokens than accepted drafts
        and one a request.
        """
        if not 0 <= emitted <= acceptance.committed:
            raise EngineError(f"a step that commits {acceptance.committed} rows cannot emit {emitted} tokens")
        moved = self._traffic.of_step(acceptance.steps, kv_rows) if self._traffic else 0
        self._decode.add(self._clock(), seconds, emitted, moved)
        self.acceptance += acceptance

    def prefill(self, *, rows: int, seconds: float, encoder_seconds: float = 0.0) -> None:
        """Count one prefill pass over `rows` prompt rows, padding not counted; `seconds` include the encoder's."""
        self._prefill.add(self._clock(), seconds, rows)
        self.encoder_seconds += encoder_seconds

    @property
    def emitted(self) -> int:
        return self._decode.tokens

    @property
    def decode_steps(self) -> int:
        return self._decode.count

    @property
    def decode_seconds(self) -> float:
        return self._decode.seconds

    @property
    def prefilled(self) -> int:
        return self._prefill.tokens

    @property
    def prefill_seconds(self) -> float:
        return self._prefill.seconds

    @property
    def decode_tokens_per_s(self) -> float:
        return self._decode.per_s()

    @property
    def prefill_tokens_per_s(self) -> float:
        return self._prefill.per_s()

    def tick(
        self, running: int, waiting: int, plan: MemoryPlan | None = None, device_bytes: int | None = None
    ) -> EngineTick:
        """All of it for people, at this moment. `plan`: what is allocated; `device_bytes`: see `used_memory`."""
        tokens_per_s, bytes_per_s = self._decode.last_per_s(self._clock())
        moved = bytes_per_s if self._traffic and self._decode.last else None
        limit = self._traffic.limit if self._traffic else None
        return EngineTick(
            decode_tokens_per_s=self.decode_tokens_per_s,
            prefill_tokens_per_s=self.prefill_tokens_per_s,
            running=running,
            waiting=waiting,
            decode_tokens_per_last_s=tokens_per_s,
            prefill_tokens_per_last_s=self._prefill.last_per_s(self._clock())[0],
            accept_length=self.acceptance.accept_length,
            acceptance=self.acceptance.copy() if self.acceptance else None,
            state_bytes=None if plan is None else plan.bytes,
            device_bytes=device_bytes,
            bytes_per_s=moved,
            bandwidth_percent=None if moved is None or limit is None else 100 * moved / limit,
        )
