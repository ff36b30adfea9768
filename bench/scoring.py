"""Scores of recognised text against ground truth: CER, WER, word F1 and confusions.

Both sides are normalised the same way before they are compared (`normalise`), so that
typographic variants of one character, and the way a text is broken into lines, cost nothing.
Needs rapidfuzz (the `bench` extra).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

# Characters that NFKC leaves apart but that differ in typesetting only.
_STRAIGHT = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′", "'"),
        **dict.fromkeys("“”„‟″", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        "ſ": "s",
        "\u00ad": None,  # left inside a line it is invisible
    }
)
# Only true hyphens join words; a dash at a line end separates them and must stay.
_LINE_END_HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u2010\u00ad][ \t]*(?:\r?\n\s*)+(?=[^\W\d_])")
_SPACE = re.compile(r"\s+")


def normalise(text: str, *, lower: bool = False) -> str:
    """Text ready for scoring: line-end hyphens joined, NFKC, straight quotes and dashes, ſ→s, single spaces.

    `lower` folds case too (receipts, whose annotators wrote capitals throughout).
    """
    text = _LINE_END_HYPHEN.sub("", text)
    # Before NFKC too, which would make two characters of the double prime.
    text = unicodedata.normalize("NFKC", text.translate(_STRAIGHT)).translate(_STRAIGHT)
    text = _SPACE.sub(" ", text).strip()
    return text.lower() if lower else text


def char_edits(truth: str, output: str) -> int:
    """Levenshtein distance in characters between two normalised texts."""
    return Levenshtein.distance(truth, output)


def word_edits(truth: str, output: str) -> int:
    """Levenshtein distance in white-space separated words between two normalised texts."""
    return Levenshtein.distance(truth.split(), output.split())


def word_f1(truth: str, output: str) -> float:
    """F1 of the two multisets of words, in 0..1; order plays no part. Two empty texts agree (1)."""
    expected, found = Counter(truth.split()), Counter(output.split())
    total = expected.total() + found.total()
    return 2 * (expected & found).total() / total if total else 1.0


def confusions(truth: str, output: str) -> Counter[tuple[str, str]]:
    """Counts of `(truth character, output character)` along one shortest edit path.

    An inserted character has an empty first part, a deleted one an empty second part.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for op in Levenshtein.editops(truth, output):
        if op.tag == "replace":
            counts[truth[op.src_pos], output[op.dest_pos]] += 1
        elif op.tag == "insert":
            counts["", output[op.dest_pos]] += 1
        else:
            counts[truth[op.src_pos], ""] += 1
    return counts


@dataclass(frozen=True, slots=True)
class Score:
    """One item scored: edits and sizes, so that items add up to totals without rounding."""

    chars: int
    char_edits: int
    words: int
    word_edits: int
    f1: float

    @property
    def cer(self) -> float:
        """Character error rate; above 1 where the output is longer than the truth and wrong."""
        return self.char_edits / max(1, self.chars)

    @property
    def wer(self) -> float:
        return self.word_edits / max(1, self.words)


def score(truth: str, output: str, *, lower: bool = False) -> Score:
    """Score an output against its truth; both are normalised here."""
    truth, output = normalise(truth, lower=lower), normalise(output, lower=lower)
    return Score(
        chars=len(truth),
        char_edits=char_edits(truth, output),
        words=len(truth.split()),
        word_edits=word_edits(truth, output),
        f1=word_f1(truth, output),
    )


def total_cer(scores: list[Score]) -> float:
    """Edits of all items over characters of all items (long items weigh more); nan without any."""
    return _rate(sum(s.char_edits for s in scores), sum(s.chars for s in scores))


def total_wer(scores: list[Score]) -> float:
    """Word edits of all items over words of all items; nan without any."""
    return _rate(sum(s.word_edits for s in scores), sum(s.words for s in scores))


def _rate(edits: int, size: int) -> float:
    return edits / size if size else float("nan")
