"""What is asked of the engine, and what it answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ocria.errors import OcriaError, UsageError
from ocria.events import Event
from ocria.runtime.acceptance import Acceptance
from ocria.runtime.sampling import Sampling

STATUSES = ("ok", "truncated", "degenerate", "cancelled", "failed", "timeout")
FINISH_REASONS = ("stop", "length", "degenerate", "failed", "cancelled", "timeout")


@dataclass(frozen=True, slots=True)
class Limits:
    """When a request ends, besides the stop tokens of the checkpoint. None: the profile's own limit.

    Raises UsageError for less than one token.
    """

    max_tokens: int | None = None
    """Most output tokens, the stop token not counted."""
    stop_ids: tuple[int, ...] = ()
    timeout_s: float | None = None
    """Seconds from `submit`, waiting included."""

    def __post_init__(self):
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError(f"max_tokens must be at least 1, got {self.max_tokens}")


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One prompt with its images. `id` is the caller's name for it, unique among the live requests.

    `prompt`: text, or token ids, with one image placeholder token for each image (the engine repeats it to the
    number of image tokens); the last token is text. `images`: uint8 arrays [H, W] or [H, W, 3], or PIL images.
    `sampling`: None takes the likeliest token every time. `guess`: what the answer may be, such as the text that a
    PDF holds beside its picture; it is used for drafting alone, so the answer does not depend on it.
    """

    id: str | int
    prompt: str | Sequence[int]
    images: Sequence[Any] = ()
    limits: Limits = field(default_factory=Limits)
    sampling: Sampling | None = None
    guess: str | None = None
    keep_image_tokens: bool = False
    """The result is to bring what the vision encoder made of the images."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a request ended.

    `status` is one of `STATUSES` and `finish_reason` one of `FINISH_REASONS`; `error` says more where there is more
    to say, as of a request that failed. Confidence is over the tokens that the model chose, the stop token included:
    mean and minimum of their probability; None when it chose none.
    """

    id: str | int
    text: str
    tokens: tuple[int, ...]
    status: str
    finish_reason: str
    confidence: float | None
    min_confidence: float | None
    tokens_in: int
    tokens_out: int
    seconds: float
    """From the first work on the request to its end; waiting is not counted."""
    loop_start: int | None = None
    """Characters of `text` that precede the repetition and its first round, when the status is `degenerate`."""
    error: OcriaError | None = None
    acceptance: Acceptance = field(default_factory=Acceptance)
    """What became of drafts."""
    alarm_at: int | None = None
    """After how many tokens acceptance rose far above its level while the text repeated itself: worth a look."""
    probabilities: tuple[float, ...] = ()
    """Of every token, and of the stop token, if the model chose one."""
    image_tokens: Any = None
    """Of a request that asked for them: a tensor `[N, D]` on the device; None where the images were never read."""


@dataclass(frozen=True, slots=True)
class Emission:
    """What one step brought for one request: new text, events, and the result when it ended.

    The texts of a request's emissions joined are the text of its result. The events are `RequestSubmitted`,
    `PrefillDone` and `TokensAccepted`, without a path, page and unit, which the engine does not know.
    """

    id: str | int
    text: str
    result: Result | None = None
    events: tuple[Event, ...] = ()
