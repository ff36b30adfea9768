"""What the text layer of a PDF says where the model is to read.

The model reads the pixels all the same: a guess is verified token by token and only makes the reading faster. So a
text layer may be wrong, hidden or in another order; what counts is that a good one is written as the model writes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise

import numpy as np

from ocria.document.clean import LOOK_ALIKES, clean_text, join_lines
from ocria.document.geometry import turn_back
from ocria.events import Box

# Characters that look alike, and spaces, as models write them that know one spelling of each look.
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\t\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u3000", " "),
        **LOOK_ALIKES,
    }
)


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text layer, its box on the displayed page in points, and the line it is in: the number of its block
    and of the line in that, in the order of the file."""

    text: str
    box: Box
    line: tuple[int, int]


def line_guesses(words: Sequence[Word], boxes: Sequence[Box]) -> list[str | None]:
    """What the words say of the lines with these boxes: those whose middle lies in a box, from left to right; None
    where there are none. A word in several boxes belongs to the one whose middle it is nearest to. Words and boxes
    stand on the same page."""
    found: list[list[Word]] = [[] for _ in boxes]
    if words and boxes:
        x, y = _middles([word.box for word in words])
        x0, y0, x1, y1 = np.array(boxes)[:, None].transpose(2, 0, 1)
        inside = (x0 <= x) & (x <= x1) & (y0 <= y) & (y <= y1)
        apart = np.where(inside, np.abs(y - (y0 + y1) / 2), np.inf)
        for word, line, distance in zip(words, apart.argmin(0).tolist(), apart.min(0).tolist(), strict=True):
            if distance < np.inf:
                found[line].append(word)
    ordered = (sorted(line, key=lambda word: word.box[0]) for line in found)
    return [as_written(" ".join(word.text for word in line)) or None for line in ordered]


def page_guess(words: Sequence[Word]) -> str | None:
    """The text of a page in the order of the file, a blank line between blocks; None where there is none."""
    blocks: dict[int, list[str]] = {}
    for (block, _), line in groupby(words, key=lambda word: word.line):
        blocks.setdefault(block, []).append(as_written(" ".join(word.text for word in line)))
    return "\n\n".join(filter(None, map(join_lines, blocks.values()))) or None


def split_guess(guess: str | None, widths: Sequence[int]) -> list[str | None]:
    """The guess of a line that is read in pieces of these widths: cut between the words nearest to where the pieces
    are, were all letters of one width."""
    if guess is None or len(widths) == 1:
        return [guess] * len(widths)
    gaps = [0, *(i for i, character in enumerate(guess) if character == " "), len(guess)]
    ends = [len(guess) * width / sum(widths) for width in accumulate(widths)]
    cuts = [0, *(min(gaps, key=lambda gap: abs(gap - end)) for end in ends)]
    return [guess[a:b].strip() or None for a, b in pairwise(cuts)]


def turned_words(words: Sequence[Word], turned: int, width: float, height: float) -> list[Word]:
    """The words on the page after it was turned clockwise by `turned` degrees, to `width` x `height` points."""
    return [Word(word.text, turn_back(word.box, -turned % 360, width, height), word.line) for word in words]


def as_written(text: str) -> str:
    """One line of a text layer as a model that reads print writes it: accents composed, ligatures spelt out, one kind
    of space, no characters that do not show."""
    return " ".join(clean_text(unicodedata.normalize("NFC", text.translate(_PLAIN))).split())


def _middles(boxes: Sequence[Box]) -> tuple[np.ndarray, np.ndarray]:
    x0, y0, x1, y1 = np.array(boxes).T
    return (x0 + x1) / 2, (y0 + y1) / 2
