"""The model of a server: loaded beside everything else, and shared by all documents."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ocria.document.options import ParseOptions
from ocria.errors import EngineError, OcriaError

if TYPE_CHECKING:
    import numpy as np

    from ocria.document.reader import Reader, Reading
    from ocria.document.result import ModelInfo
    from ocria.events import EngineTick


_KERNELS = "256"
"""That oneDNN keeps: it compiles one for each number of rows, which requests of many clients mix in ever new ways, and
its own choice, 1024, lets a server grow for hundreds of requests. Without effect once torch has used it, or where the
user has set the variable."""


class ServedModel:
    """A reader for all documents (see `ocria.document.reader.ReaderLike`) that is loaded in a thread of its own; who
    needs it before waits.

    Args:
        options: which checkpoint, and how it is run.
        on_loaded: called once, in that thread, with the error that kept it from being loaded, or None.
    """

    def __init__(self, options: ParseOptions, on_loaded: Callable[[OcriaError | None], None]):
        self._options, self._on_loaded = options, on_loaded
        self._reader: Reader | None = None
        self._error: OcriaError | None = None
        self._loaded = threading.Event()
        self._thread = threading.Thread(target=self._load, name="ocria-model", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def state(self) -> str:
        """`loading`, `ready` or `failed`."""
        return "loading" if not self._loaded.is_set() else "ready" if self._error is None else "failed"

    @property
    def about(self) -> str:
        """How it is placed, for people."""
        return self._ready().about

    @property
    def unit(self) -> str:
        return self._ready().unit

    @property
    def dialect(self) -> str:
        return self._ready().dialect

    @property
    def box_scale(self) -> float | None:
        return self._ready().box_scale

    @property
    def model(self) -> ModelInfo:
        return self._ready().model

    def stream(self, images: Sequence[np.ndarray], guesses: Sequence[str | None] | None = None) -> Reading:
        """See `ReaderLike.stream`."""
        try:
            return (yield from self._ready().stream(images, guesses))
        except OcriaError:
            raise
        except Exception as error:  # of any library below
            raise EngineError(f"the engine failed: {type(error).__name__}: {error}") from error

    def tick(self) -> EngineTick | None:
        """What the engine does now; None before it is there."""
        return self._reader.tick() if self._reader is not None else None

    def close(self) -> None:
        """End it, and whatever is still with it; waits for a model that is being loaded."""
        if self._thread.is_alive():
            self._thread.join()
        if self._reader is not None:
            self._reader.close()

    def _load(self) -> None:
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _KERNELS)
        from ocria.document.reader import Reader

        try:
            self._reader = Reader(self._options, shared=True)
        except OcriaError as error:
            self._error = error
        except Exception as error:  # of any library below
            self._error = EngineError(f"the model cannot be loaded: {type(error).__name__}: {error}")
        self._loaded.set()
        self._on_loaded(self._error)

    def _ready(self) -> Reader:
        self._loaded.wait()
        if self._reader is None:
            raise EngineError("the model could not be loaded")
        return self._reader
