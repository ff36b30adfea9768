"""Does a text layer say what the pixels say? A few of its lines are read by the model.

Fonts that prove themselves are not asked (see `fonts.py`), the others once a document. The model errs too, so that a
font is only given up where most of its lines differ throughout, or where one character stands for another again and
again: `3` wherever the page shows `8`.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from ocria.document.control import Control
from ocria.document.facts import Doubtful, PageFacts, TextSample
from ocria.document.read_pages import to_gray
from ocria.document.reader import ReaderLike, drain

CHECK_DPI = 200
_LEAST_CONFIDENCE = 0.8
"""Mean probability of the model's answer to a line for the line to count."""
_LEAST_LINES = 2
_MOST_PAGES = 3
_LEAST_LETTERS = 14
_MOST_ALIKE = 0.5
"""Similarity that honest lines practically never fall to."""
_LEAST_TIMES = 3
_LEAST_SHARE = 0.8
_FEW_LETTERS = 8
"""Letters of a lying font that a page may bear and still be taken by its text."""

# Characters that a model may take for each other in some fonts.
_LOOK_ALIKE = ("0o", "08", "1il", "5s", "2z", "8b", "9g", "6b", "uv")
"""Lower case, for case is not compared."""


Reading = tuple[str, str]
"""What the text layer says of a line, and what the model reads there."""


@dataclass(slots=True)
class TextCheck:
    """What was found out about the fonts of one document."""

    liars: dict[str, str] = field(default_factory=dict)
    """Of each font whose text is wrong, how it shows."""
    readings: dict[str, list[Reading]] = field(default_factory=lambda: defaultdict(list))
    """Of each font that was asked, what its lines say and what was read."""
    asked: Counter[str] = field(default_factory=Counter)
    """On how many pages."""

    def unknown(self, facts: PageFacts) -> list[Doubtful]:
        """The fonts of a page that must be asked: those of which too little was seen so far, for a few pages."""
        return [
            font
            for font in facts.doubtful
            if self.asked[font.key] < _MOST_PAGES and not _is_enough(self.readings[font.key])
        ]

    def ask(
        self,
        fonts: Sequence[Doubtful],
        pixels: np.ndarray,
        width: float,
        reader: ReaderLike,
        control: Control | None = None,
    ) -> None:
        """Compare the samples of some fonts with the page.

        Args:
            pixels: uint8 [H, W, 3], the displayed page.
            width: of the displayed page, in points.
            reader: of lines.
            control: whose pauses hold.
        """
        scale = pixels.shape[1] / width
        owners = [font for font in fonts for _ in font.samples]
        samples = [sample for font in fonts for sample in font.samples]
        answers = drain(reader.stream([_crop(pixels, sample, scale) for sample in samples]), control=control)
        for font, sample, answer in zip(owners, samples, answers, strict=True):
            if answer.status == "ok" and (answer.confidence or 0.0) >= _LEAST_CONFIDENCE:
                self.readings[font.key].append((sample.text, answer.text))
        for font in fonts:
            self.asked[font.key] += 1
            lie = find_lie(self.readings[font.key])
            if lie is not None:
                self.liars[font.key] = lie

    def lie(self, facts: PageFacts) -> str | None:
        """Why the text of a page is wrong, or None."""
        for font in facts.doubtful:
            if font.letters > _FEW_LETTERS and font.key in self.liars:
                return f"the text layer says something else than the pixels: {self.liars[font.key]}"
        return None


def find_lie(readings: Sequence[Reading]) -> str | None:
    """What is wrong with some lines of a font, such as `'KHOOR' for 'HELLO'`, or None where they may be right.

    Args:
        readings: what the text layer says of each line, and what the model reads.
    """
    pairs = [(_letters(said), _letters(read)) for said, read in readings]
    if not _is_enough(readings):
        return None
    aligned = [_aligned(said, read) for said, read in pairs]
    alike = [sum(one == other for one, other in steps) / max(len(steps), 1) for steps in aligned]
    if median(alike) <= _MOST_ALIKE:
        said, read = readings[alike.index(min(alike))]
        return f"{_shortened(said)!r} for {_shortened(read)!r}"
    swapped = _swapped(aligned)
    return f"{swapped[0]!r} for {swapped[1]!r}" if swapped else None


def _is_enough(readings: Sequence[Reading]) -> bool:
    return len(readings) >= _LEAST_LINES and sum(len(_letters(said)) for said, _ in readings) >= _LEAST_LETTERS


def _aligned(said: str, read: str) -> list[tuple[str, str]]:
    """The characters of two texts side by side at the least edit distance, blank where one has none. To leave one out
    costs as much as two that differ: a cipher must not be shifted to where it happens to agree."""
    cost = np.zeros((len(said) + 1, len(read) + 1), np.int32)
    cost[:, 0], cost[0] = np.arange(len(said) + 1) * 2, np.arange(len(read) + 1) * 2
    for i, one in enumerate(said, 1):
        for j, other in enumerate(read, 1):
            cost[i, j] = min(cost[i - 1, j - 1] + (one != other), cost[i - 1, j] + 2, cost[i, j - 1] + 2)
    steps = []
    i, j = len(said), len(read)
    while i or j:
        if i and j and cost[i, j] == cost[i - 1, j - 1] + (said[i - 1] != read[j - 1]):
            i, j = i - 1, j - 1
            steps.append((said[i], read[j]))
        elif i and cost[i, j] == cost[i - 1, j] + 2:
            i -= 1
            steps.append((said[i], ""))
        else:
            j -= 1
            steps.append(("", read[j]))
    return steps


def _swapped(aligned: Sequence[Sequence[tuple[str, str]]]) -> tuple[str, str] | None:
    """A character that is read as the same other one nearly wherever it stands, and that one."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for one, other in (step for steps in aligned for step in steps):
        seen[one][other] += 1
    for one, others in seen.items():
        other, times = others.most_common(1)[0]
        often = times >= _LEAST_TIMES and times >= _LEAST_SHARE * others.total()
        alike = any(one in looks and other in looks for looks in _LOOK_ALIKE)
        if one and other and one != other and often and not alike:
            return one, other
    return None


def _letters(text: str) -> str:
    """Letters and digits alone, without accents and case."""
    folded = unicodedata.normalize("NFKD", text).casefold()
    return "".join(c for c in folded if c.isalnum())


def _shortened(text: str) -> str:
    words = text.split()
    return " ".join(words[:3]) + "…" * (len(words) > 3)


def _crop(pixels: np.ndarray, sample: TextSample, scale: float) -> np.ndarray:
    """The pixels of a sample, turned upright, dark on light. uint8 [h, w]"""
    x0, y0, x1, y1 = (v * scale for v in sample.box)
    crop = to_gray(pixels[max(0, int(y0) - 1) : int(y1) + 2, max(0, int(x0) - 1) : int(x1) + 2])
    return np.ascontiguousarray(np.rot90(crop, -sample.turned // 90))
