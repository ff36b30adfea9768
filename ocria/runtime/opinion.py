"""A second opinion on a line: what the vision encoder's own head reads, where the decoder strays from it.

The decoder knows language and finds its place in the line by content, so it may loop, skip a word, or write what is
usual in place of what is there. The head labels frames from left to right (`ocria.spec.vision`): it cannot lose its
place, and knows little of language. Where both read alike, nothing is to be decided. Where they differ, each difference
is decided by itself: how likely are the frames (the sum over all alignments, as in the training of the head) under the
decoder's text, and how likely with the head's reading in its place? The head must be better by `MARGIN` and by the
log-odds of what it would replace. That is a rule of thumb: the decoder is not asked what it thinks of the other text.
"""

import math
from dataclasses import dataclass
from difflib import SequenceMatcher

import torch
import torch.nn.functional as F

from ocria.model.tokens import REPLACEMENT
from ocria.runtime.request import Result
from ocria.runtime.rounds import Loaded
from ocria.spec.vision import BLANK, VisionReading, has_reading, kept

MARGIN = 6.0
"""Nats by which the frames must be likelier under the head's reading, besides the decoder's own certainty."""
MAX_DIFFERENCES = 16
"""With more of them, the decoder lost the line: it is decided as a whole."""
_END = 8
"""Characters at the end of a line that must be alike for it to be read to its end."""
_JOINED = 2
"""Differences with fewer equal characters between them are one."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """The text of a line; `whole`: it ends as the head sees the line end, whatever became of the decoder."""

    text: str
    whole: bool


@dataclass(frozen=True, slots=True)
class Difference:
    """Characters `start` to `stop` of the decoder's text, for which the head reads `reading`."""

    start: int
    stop: int
    reading: str


class SecondOpinion:
    """The head of a line model's vision encoder, as a judge of finished lines."""

    def __init__(self, head: VisionReading):
        self._head = head
        characters = head.config.characters
        self._class_of = {character: 1 + i for i, character in enumerate(characters)}
        self._counts = dict(zip(characters, head.lengths.tolist()[1:], strict=True))

    @classmethod
    def of(cls, loaded: Loaded) -> "SecondOpinion | None":
        """That of a checkpoint of a line model; None where it brings no head. Raises as `VisionReading.load`."""
        folder = loaded.source.folder
        if folder is None or loaded.profile.require("unit") != "line" or not has_reading(folder):
            return None
        return cls(VisionReading.load(folder, loaded.network.dtype, loaded.network.device))

    @torch.inference_mode()
    def on(self, result: Result) -> Opinion:
        """On the text of a line, less the rounds of a loop. result: with its image tokens, if the line was looked
        at."""
        text = result.text if result.loop_start is None else result.text[: result.loop_start]
        if result.image_tokens is None or not len(result.image_tokens):
            return Opinion(text, whole=False)
        scores = self._head.scores(result.image_tokens)
        reading = self._read(scores)
        if reading != text:
            text = self._decide(text, self._certainty(text, result), reading, scores.float().log_softmax(dim=1))
        return Opinion(text, whole=text[-_END:] == reading[-_END:])

    def _certainty(self, text: str, result: Result) -> list[float]:
        """Log-odds, at least 0, of each character of the decoder's, and of what follows the last one."""
        if REPLACEMENT in text:  # no character of its tokens
            return [0.0] * (len(text) + 1)
        odds, place = [], 0
        for character in text:
            count = self._counts.get(character, 1)
            odds.append(_odds(min(result.probabilities[place : place + count], default=0.5)))
            place += count
        return [*odds, _odds(min(result.probabilities[place : place + 1], default=0.5))]

    def _read(self, scores: torch.Tensor) -> str:
        """The best path of `[F, classes]`."""
        labels = scores.argmax(dim=1)
        keep = kept(labels, torch.zeros_like(labels), self._head.space)
        return "".join(self._head.config.characters[label - 1] for label in labels[keep].tolist())

    def _decide(self, text: str, certainty: list[float], reading: str, scores: torch.Tensor) -> str:
        found = differences(text, reading)
        if len(found) > MAX_DIFFERENCES:
            found = [Difference(0, len(text), reading)]
        broken = [d for d in found if REPLACEMENT in text[d.start : d.stop]]
        if broken:  # bytes that are no text: whatever the head reads is better
            text = replaced(text, broken)
            found, certainty = differences(text, reading), [0.0] * (len(text) + 1)
        # A character that the head has no class for is none that it could judge.
        found = [d for d in found if self._class_of.keys() >= set(text[d.start : d.stop])]
        taken: list[Difference] = []
        # What was replaced may decide about what is left: a text too long for the frames has no likelihood at all.
        while found:
            texts = [replaced(text, changes) for changes in (taken, *([*taken, d] for d in found))]
            base, *others = self.likelihoods(texts, scores)
            better = [
                d for d, other in zip(found, others, strict=True)
                if other - base > MARGIN + min(certainty[d.start : max(d.stop, d.start + 1)])
            ]  # fmt: skip
            if not better:
                break
            taken += better
            found = [d for d in found if d not in better]
        return replaced(text, taken)

    def likelihoods(self, texts: list[str], scores: torch.Tensor) -> list[float]:
        """Log-probability of the frames' labels, `scores` `[F, classes]`, making each of these texts; -inf for one that
        they cannot make, as it is too long for them or has a character without a class."""
        device = scores.device
        # The blank is no label of a text: it stands for what has no class, and the result is overwritten.
        classes = [[self._class_of.get(c, BLANK) for c in text] for text in texts]
        lengths = [len(one) for one in classes]
        longest = max(lengths)
        padded = torch.tensor([[*one, *[1] * (longest - len(one))] for one in classes], device=device)
        loss = F.ctc_loss(
            scores[:, None].expand(-1, len(texts), -1),
            padded.clamp(min=1),
            torch.full((len(texts),), len(scores), device=device),
            torch.tensor(lengths, device=device),
            blank=BLANK,
            reduction="none",
        )
        known = torch.tensor([BLANK not in one for one in classes], device=device)
        return torch.where(known, -loss, -torch.inf).tolist()


def _odds(probability: float) -> float:
    """Log-odds in nats, between 0 and 14, where fp32 ends."""
    return math.log(max(1.0, probability / max(1e-6, 1.0 - probability)))


def differences(text: str, reading: str) -> list[Difference]:
    """Where two readings differ; neighbours are joined."""
    found: list[tuple[int, int, int, int]] = []
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, text, reading, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        if found and i1 - found[-1][1] < _JOINED:
            i1, _, j1, _ = found.pop()
        found.append((i1, i2, j1, j2))
    return [Difference(i1, i2, reading[j1:j2]) for i1, i2, j1, j2 in found]


def replaced(text: str, changes: list[Difference]) -> str:
    """The text with these differences as the head reads them."""
    for change in sorted(changes, key=lambda change: -change.start):
        text = text[: change.start] + change.reading + text[change.stop :]
    return text
