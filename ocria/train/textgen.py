"""Draws the text of synthetic lines: what kinds of line there are, how often, and of which length."""

import random
import re
from dataclasses import dataclass

from ocria.train import phrases
from ocria.train.charset import CHARSET, SUPERSCRIPT
from ocria.train.corpus import Corpus
from ocria.train.typography import foreign_quotes, hyphenate, smart_quotes, typeset_old

# (shortest, longest, share) of the line lengths in characters.
_LENGTHS = ((75, 140, 0.20), (40, 75, 0.45), (15, 40, 0.20), (1, 15, 0.15))

# The kinds of line by the shortest length of their range, with weights.
_KINDS = {
    75: {
        "book": 52,
        "journal": 20,
        "technical": 7,
        "code": 7,
        "table_row": 3,
        "contents": 2,
        "repeated": 3,
        "foreign": 3,
        "footnote": 2,
        "random": 1,
    },
    40: {
        "book": 41,
        "journal": 13,
        "technical": 5,
        "play": 5,
        "code": 6,
        "table_row": 3,
        "contents": 3,
        "repeated": 3,
        "receipt": 14,
        "reference": 3,
        "footnote": 2,
        "foreign": 3,
        "accents": 1,
        "random": 2,
    },
    15: {
        "book": 26,
        "journal": 5,
        "heading": 10,
        "receipt": 34,
        "table_row": 6,
        "contact": 6,
        "code": 7,
        "contents": 2,
        "repeated": 3,
        "rule": 1,
        "play": 4,
        "page_header": 5,
        "foreign": 3,
        "accents": 4,
        "footnote": 2,
        "random": 3,
    },
    1: {
        "cell": 26,
        "word": 20,
        "page_number": 7,
        "price": 9,
        "date": 7,
        "receipt": 24,
        "random": 6,
        "roman": 4,
        "character": 5,
        "heading": 4,
        "mark": 5,
        "repeated": 2,
    },
}
_TOPICS = {"journal": "technical", "technical": "technical", "play": "play", "foreign": "foreign"}

_SPEAKER = re.compile(r"^[A-Z]{2,}(?: [A-Z]{2,}){0,2}(?=\. )")
_ALIKE = "Il1|O0oQCGS5Z2B8rnmcl.,;:'’`!ijtf"
# Signs with a twin that no reader could tell from them standing alone: º ° ⁰, ‚ ',', Ð Đ, · • and the like.
_RARE = (
    "".join(c for c in CHARSET[95:] if c not in "ªº⁰¹²³⁴⁵⁶⁷⁸⁹‚Ð·‹›")
    + "©°£€¥§•½¼¾«»–—“”‘’„…†‡×±éèüöäñçøåß" * 2
)


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
        self._ranges = []  # (shortest, longest, the kinds' key), with weights beside
        self._shares = []
        for low, high, share in _LENGTHS:
            inside = min(high, max_chars) - max(low, min_chars) + 1
            if inside > 0:
                self._ranges.append((max(low, min_chars), min(high, max_chars), low))
                self._shares.append(share * inside / (high - low + 1))

    def draw(self, rng: random.Random) -> Text:
        """A text of min_chars to max_chars characters."""
        while True:
            low, high, bucket = rng.choices(self._ranges, self._shares)[0]
            kinds = _KINDS[bucket]
            kind = rng.choices(list(kinds), list(kinds.values()))[0]
            text = " ".join(self._make(kind, rng.randint(low, high), rng).split())
            if len(text) > high:
                text = _cut(text, high, rng)
            if self._min <= len(text) <= self._max:
                return Text(text, kind)

    def _make(self, kind: str, target: int, rng: random.Random) -> str:
        corpus = self._corpus
        if kind in phrases.MAKERS:
            return phrases.MAKERS[kind](corpus, target, rng)
        if kind == "code":
            return corpus.code_line(rng)
        if kind == "random":
            return _random_text(target, rng)
        if kind == "accents":
            words: list[str] = []
            while sum(map(len, words)) + len(words) < target:
                words.append(corpus.accented(rng) if rng.random() < 0.6 else corpus.word(rng))
            text = " ".join(words)
            return rng.choice(
                (text, text, text.title(), text.upper(), text[:1].upper() + text[1:] + rng.choice(".,;:?!"))
            )
        return self._prose(kind, target, rng)

    def _prose(self, kind: str, target: int, rng: random.Random) -> str:
        topic = _TOPICS.get(kind, "prose")
        passage = self._corpus.passage(rng, topic)
        if kind == "play":
            if rng.random() < 0.5:  # small capitals are written in title case
                passage = _SPEAKER.sub(lambda match: match.group().title(), passage)
            text = _cut(passage, target, rng)
            return smart_quotes(text) if rng.random() < 0.7 else text
        while len(passage) < target and kind != "word":
            passage += " " + self._corpus.passage(rng, topic)
        if kind == "word":
            return smart_quotes(rng.choice(passage.split() or ["a"]))
        start = rng.randrange(max(1, len(passage) - target)) if rng.random() > 0.12 else 0
        if start:
            start = passage.find(" ", start) + 1
        text = _cut(passage[start : start + target + 12], target, rng)
        if kind == "journal":
            text = phrases.annotate(text, rng)
        elif kind == "foreign":
            text = foreign_quotes(text, rng) if rng.random() < 0.2 else text
        elif rng.random() < 0.4:
            text = typeset_old(text, rng)
        if rng.random() < (0.85 if kind == "book" else 0.55):
            text = smart_quotes(text)
        roll = rng.random()
        if roll < 0.015:
            text = text.rstrip(",;") + str(rng.randint(1, 30)).translate(SUPERSCRIPT)
        elif roll < 0.035:
            text = text.upper()
        elif roll < 0.05:
            n = rng.randint(1, 20)
            text = (
                rng.choice(
                    ("• ", f"{n}. ", f"({chr(96 + n)}) ", f"{n}) ", "– ", "* ", f"({n}) ", f"[{n}] ", "§ ")
                )
                + text
            )
        return text


def _cut(text: str, limit: int, rng: random.Random) -> str:
    """`text` cut to at most `limit` characters at a word's end, or within a word with a hyphen."""
    if len(text) <= limit:
        return text
    if rng.random() < 0.25 and (broken := hyphenate(text, limit)):
        return broken
    end = text.rfind(" ", 0, limit + 1)
    return text[:end] if end > 0 else text[:limit]


def _random_text(target: int, rng: random.Random) -> str:
    """Words of random characters: look-alikes, mixed case, digits with punctuation, rare characters."""
    words: list[str] = []
    while sum(map(len, words)) + len(words) < target:
        n, style = min(target, rng.randint(1, 9)), rng.random()
        if style < 0.2:
            signs = _ALIKE
        elif style < 0.35:
            signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
        elif style < 0.5:
            signs = "abcdefghijklmnopqrstuvwxyz"
        elif style < 0.65:
            signs = "0123456789"
        elif style < 0.82:
            signs = CHARSET[1:95]
        else:
            signs = _RARE
        word = "".join(rng.choice(signs) for _ in range(n))
        if signs == "0123456789":
            word = (
                rng.choice("([$£€-+#~<") * (rng.random() < 0.3)
                + word
                + rng.choice(".,;:%)]/-") * (rng.random() < 0.4)
            )
        words.append(word)
    return " ".join(words)
