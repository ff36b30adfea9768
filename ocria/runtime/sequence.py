"""The host's record of one live request."""

from dataclasses import dataclass, field

import torch

from ocria.errors import EngineError, OcriaError
from ocria.model.positions import RopeDelta
from ocria.model.tokens import StreamDecoder, Tokenizer
from ocria.runtime.guard import Bounds, find_loop
from ocria.runtime.request import Request, Result

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
    submitted: float
    tokenizer: Tokenizer
    phase: str = WAITING
    slot: int | None = None
    filled: int = 0  # prompt rows that are in the state
    positions: torch.Tensor | None = None  # int64 [3, prompt], from admission to the end of prefill
    rope_delta: RopeDelta | None = None
    hidden: torch.Tensor | None = None  # embedded prompt [prompt, D], likewise
    started: float = 0.0
    tokens: list[int] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    decoder: StreamDecoder = field(init=False)
    text: list[str] = field(default_factory=list)
    sent: int = 0  # tokens given to the stream decoder
    sent_at: float = 0.0
    error: OcriaError | None = None

    def __post_init__(self):
        self.decoder = StreamDecoder(self.tokenizer)

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

    def new_text(self, end: bool = False) -> str:
        """The text that has become certain since the last call; with `end`, all of the rest."""
        text = self.decoder.push(self.tokens[self.sent :])
        self.sent = len(self.tokens)
        if end:
            text += self.decoder.finish()
        self.text.append(text)
        return text

    def result(self, reason: str, now: float) -> Result:
        """The result, once all text is out."""
        text = "".join(self.text)
        error, loop_start = self.error, None
        if reason == "non-finite":
            error = EngineError(
                f"the model's output is not a number after {len(self.tokens)} tokens",
                cure="Try another dtype; if that does not help, the weights are damaged.",
            )
        if reason == "loop":
            start, period = find_loop(self.tokens, self.bounds.loop_tokens)
            loop_start = len(StreamDecoder(self.tokenizer).push(self.tokens[: start + period]))
        chosen = self.probabilities
        return Result(
            self.id,
            text,
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
