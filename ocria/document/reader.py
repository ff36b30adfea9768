"""The one place where documents talk to the engine: images of lines or pages in, text out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ocria.document.options import ParseOptions
from ocria.document.result import ModelInfo
from ocria.errors import ModelNotFoundError

if TYPE_CHECKING:
    from ocria.runtime.request import Result

NANO = Path(__file__).parents[1] / "assets" / "nano"
_MOST_HASHED_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class ReadText:
    """What the model read in one image."""

    text: str
    confidence: float | None
    """Mean probability of the tokens, in [0, 1]."""
    status: str
    """`ok`, `truncated`, `degenerate`, `timeout` or `failed`."""
    tokens_in: int
    tokens_out: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of the image with this index, as it is generated."""

    index: int
    text: str


Reading = Generator[Delta, None, list[ReadText]]


class ReaderLike(Protocol):
    """What a document needs of a reader."""

    unit: str
    """`line` or `page`: what one image holds."""
    model: ModelInfo

    def stream(self, images: Sequence[np.ndarray]) -> Reading:
        """Read the images in one batch; yields the text as it comes, returns the results in order.

        A line reader takes crops, uint8 [h, w]; a page reader takes pages, uint8 [H, W, 3].
        """


class Reader:
    """A loaded checkpoint and its engine.

    Raises:
        EngineError: the checkpoint or the device cannot be used.
        UsageError: a fact about the checkpoint is unknown and was not given.
    """

    def __init__(self, options: ParseOptions | None = None):
        options = options or ParseOptions()
        if options.model is None and not (NANO / "config.json").is_file():
            raise ModelNotFoundError(
                "the embedded model is missing from this installation",
                path=NANO,
                cure="Install ocria again, or name another checkpoint with --model",
            )
        import torch

        from ocria.model.checkpoint import load_model
        from ocria.runtime.engine import Engine
        from ocria.runtime.options import EngineOptions

        if options.threads is not None:
            torch.set_num_threads(options.threads)
        device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
        dtype = options.dtype or ("float32" if device == "cpu" else "bfloat16")
        loaded = load_model(options.model or NANO, dtype=getattr(torch, dtype), device=device)
        profile = loaded.profile.override(**options.profile_overrides)
        self.unit = profile.require("unit")
        self.model = ModelInfo(profile.name, loaded.source.revision or _weights_version(loaded.source.folder))
        self._prompt = loaded.tokenizer.render(profile.messages(), **profile.template_kwargs)
        sizes = {} if options.batch is None else {"max_batch": options.batch}
        self._engine = Engine(loaded.with_profile(profile), EngineOptions(**sizes))

    def stream(self, images: Sequence[np.ndarray]) -> Reading:
        """See `ReaderLike.stream`."""
        from ocria.runtime.request import Request

        requests = [
            Request(index, self._prompt, [self._prepare(image)]) for index, image in enumerate(images)
        ]
        results: list[ReadText | None] = [None] * len(requests)
        for emission in self._engine.stream(requests):
            if emission.text:
                yield Delta(int(emission.id), emission.text)
            if emission.result is not None:
                results[int(emission.id)] = _read_text(emission.result)
        return results

    def read(self, images: Sequence[np.ndarray]) -> list[ReadText]:
        """Read the images in one batch, without the text on the way."""
        return drain(self.stream(images))

    def read_lines(self, crops: Sequence[np.ndarray]) -> list[ReadText]:
        """Read crops of text lines, uint8 [h, w] each."""
        return self.read(crops)

    def read_page(self, image: np.ndarray) -> ReadText:
        """Read one page image, uint8 [H, W, 3]."""
        return self.read([image])[0]

    def _prepare(self, image: np.ndarray) -> np.ndarray:
        if self.unit == "line":
            from ocria.model.line import line_image

            return line_image(image)
        return image


def drain(reading: Reading, on_delta: Callable[[Delta], None] | None = None) -> list[ReadText]:
    """Run a reading to its end and return the results."""
    while True:
        try:
            delta = next(reading)
        except StopIteration as end:
            return end.value
        if on_delta is not None:
            on_delta(delta)


def _weights_version(folder: Path) -> str | None:
    """The start of the weights' SHA-256; None for a checkpoint too large to hash at every start."""
    from ocria.model.weights import weight_files

    files = weight_files(folder)
    if sum(file.stat().st_size for file in files) > _MOST_HASHED_BYTES:
        return None
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _read_text(result: Result) -> ReadText:
    return ReadText(
        text=result.text,
        confidence=result.confidence,
        status="failed" if result.status == "cancelled" else result.status,
        tokens_in=result.tokens_in,
        tokens_out=result.tokens_out,
        error=str(result.error) if result.error else None if result.status == "ok" else result.finish_reason,
    )
