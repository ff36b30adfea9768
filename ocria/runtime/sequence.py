"""The host's record of one live request."""

from dataclasses import dataclass, field

import torch

from ocria.errors import EngineError, OcriaError, TimeoutExceeded
from ocria.events import Event, TokensAccepted
from ocria.model.positions import RopeDelta
from ocria.runtime.acceptance import Acceptance
from ocria.runtime.alarm import AcceptanceAlarm
from ocria.runtime.guard import Bounds, loop_of
from ocria.runtime.request import Request, Result
from ocria.runtime.text import AnswerText

_STATUS = {"stop": "ok", "length": "truncated"}
WAITING, PREFILL, DECODE, DONE = "waiting", "prefill", "decode", "done"


@dataclass(eq=False)
class Sequence:
    """A request from `submit` to its result. The scheduler and the engine alone change it.

    `ids`: the prompt, image placeholders repeated; `grids`: (1, rows, columns) of each image in patches.
    """

    request: Request
    ids: list[int]
    grids: list[tuple[int, int, int]]
    bounds: Bounds
    text: AnswerText
    guess: tuple[int, ...] | None = None  # the answer as the caller presumes it
    stop_id: int | None = None  # the token that most likely ends it
    phase: str = WAITING
    slot: int | None = None
    filled: int = 0  # prompt rows that are in the state
    pending: int = 0  # steps that are launched and not read yet
    positions: torch.Tensor | None = None  # int64 [3, prefill_len], from admission to the end of prefill
    rope_delta: RopeDelta | None = None
    hidden: torch.Tensor | None = None  # embedded prompt [prefill_len, D], likewise
    image_tokens: torch.Tensor | None = None  # [N, D] from admission on, if the request asked for them
    started: float = 0.0
    tokens: list[int] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    read: int = 0  # tokens that are in `text`
    emitted: int = 0  # tokens since the last event about them
    acceptance: Acceptance = field(default_factory=Acceptance)
    alarm: AcceptanceAlarm = field(default_factory=AcceptanceAlarm)
    told: Acceptance = field(default_factory=Acceptance)  # of it, what was in events
    sent_at: float = 0.0
    error: OcriaError | None = None

    @property
    def id(self) -> str | int:
        return self.request.id

    @property
    def prompt_len(self) -> int:
        return len(self.ids)

    @property
    def feed(self) -> list[int]:
        """The prompt, and after a restart the tokens that were chosen before it."""
        return self.ids + self.tokens

    @property
    def prefill_len(self) -> int:
        """Rows that a prefill computes: the last token of `feed` is left to the first step."""
        return len(self.ids) + len(self.tokens) - 1

    @property
    def left(self) -> int:
        """Output tokens that are still allowed."""
        return self.bounds.max_tokens - len(self.tokens)

    @property
    def rows(self) -> int:
        """Rows that the request may fill."""
        return len(self.ids) + self.bounds.max_tokens

    def kv_len(self, rows: int, most: int) -> int:
        """Host upper bound of the rows filled once a step of `rows` rows has run after those that are pending, of
        `most` rows each."""
        return min(len(self.ids) + len(self.tokens) - 1 + self.pending * most + rows, self.rows)

    def restart(self) -> None:
        """Forget all that is in the state; what was chosen so far becomes part of the prompt."""
        self.phase, self.slot, self.filled, self.pending = WAITING, None, 0, 0
        self.hidden = self.positions = self.rope_delta = None

    def news(self) -> tuple[Event, ...]:
        """An event for the progress since the last call, if there is any."""
        if not self.emitted:
            return ()
        new, tokens = self.acceptance.since(self.told), self.emitted
        self.emitted, self.told = 0, self.acceptance.copy()
        return (TokensAccepted(self.id, tokens, new.drafted, new.accepted, acceptance=new or None),)

    def decode_text(self) -> None:
        """Turn the tokens that are new since the last call into text."""
        self.text.push(self.tokens[self.read :])
        self.read = len(self.tokens)

    def result(self, reason: str, now: float) -> Result:
        """The result, once all text is taken."""
        error, loop_start = self.error, None
        if reason == "failed" and error is None:
            error = EngineError(
                f"the model's output is not a number after {len(self.tokens)} tokens",
                cure="Try another dtype; if that does not help, the weights are damaged.",
            )
        if reason == "timeout":
            error = TimeoutExceeded(
                f"time ran out after {self.request.limits.timeout_s:g} s and {len(self.tokens)} tokens",
                cure="Raise --page-timeout, or leave it out.",
            )
        if reason == "degenerate":
            loop_start = self.text.length_of(self.tokens[: sum(loop_of(self.tokens, self.bounds))])
        chosen = self.probabilities
        return Result(
            self.id,
            self.text.all(),
            tuple(self.tokens),
            _STATUS.get(reason, reason),
            reason,
            sum(chosen) / len(chosen) if chosen else None,
            min(chosen, default=None),
            self.prompt_len,
            len(self.tokens),
            now - self.started if self.slot is not None else 0.0,
            loop_start,
            error,
            self.acceptance,
            self.alarm.rang_at,
            tuple(chosen),
            self.image_tokens,
        )
