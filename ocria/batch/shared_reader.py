"""One model for all documents of a batch, loaded when the first page needs it."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event as Flag
from typing import TYPE_CHECKING

from ocria.document.control import Control
from ocria.document.options import ParseOptions
from ocria.errors import EngineError, OcriaError

if TYPE_CHECKING:
    import numpy as np

    from ocria.document.reader import ReaderLike, Reading
    from ocria.document.result import ModelInfo


class SharedReader:
    """A reader that loads its model on first use. Arguments as in `ocria.parse`; see `ReaderLike` for the rest."""

    def __init__(self, options: ParseOptions, reader: ReaderLike | None = None):
        self._options, self._reader = options, reader
        self._given = reader is not None
        self.busy = False
        """Whether images are with the model."""

    @property
    def unit(self) -> str:
        return self._load().unit

    @property
    def dialect(self) -> str:
        return self._load().dialect

    @property
    def box_scale(self) -> float | None:
        return self._load().box_scale

    @property
    def model(self) -> ModelInfo:
        return self._load().model

    @property
    def identity(self) -> str:
        """Tells the model from others, without loading it."""
        if self._given:
            return f"{self.model.name} {self.model.version}"
        from ocria.model.identity import EMBEDDED_DEFAULT, identity

        return identity(self._options.model or EMBEDDED_DEFAULT)

    def stream(self, images: Sequence[np.ndarray], guesses: Sequence[str | None] | None = None) -> Reading:
        """See `ReaderLike.stream`. What a broken engine raises ends the run instead of failing every document."""
        self.busy = True
        try:
            return (yield from self._load().stream(images, guesses))
        except OcriaError:
            raise
        except Exception as error:  # of any library below: none of them is the document's fault
            raise EngineError(f"the engine failed: {type(error).__name__}: {error}") from error
        finally:
            self.busy = False

    def about(self) -> str | None:
        """How the model that this reader loaded is placed and used, for people; None before."""
        return None if self._given or self._reader is None else self._reader.about

    def ran(self) -> str | None:
        """How its engine ran so far, for people; None where it loaded none."""
        return None if self._given or self._reader is None else self._reader.ran()

    def _load(self) -> ReaderLike:
        if self._reader is None:
            from ocria.document.reader import Reader

            self._reader = Reader(self._options)
        return self._reader


class GentleFlag(Control):
    """Says that a run shall stop, but not while pages are with the model: those are finished first. All else is as the
    control says that it follows."""

    def __init__(self, cancel: Flag | None, reader: SharedReader):
        super().__init__(cancel)
        self._reader = reader

    def is_set(self) -> bool:
        return super().is_set() and not self._reader.busy
