"""How a line is set: the style of a line and the draw of one that suits its kind."""

import random
import re
from dataclasses import dataclass

from ocria.train.charset import PLAIN_DIGIT
from ocria.train.fonts import GROUPS, Face, FontSet, glyphs


@dataclass(frozen=True)
class Style:
    """How a line is set. `size` is in pixels to the em, spaces are in ems."""

    face: Face
    size: float
    widen: float = 1.0  # horizontal scale of the letters
    hinted: bool = False  # drawn at its size with the font's hints, else shrunk from a larger drawing
    caps_words: tuple[int, int] = (0, 0)  # first and last + 1 of the words in small capitals
    small_caps: float = 0.0  # their height by the capitals' height; 0: the face's own small capitals
    tracking: float = 0.0
    word_space: float = 0.0  # added to every space
    sentence_space: float = 0.0  # added after a sentence's end
    gap_every: int = 0  # every n-th space is a wide gap (cells of a table)
    gap: float = 0.0
    gap_from: int = 0  # spaces before the first wide gap: words of a label, then figures in columns
    stop_space: float = 0.0  # before ; : ? !, around dashes and inside quotes, as old printers set them
    jitter: float = 0.0  # letters off their place, as of a typewriter or worn type
    ligatures: bool = True
    italic_words: tuple[int, int] = (0, 0)  # first and last + 1 of the words in italics
    features: tuple[str, ...] = ()


# Weights of serif, sans, mono, other, printer by the kind of text.
_GROUPS = {
    "code": (8, 8, 77, 4, 3),
    "receipt": (4, 28, 20, 10, 38),
    "contact": (40, 38, 14, 4, 4),
    "book": (74, 15, 8, 3, 0),
    "play": (80, 10, 8, 2, 0),
    "heading": (49, 41, 6, 2, 2),
    "random": (48, 26, 16, 5, 5),
    "cell": (40, 34, 14, 6, 6),
    "table_row": (43, 35, 14, 5, 3),
    "price": (38, 34, 12, 6, 10),
    "date": (42, 32, 10, 4, 12),
    "rule": (20, 20, 20, 10, 30),
}
_OTHER_KINDS = (57, 27, 11, 4, 1)
_SMALL_CAPS = {
    "heading": 0.16,
    "page_header": 0.16,
    "book": 0.06,
    "reference": 0.12,
    "play": 0.1,
    "contents": 0.1,
}
_SPEAKER = re.compile(r"((?:[A-Z][a-z]+ ){0,2}[A-Z][a-z]+)\. [A-Z]")
_RUNNING = ("book", "journal", "technical", "play", "foreign", "footnote")
_CODED = ("random", "code", "contact", "receipt", "cell")
_TABULAR = ("table_row", "page_header", "contents", "receipt")


def draw_style(rng: random.Random, fonts: FontSet, text: str, kind: str, size: float) -> Style:
    """A style that suits `kind`; the caller checks it with `can_set` and draws again where it cannot."""
    group = rng.choices(GROUPS, _GROUPS.get(kind, _OTHER_KINDS))[0]
    face = fonts.draw(rng, group, _weight_and_slope(rng, kind))
    proportional = face.group in ("serif", "sans")
    running, plain = kind in _RUNNING, face.style == "regular"
    available = glyphs(face.path).features
    words = text.split(" ")
    caps = _caps_words(rng, words, kind) if proportional else (0, 0)
    own = "smcp" in available and text.isascii() and rng.random() < 0.6
    features = []
    if kind in _CODED and "lnum" in available:  # old-style 0 and 1 are no more than small o and I
        features.append("lnum")
    elif "onum" in available and rng.random() < 0.4:
        features.append("onum")
    if (
        "dlig" in available
        and face.family in ("EB Garamond", "Linux Libertine", "Cardo")
        and rng.random() < 0.05
    ):
        features.append("dlig")
    italics = (0, 0)
    if plain and proportional and not caps[1] and len(words) > 3 and rng.random() < 0.1:
        first = rng.randrange(len(words) - 1)
        italics = (first, rng.randint(first + 1, min(len(words), first + 4)))
    old = kind in ("book", "play", "footnote") and face.group == "serif" and rng.random() < 0.4
    return Style(
        face,
        size,
        _widen(rng, face.group, kind),
        rng.random() < 0.25,
        caps,
        0.0 if own else rng.uniform(0.72, 0.84),
        _tracking(rng, kind),
        _word_space(rng) if running and rng.random() < 0.5 else 0.0,
        rng.uniform(0.3, 1.1) if running and rng.random() < (0.6 if old else 0.2) else 0.0,
        rng.choice((1, 1, 2, 3)) if kind in _TABULAR and rng.random() < 0.6 else 0,
        rng.uniform(0.6, 6.0 if kind == "receipt" and rng.random() < 0.3 else 3.0),
        _gap_from(rng, words) if kind in ("receipt", "table_row") else 0,
        rng.uniform(0.08, 0.28) if old else 0.0,
        _jitter(rng, face.group, old),
        rng.random() < 0.65,
        italics,
        tuple(features),
    )


def can_set(style: Style, text: str, fonts: FontSet) -> bool:
    """Whether every character of `text` has a glyph in the faces that `style` uses."""
    need = set(text.translate(PLAIN_DIGIT)) - {" "}
    if style.caps_words[1] and style.small_caps:
        if any(len(c.upper()) > 1 for c in need):  # ß has no single capital
            return False
        need |= {c.upper() for c in need}
    if not need <= glyphs(style.face.path).chars:
        return False
    return style.italic_words[1] == 0 or need <= glyphs(fonts.sibling(style.face, "italic").path).chars


def _caps_words(rng: random.Random, words: list[str], kind: str) -> tuple[int, int]:
    """The words in small capitals: a heading, a name in the line, its first words, a speaker.

    The first of them begins with a capital: small capitals without one look like capitals of a smaller size.
    """
    if kind == "play" and (speaker := _SPEAKER.match(" ".join(words))) and rng.random() < 0.7:
        return 0, speaker.group(1).count(" ") + 1
    if rng.random() >= _SMALL_CAPS.get(kind, 0.0):
        return 0, 0
    begins = [i for i, w in enumerate(words) if w[:1].isupper() and w[1:2].islower()]
    if not begins:
        return 0, 0
    if kind in ("heading", "page_header", "contents") and begins[0] <= 2:
        return begins[0], len(words)
    first = rng.choice(begins)
    return first, rng.randint(first + 1, min(len(words), first + 4)) if first else rng.choice(
        (1, 2, 3, len(words))
    )


def _weight_and_slope(rng: random.Random, kind: str) -> str:
    bold = 0.45 if kind == "heading" else 0.085
    italic = 0.04 if kind == "code" else 0.14
    return rng.choices(
        ("bold", "bold_italic", "italic", "regular"), (bold, 0.015, italic, 0.985 - bold - italic)
    )[0]


def _widen(rng: random.Random, group: str, kind: str) -> float:
    """Tills print letters as tall and narrow as their paper asks for, and headings in double width."""
    roll = rng.random()
    if group == "printer" or (kind == "receipt" and roll < 0.4):
        roll = rng.random()
        return rng.uniform(0.5, 0.95) if roll < 0.55 else rng.uniform(1.4, 2.0) if roll < 0.67 else 1.0
    return rng.uniform(0.86, 1.16) if rng.random() < 0.14 else 1.0


def _gap_from(rng: random.Random, words: list[str]) -> int:
    """Often all words but the last one to three stand close together."""
    return max(0, len(words) - 1 - rng.randint(1, 3)) if rng.random() < 0.6 else 0


def _tracking(rng: random.Random, kind: str) -> float:
    spaced = 0.12 if kind in ("heading", "page_header") else 0.008
    if rng.random() < spaced:
        return rng.uniform(0.04, 0.24)
    return rng.uniform(-0.015, 0.04) if rng.random() < 0.07 else 0.0


def _word_space(rng: random.Random) -> float:
    """Justified lines: mostly a little wide, some very wide, some tight."""
    roll = rng.random()
    return (
        rng.uniform(0.0, 0.25)
        if roll < 0.5
        else rng.uniform(0.15, 0.8)
        if roll < 0.85
        else rng.uniform(-0.07, 0.0)
    )


def _jitter(rng: random.Random, group: str, old: bool) -> float:
    if group == "mono":
        return rng.uniform(0.005, 0.028) if rng.random() < 0.3 else 0.0
    return rng.uniform(0.003, 0.014) if rng.random() < (0.12 if old else 0.02) else 0.0
