"""The host's record of one live request."""

from dataclasses import dataclass, field

import torch

from ocria.errors import EngineError, OcriaError
from ocria.model.positions import RopeDelta
from ocria.runtime.guard import Bounds, find_loop
from ocria.runtime.request import Request, Result
from ocria.runtime.text import AnswerText

_STATUS = {"stop": "ok", "length": "truncated", "loop": "degenerate", "timeout": "timeout", "cancelled": "cancelled"}
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
    phase: str = WAITING
    slot: int | None = None
    filled: int = 0  # prompt rows that are in the state
    positions: torch.Tensor | None = None  # int64 [3, prompt], from admission to the end of prefill
    rope_delta: RopeDelta | None = None
    hidden: torch.Tensor | None = None  # embedded prompt [prompt, D], likewise
    started: float = 0.0
    tokens: list[int] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    read: int = 0  # tokens that are in `text`
    sent_at: float = 0.0
    error: OcriaError | None = None

    @property
    def id(self) -> str | int:
        return self.request.id

    @property
    def prompt_len(self) -> int:
        return len(self.ids)

    @property
    def rows(self) -> int:
        """Rows that the request may fill."""
        return len(self.ids) + self.bounds.max_tokens

    @property
    def kv_len(self) -> int:
        """Host upper bound of the rows filled once the next pass has run (decode: its token's row included)."""
        return len(self.ids) + len(self.tokens)

    def decode_text(self) -> None:
        """Turn the tokens that are new since the last call into text."""
        self.text.push(self.tokens[self.read :])
        self.read = len(self.tokens)

    def result(self, reason: str, now: float) -> Result:
        """The result, once all text is taken."""
        error, loop_start = self.error, None
        if reason == "non-finite":
            error = EngineError(
                f"the model's output is not a number after {len(self.tokens)} tokens",
                cure="Try another dtype; if that does not help, the weights are damaged.",
            )
        if reason == "loop":
            loop_start = self.text.length_of(self.tokens[: sum(find_loop(self.tokens, self.bounds.loop_tokens))])
        chosen = self.probabilities
        return Result(
            self.id,
            self.text.all(),
            tuple(self.tokens),
            _STATUS.get(reason, "failed"),
            reason,
            sum(chosen) / len(chosen) if chosen else None,
            min(chosen, default=None),
            self.prompt_len,
            len(self.tokens),
            now - self.started if self.slot is not None else 0.0,
            loop_start,
            error,
        )
