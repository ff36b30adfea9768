"""The text of an answer as its tokens come in."""

from collections.abc import Sequence

from ocria.model.tokens import StreamDecoder, Tokenizer


class AnswerText:
    """Decodes tokens piece by piece and ends at the first stop text, which is not part of the answer.

    What might be the beginning of a stop text, or of a character, is held back until it is decided.
    """

    def __init__(self, tokenizer: Tokenizer, stops: tuple[str, ...] = ()):
        self._tokenizer = tokenizer
        self._decoder = StreamDecoder(tokenizer)
        self._stops = stops
        self._ready = ""
        self._held = ""
        self._taken: list[str] = []
        self.stopped = False

    @property
    def has_stops(self) -> bool:
        return bool(self._stops)

    def push(self, tokens: Sequence[int]) -> None:
        """Take the next tokens."""
        self._add(self._decoder.push(tokens), end=False)

    def finish(self) -> None:
        """There are no more tokens: everything held back is text after all."""
        self._add(self._decoder.finish(), end=True)

    def take(self) -> str:
        """The text that became certain since the last call."""
        piece, self._ready = self._ready, ""
        self._taken.append(piece)
        return piece

    def all(self) -> str:
        """All text taken so far."""
        return "".join(self._taken)

    def length_of(self, tokens: Sequence[int]) -> int:
        """Characters that the first tokens of this answer make, a character that they leave unfinished not counted."""
        return len(StreamDecoder(self._tokenizer).push(tokens))

    def _add(self, piece: str, end: bool) -> None:
        if self.stopped:
            return
        text = self._held + piece
        found = [place for stop in self._stops if (place := text.find(stop)) >= 0]
        if found:
            self.stopped, text, held = True, text[: min(found)], ""
        else:
            keep = 0 if end else max((_overlap(text, stop) for stop in self._stops), default=0)
            text, held = text[: len(text) - keep], text[len(text) - keep :]
        self._ready, self._held = self._ready + text, held


def _overlap(text: str, stop: str) -> int:
    """Characters at the end of `text` with which `stop` begins."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)
