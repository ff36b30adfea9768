"""Draws the text of synthetic lines: what kinds of line there are and how often, and of which length."""

import random
from dataclasses import dataclass

from ocria.train import phrases
from ocria.train.charset import CHARSET, SUPERSCRIPT
from ocria.train.corpus import Corpus
from ocria.train.typography import hyphenate, smart_quotes, typeset_old

# (shortest, longest, share) of the line lengths in characters.
_LENGTHS = ((75, 140, 0.20), (40, 75, 0.45), (15, 40, 0.20), (1, 15, 0.15))

_KINDS = {
    75: {"book": 58, "journal": 22, "technical": 8, "code": 5, "table_row": 3, "accents": 2, "random": 2},
    40: {"book": 52, "journal": 16, "technical": 7, "play": 6, "code": 4, "table_row": 3, "contents": 2,
         "receipt": 2, "reference": 3, "accents": 3, "random": 2},
    15: {"book": 30, "journal": 6, "heading": 12, "receipt": 13, "table_row": 7, "contact": 7, "code": 5,
         "play": 4, "page_header": 5, "accents": 5, "random": 6},
    1: {"cell": 26, "word": 20, "page_number": 7, "price": 9, "date": 7, "receipt": 5, "random": 10,
        "roman": 4, "character": 6, "heading": 4, "mark": 2},
}
_RARE = CHARSET[95:]


@dataclass(frozen=True)
class Text:
    """A line's text (inside CHARSET) and its kind."""

    text: str
    kind: str


class TextSource:
    """Endless texts of one corpus, by a random generator that the caller owns."""

    def __init__(self, corpus: Corpus, min_chars: int = 1, max_chars: int = 140):
        if not 1 <= min_chars <= max_chars:
            raise ValueError(f"min_chars {min_chars} and max_chars {max_chars} are no range")
        self._corpus = corpus
        self._min, self._max = min_chars, max_chars
        self._lengths = [(max(low, min_chars), min(high, max_chars), share * _overlap(low, high, self), low)
                         for low, high, share in _LENGTHS if _overlap(low, high, self) > 0]

    def draw(self, rng: random.Random) -> Text:
        """A text of min_chars to max_chars characters."""
        while True:
            low, high, _, bucket = rng.choices(self._lengths, [share for *_, share, _ in self._lengths])[0]
            target = rng.randint(low, high)
            kinds = _KINDS[bucket]
            kind = rng.choices(list(kinds), list(kinds.values()))[0]
            text = " ".join(self._make(kind, target, rng).split())
            if len(text) > high:
                text = _cut(text, high, rng)
            if self._min <= len(text) <= self._max:
                return Text(text, kind)

    def _make(self, kind: str, target: int, rng: random.Random) -> str:
        corpus = self._corpus
        if kind in ("book", "journal", "technical", "play", "word"):
            return self._prose(kind, target, rng)
        if kind == "code":
            return corpus.code_line(rng)
        if kind == "accents":
            words = []
            while sum(map(len, words)) + len(words) < target:
                words.append(corpus.accented(rng) if rng.random() < 0.6 else corpus.word(rng))
            return _capitalise(" ".join(words), rng)
        if kind == "random":
            return _random_text(target, rng)
        return phrases.MAKERS[kind](corpus, target, rng)

    def _prose(self, kind: str, target: int, rng: random.Random) -> str:
        topic = {"journal": "technical", "technical": "technical", "play": "play"}.get(kind, "prose")
        passage = self._corpus.passage(rng, topic)
        while len(passage) < target and kind not in ("play", "word"):
            passage += " " + self._corpus.passage(rng, topic)
        if kind == "play":
            return smart_quotes(_cut(passage, target, rng)) if rng.random() < 0.7 else passage
        start = rng.randrange(max(1, len(passage) - target)) if rng.random() > 0.12 else 0
        if start:
            start = passage.find(" ", start) + 1
        text = passage[start:start + target + 12]
        if kind == "word":
            return rng.choice(text.split() or ["a"])
        text = _cut(text, target, rng)
        if kind == "journal":
            text = phrases.annotate(text, rng)
        if kind == "book" and rng.random() < 0.5:
            text = typeset_old(text, rng)
        if rng.random() < (0.8 if kind == "book" else 0.55):
            text = smart_quotes(text)
        if rng.random() < 0.015 and kind != "technical":
            words = text.split()
            at = rng.randrange(len(words)) if words else 0
            if words and words[at][-1].isalnum() is False or at == len(words) - 1:
                words[at] += str(rng.randint(1, 30)).translate(SUPERSCRIPT)
                text = " ".join(words)
        return text


def _overlap(low: int, high: int, source: TextSource) -> float:
    """Share of the lengths low..high that the source's limits admit."""
    inside = min(high, source._max) - max(low, source._min) + 1
    return max(0, inside) / (high - low + 1)


def _cut(text: str, limit: int, rng: random.Random) -> str:
    """`text` cut to at most `limit` characters at a word's end, or within a word with a hyphen."""
    if len(text) <= limit:
        return text
    head = text[:limit + 1]
    end = head.rfind(" ")
    if rng.random() < 0.25 and (broken := hyphenate(text, limit, rng)):
        return broken
    return head[:end] if end > 0 else text[:limit]


def _capitalise(text: str, rng: random.Random) -> str:
    style = rng.random()
    if style < 0.3:
        return text[:1].upper() + text[1:] + rng.choice(".,;:?!")
    return text.title() if style < 0.4 else text


_ALIKE = "Il1|O0oQCGS5Z2B8rnmcl.,;:'’`!ijtf"


def _random_text(target: int, rng: random.Random) -> str:
    """Words of random characters: look-alikes, mixed case, digits with punctuation, rare characters."""
    words = []
    while sum(map(len, words)) + len(words) < target:
        n = min(target, rng.randint(1, 9))
        style = rng.random()
        if style < 0.2:
            word = "".join(rng.choice(_ALIKE) for _ in range(n))
        elif style < 0.4:
            word = "".join(rng.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") for _ in range(n))
        elif style < 0.55:
            word = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(n))
        elif style < 0.7:
            word = "".join(rng.choice("0123456789") for _ in range(n))
            word = rng.choice("([$£€-+#~<") * (rng.random() < 0.3) + word + rng.choice(".,;:%)]/-") * (rng.random() < 0.4)
        elif style < 0.87:
            word = "".join(rng.choice(CHARSET[1:95]) for _ in range(n))
        else:
            word = "".join(rng.choice(_RARE) for _ in range(n))
        words.append(word)
    return " ".join(words)
