"""The one place where documents talk to the engine: images of lines or pages in, text out."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ocria.document.control import Control
from ocria.document.guess import split_guess
from ocria.document.options import ParseOptions
from ocria.document.result import CANCELLED, DEGENERATE, FAILED, OK, TIMEOUT, TRUNCATED, ModelInfo
from ocria.document.split import split_wide
from ocria.errors import ModelNotFoundError
from ocria.events import EngineTick, PrefillDone, RequestSubmitted, TokensAccepted
from ocria.runtime.acceptance import Acceptance
from ocria.spinning import spin_briefly

if TYPE_CHECKING:
    import torch

    from ocria.runtime.drafting import DraftChoice
    from ocria.runtime.memory import MemoryPlan
    from ocria.runtime.options import EngineOptions, ResolvedOptions
    from ocria.runtime.request import Result

NANO = Path(__file__).parents[1] / "assets" / "nano"
# Pixels of a line image: about 130 characters. Longer lines are rare in the training, and the decoder may lose
# its place in them; they are read in pieces.
_LONGEST_LINE = 2800
STATUSES_WORST_FIRST = (CANCELLED, FAILED, TIMEOUT, DEGENERATE, TRUNCATED, OK)


@dataclass(frozen=True, slots=True)
class ReadText:
    """What the model read in one image."""

    text: str
    confidence: float | None
    """Mean probability of the tokens, in [0, 1]."""
    status: str
    """`ok`, `truncated`, `degenerate`, `timeout`, `failed` or `cancelled`."""
    tokens_in: int
    tokens_out: int
    error: str | None = None
    acceptance: Acceptance = field(default_factory=Acceptance)
    """What became of drafts."""
    alarm_at: int | None = None
    """After how many tokens drafts began to hold while the text repeated itself (see `ocria.runtime.alarm`)."""


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of the image with this index, as it is generated."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Told:
    """An event of the engine that concerns the image with this index."""

    index: int
    event: RequestSubmitted | PrefillDone | TokensAccepted


@dataclass(frozen=True, slots=True)
class Order:
    """What may be sent to a reading in place of asking for its next item."""

    cancel: Collection[int] = ()
    """Give up the images with these indices: their results have the status `cancelled`."""
    held_s: float = 0.0
    """For so many seconds nobody asked, on purpose: time limits do not count them."""


Reading = Generator[Delta | Told | EngineTick, Order | None, list[ReadText]]


class ReaderLike(Protocol):
    """What a document needs of a reader."""

    unit: str
    """`line` or `page`: what one image holds."""
    dialect: str
    """What a page reader answers in, see `ocria.document.dialects`."""
    box_scale: float | None
    """The boxes in its answers run from 0 to this on both axes; None where that is not known."""
    model: ModelInfo

    def stream(self, images: Sequence[np.ndarray], guesses: Sequence[str | None] | None = None) -> Reading:
        """Read the images in one batch; yields the text as it comes, and what the engine tells; returns the results
        in order. Nothing happens between its items, and an `Order` may be sent after the first.

        A line reader takes crops, uint8 [h, w]; a page reader takes pages, uint8 [H, W, 3]. `guesses`: what each of
        them may say; a good guess makes the reading faster, and none changes it.
        """


class Reader:
    """A loaded checkpoint and its engine.

    Args:
        options: which checkpoint, and how it is run.
        shared: documents in several threads use it at the same time, in one batch of the engine; without it one
            waits for the other. Such a reader is to be closed.

    Raises:
        EngineError: the checkpoint or the device cannot be used.
        UsageError: a fact about the checkpoint is unknown and was not given.
    """

    def __init__(self, options: ParseOptions | None = None, shared: bool = False):
        options = options or ParseOptions()
        if options.model is None and not (NANO / "config.json").is_file():
            raise ModelNotFoundError(
                "the embedded model is missing from this installation",
                path=NANO,
                cure="Install ocria again, or name another checkpoint with --model",
            )
        spin_briefly()
        import torch

        from ocria.model.checkpoint import load_model
        from ocria.model.identity import weights_version
        from ocria.runtime.engine import Engine
        from ocria.runtime.opinion import SecondOpinion
        from ocria.runtime.shared import SharedEngine

        if options.threads is not None:
            torch.set_num_threads(options.threads)
        placed = placement(options)
        plan = plan_memory(options, placed)
        loaded = load_model(placed.model, dtype=placed.dtype, device=placed.device)
        profile = loaded.profile.override(**options.profile_overrides)
        self.unit = profile.require("unit")
        self.dialect = profile.require("dialect") if self.unit == "page" else "text"
        self.box_scale = profile.box_scale
        self.model = ModelInfo(profile.name, loaded.source.revision or weights_version(loaded.source.folder))
        self._prompt = loaded.tokenizer.render(profile.messages(), **profile.template_kwargs)
        self._clock = _Clock()
        engine = SharedEngine if shared else Engine
        self.loaded = loaded.with_profile(profile)
        """The model with what the options say of it, for other engines on the same weights."""
        self._engine = engine(self.loaded, placed.options, self._clock)
        self._opinion = SecondOpinion.of(self.loaded)
        self._shared, self._ids = shared, itertools.count()
        self._timeout_s, self._tick_interval_s = options.page_timeout, placed.options.tick_interval_s
        self.about = f"{placed}; {plan}"
        """Device, dtype, the levers that are on and the memory plan, for people."""

    def ran(self) -> str:
        """How the engine's steps really ran so far, and what became of drafts, for people."""
        return f"{self._engine.ran()}; {self._engine.metrics.acceptance}"

    def tick(self) -> EngineTick:
        """What the engine does now, for all who use it."""
        return self._engine.tick()

    def close(self) -> None:
        """End a shared reader; what is being read in other threads ends with an EngineError."""
        if self._shared:
            self._engine.close()

    def stream(self, images: Sequence[np.ndarray], guesses: Sequence[str | None] | None = None) -> Reading:
        """See `ReaderLike.stream`. An image that cannot be used gets a result with the status `failed`."""
        from ocria.runtime.request import Limits, Request

        owners: list[int] = []
        pieces: list[tuple[np.ndarray, str | None]] = []
        answers: list[list[ReadText]] = [[] for _ in images]
        for index, (image, guess) in enumerate(zip(images, guesses or [None] * len(images), strict=True)):
            try:
                cut = self._prepare(image, guess)
            except ValueError as error:
                answers[index] = [ReadText("", None, FAILED, 0, 0, str(error))]
                continue
            pieces += cut
            owners += [index] * len(cut)
        limits = Limits(timeout_s=self._timeout_s)
        keep = self._opinion is not None
        requests = [
            Request(next(self._ids), self._prompt, [piece], limits, guess=guess, keep_image_tokens=keep)
            for piece, guess in pieces
        ]
        owner_of = {int(request.id): owner for request, owner in zip(requests, owners, strict=True)}
        whole = Counter(owners)
        results: dict[int, ReadText] = {}
        ticked = time.monotonic()
        for emission in self._engine.stream(requests):
            number = int(emission.id)
            for event in emission.events:
                self._obey((yield Told(owner_of[number], event)), owner_of)
            if time.monotonic() - ticked >= self._tick_interval_s:
                ticked = time.monotonic()
                self._obey((yield self._engine.tick()), owner_of)
            # The pieces of a split line come in any order: their text is not streamed.
            if emission.text and whole[owner_of[number]] == 1:
                self._obey((yield Delta(owner_of[number], emission.text)), owner_of)
            if emission.result is not None:
                results[number] = self._read_text(emission.result)
        yield self._engine.tick()
        for number, owner in owner_of.items():
            answers[owner].append(results[number])
        return [_joined(parts) for parts in answers]

    def read(self, images: Sequence[np.ndarray]) -> list[ReadText]:
        """Read the images in one batch, without the text on the way."""
        return drain(self.stream(images))

    def read_lines(self, crops: Sequence[np.ndarray]) -> list[ReadText]:
        """Read crops of text lines, uint8 [h, w] each."""
        return self.read(crops)

    def _obey(self, order: Order | None, owner_of: Mapping[int, int]) -> None:
        """`owner_of`: the image of each request of the engine, by its id."""
        if order is None:
            return
        self._clock.held_s += order.held_s
        for number, owner in owner_of.items():
            if owner in order.cancel:
                self._engine.cancel(number)

    def _read_text(self, result: Result) -> ReadText:
        """An engine's result, with a second opinion on its text where there is one. Of a loop the text before it and
        its first round are kept; where the second opinion has the line to its end, there is no loop left."""
        text, status = result.text if result.loop_start is None else result.text[: result.loop_start], result.status
        error = str(result.error) if result.error else None if status == OK else result.finish_reason
        if self._opinion is not None:
            opinion = self._opinion.on(result)
            text = opinion.text
            if opinion.whole and status in (TRUNCATED, DEGENERATE):
                status, error = OK, None
        return ReadText(
            text=text,
            confidence=result.confidence,
            status=status,
            tokens_in=result.tokens_in,
            tokens_out=result.tokens_out,
            error=error,
            acceptance=result.acceptance,
            alarm_at=result.alarm_at,
        )

    def _prepare(self, image: np.ndarray, guess: str | None) -> list[tuple[np.ndarray, str | None]]:
        """What the model gets of one image: the image itself, or a line as line images, with its part of the guess."""
        if self.unit == "page":
            return [(image, guess)]
        from ocria.model.line import line_image, scaled_width

        height, width = image.shape
        most = width * _LONGEST_LINE // max(_LONGEST_LINE, scaled_width(height, width)) if height else width
        pieces = split_wide(image, max(1, most))
        guesses = split_guess(guess, [piece.shape[1] for piece in pieces])
        return [(line_image(piece), part) for piece, part in zip(pieces, guesses, strict=True)]


class _Clock:
    """`time.monotonic`, less the seconds in which a run was held."""

    held_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() - self.held_s


@dataclass(frozen=True, slots=True)
class Placement:
    """What the options come to on this machine: which model, where, how."""

    model: str | Path
    device: torch.device
    dtype: torch.dtype
    options: EngineOptions
    drafts: DraftChoice
    resolved: ResolvedOptions
    formats: str = ""
    """How the file holds linear layers, if some are quantised: `FP8 24, NVFP4 12, bf16 8`."""

    def __str__(self) -> str:
        weights = f"; weights {self.formats}" if self.formats else ""
        return f"{self.device}, {str(self.dtype).removeprefix('torch.')}{weights}; {self.resolved.levers()}"


def placement(options: ParseOptions) -> Placement:
    """Choose device, dtype and drafters; of the weights, headers are read. Raises UsageError for a lever that they rule
    out, ModelNotFoundError for a checkpoint that is not there, ConfigError and CheckpointError for a faulty one."""
    import torch

    from ocria.model.checkpoint import Stored
    from ocria.model.hub import find_model
    from ocria.model.profiles import find_profile
    from ocria.runtime.drafting import choose_drafts
    from ocria.runtime.options import EngineOptions, resolve

    device = torch.device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    dtype = getattr(torch, options.dtype or ("float32" if device.type == "cpu" else "bfloat16"))
    sizes = {} if options.batch is None else {"max_batch": options.batch}
    names = ("compile", "graph", "overlap", "ring", "draft", "draft_rows", "verify", "activations", "kv_cache")
    levers = {name: getattr(options, name) for name in names}
    chosen = EngineOptions(**sizes, **levers, memory_bytes=options.memory_bytes)
    model = NANO if options.model is None else options.model
    source = find_model(model)
    unit = find_profile(source.folder, source.name).override(**options.profile_overrides).require("unit")
    drafts = choose_drafts(chosen.draft, source.folder, unit, chosen.draft_rows)
    stored = Stored.of(source.folder)
    inputs = stored.quantises_inputs or drafts.quantises_inputs
    resolved = resolve(chosen, device, drafts.rows, str(drafts), inputs)
    return Placement(model, device, dtype, chosen, drafts, resolved, stored.formats(dtype) if stored.quantized else "")


def plan_memory(options: ParseOptions, placed: Placement) -> MemoryPlan:
    """How the model will use the memory; its weights are not read for it. Raises EngineError if it does not fit."""
    from ocria.runtime.budget import plan_checkpoint

    return plan_checkpoint(
        placed.model, placed.resolved, placed.dtype, placed.device, options.profile_overrides, placed.drafts
    )


def drain(
    reading: Reading, on_delta: Callable[[Delta], None] | None = None, control: Control | None = None
) -> list[ReadText]:
    """Run a reading to its end, but for the pauses of `control`, and return the results."""
    order = None
    while True:
        try:
            item = reading.send(order)
        except StopIteration as end:
            return end.value
        if on_delta is not None and isinstance(item, Delta):
            on_delta(item)
        held_s = 0.0 if control is None else control.hold()
        order = Order(held_s=held_s) if held_s else None


def _joined(pieces: list[ReadText]) -> ReadText:
    """The pieces of one image as one result."""
    if len(pieces) == 1:
        return pieces[0]
    worst = min(pieces, key=lambda piece: STATUSES_WORST_FIRST.index(piece.status))
    return ReadText(
        text=" ".join(piece.text.strip() for piece in pieces if piece.text.strip()),
        confidence=mean_confidence(pieces),
        status=worst.status,
        tokens_in=sum(piece.tokens_in for piece in pieces),
        tokens_out=sum(piece.tokens_out for piece in pieces),
        error=worst.error,
        acceptance=sum((piece.acceptance for piece in pieces), Acceptance()),
        alarm_at=next((piece.alarm_at for piece in pieces if piece.alarm_at), None),
    )


def acceptance_of(results: Sequence[ReadText]) -> dict[str, Any] | None:
    """What became of all their drafts, as plain data; None without any."""
    whole = sum((result.acceptance for result in results), Acceptance())
    return whole.as_dict() if whole else None


def mean_confidence(results: Sequence[ReadText]) -> float | None:
    """Mean confidence, weighted by the tokens; None where nothing was read."""
    pairs = [(r.confidence, max(1, r.tokens_out)) for r in results if r.confidence is not None]
    if not pairs:
        return None
    return round(sum(c * n for c, n in pairs) / sum(n for _, n in pairs), 4)
