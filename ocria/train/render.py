"""Sets a line of text in a face and rasterises it as an ink mask: styles, spacing, small capitals."""

import random
from dataclasses import dataclass, field

import numpy as np
from PIL import Image, ImageDraw

from ocria.train.charset import PLAIN_DIGIT
from ocria.train.fonts import Face, FontSet, glyphs, load

_LIGATURES = (("ffi", "ﬃ"), ("ffl", "ﬄ"), ("fi", "ﬁ"), ("fl", "ﬂ"), ("ff", "ﬀ"))
_RAISED = frozenset("⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Style:
    """How a line is set. Sizes are in pixels to the em, spaces in ems."""

    face: Face
    size: int
    small_caps: float = 0.0  # height of the small capitals by the capitals' height; 0: none
    tracking: float = 0.0
    word_space: float = 0.0  # added to every space
    gap_every: int = 0  # every n-th space is a wide gap (cells of a table)
    gap: float = 0.0
    stop_space: float = 0.0  # space before ; : ? ! and inside quotation marks, as old printers set it
    ligatures: bool = True
    italic_words: tuple[int, int] = (0, 0)  # first and last + 1 of the words set in italics
    features: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Ink:
    """The rasterised line: coverage uint8 [H, W], the row of the baseline and the face's band around it."""

    mask: np.ndarray
    baseline: int
    ascent: int
    descent: int


def can_set(style: Style, text: str, fonts: FontSet) -> bool:
    """Whether every character of `text` has a glyph in the faces that `style` uses."""
    need = set(text.translate(PLAIN_DIGIT)) - {" "}
    if style.small_caps:
        if any(len(c.upper()) > 1 for c in need):  # ß has no single capital
            return False
        need |= {c.upper() for c in need}
    chars = glyphs(style.face.path).chars
    if not need <= chars:
        return False
    return style.italic_words[1] == 0 or need <= glyphs(fonts.sibling(style.face, "italic").path).chars


def rasterise(style: Style, text: str, fonts: FontSet) -> Ink:
    """The ink of `text` on a canvas with a free margin of one em on every side."""
    pieces = _pieces(style, text, fonts)
    font = load(style.face.path, style.size)
    ascent, descent = font.getmetrics()
    ascent, descent = min(ascent, round(1.15 * style.size)), min(descent, round(0.45 * style.size))
    pad = style.size
    width = int(pieces[-1].x + pieces[-1].advance) + 2 * pad
    image = Image.new("L", (width, ascent + descent + 2 * pad), 0)
    draw = ImageDraw.Draw(image)
    baseline = pad + ascent
    for piece in pieces:
        draw.text((pad + piece.x, baseline - piece.rise), piece.text, fill=255, anchor="ls", features=piece.features,
                  font=load(piece.path, piece.size))
    return Ink(np.asarray(image), baseline, ascent, descent)


@dataclass
class _Piece:
    text: str
    path: str
    size: int
    rise: float
    features: list[str] | None
    x: float = 0.0
    advance: float = 0.0


def _pieces(style: Style, text: str, fonts: FontSet) -> list[_Piece]:
    """The line as pieces of one font and size each, with their places."""
    features = list(style.features) + ([] if style.ligatures else ["-liga", "-clig"])
    italic = fonts.sibling(style.face, "italic").path if style.italic_words[1] else style.face.path
    single = style.word_space == 0 and style.tracking == 0 and style.gap_every == 0 and style.stop_space == 0
    runs: list[tuple[str, str, int, float]] = []  # text, path, size, rise
    words = text.split(" ")
    for i, word in enumerate(words):
        path = italic if style.italic_words[0] <= i < style.italic_words[1] else style.face.path
        word += " " if i < len(words) - 1 else ""
        for part, size, rise in _sized(style, word):
            if runs and single and runs[-1][1:] == (path, size, rise):
                runs[-1] = (runs[-1][0] + part, path, size, rise)
            else:
                runs.append((part, path, size, rise))
    pieces, x, spaces = [], 0.0, 0
    for part, path, size, rise in runs:
        shown = _ligated(part, path) if style.ligatures and style.tracking == 0 else part
        font = load(path, size)
        for unit in (shown if style.tracking else _stops(shown) if style.stop_space else (shown,)):
            if style.stop_space and unit[0] in ";:?!" and pieces:
                x += style.stop_space * style.size
            piece = _Piece(unit, path, size, rise, features or None, x, font.getlength(unit, features=features or None))
            pieces.append(piece)
            x += piece.advance + style.tracking * style.size
            if unit[-1] == " ":
                spaces += 1
                x += style.word_space * style.size
                if style.gap_every and spaces % style.gap_every == 0:
                    x += style.gap * style.size
    return pieces


def _sized(style: Style, word: str) -> list[tuple[str, int, float]]:
    """`word` split where the size changes: small capitals, raised digits."""
    parts: list[tuple[str, int, float]] = []
    small = max(6, round(style.size * style.small_caps))
    raised = max(6, round(style.size * 0.62))
    for c in word:
        if c in _RAISED:
            part = (c.translate(PLAIN_DIGIT), raised, 0.34 * style.size)
        elif style.small_caps and c.islower():
            part = (c.upper(), small, 0.0)
        else:
            part = (c, style.size, 0.0)
        if parts and parts[-1][1:] == part[1:]:
            parts[-1] = (parts[-1][0] + part[0], *part[1:])
        else:
            parts.append(part)
    return parts


def _stops(text: str) -> list[str]:
    """`text` split before every stop that old printers set off."""
    units, start = [], 0
    for i, c in enumerate(text):
        if c in ";:?!" and i > start:
            units.append(text[start:i])
            start = i
    units.append(text[start:])
    return units


def _ligated(text: str, path: str) -> str:
    """`text` with the ligature characters that the font has; where it has none the shaper may still join."""
    if "f" not in text or "liga" in glyphs(path).features:
        return text
    chars = glyphs(path).chars
    for plain, joined in _LIGATURES:
        if joined in chars:
            text = text.replace(plain, joined)
    return text


def draw_style(rng: random.Random, fonts: FontSet, text: str, kind: str, size: int) -> Style:
    """A style that suits `kind`; the caller checks it with `can_set` and draws again where it cannot."""
    weights = {"code": (8, 8, 80, 4), "receipt": (4, 46, 32, 18), "contact": (40, 40, 16, 4),
               "book": (74, 15, 8, 3), "play": (80, 10, 8, 2), "heading": (50, 42, 6, 2),
               "random": (45, 32, 16, 7), "cell": (42, 36, 15, 7), "table_row": (44, 36, 14, 6)}
    group = rng.choices(("serif", "sans", "mono", "other"), weights.get(kind, (58, 27, 11, 4)))[0]
    roll = rng.random()
    bold = 0.45 if kind == "heading" else 0.09
    style = "bold" if roll < bold else "bold_italic" if roll < bold + 0.015 else "italic" if roll < bold + 0.16 else "regular"
    if kind == "code" and style == "italic" and rng.random() < 0.7:
        style = "regular"
    face = fonts.draw(rng, group, style)
    proportional = group in ("serif", "sans")
    caps = {"play": 0.12, "heading": 0.14, "page_header": 0.15, "book": 0.03, "journal": 0.02}.get(kind, 0.0)
    small_caps = rng.uniform(0.72, 0.84) if proportional and rng.random() < caps else 0.0
    tracking = rng.uniform(0.03, 0.22) if rng.random() < (0.12 if kind in ("heading", "page_header") else 0.008) \
        else rng.uniform(-0.012, 0.04) if rng.random() < 0.06 else 0.0
    word_space = rng.choice((rng.uniform(0.0, 0.25), rng.uniform(0.1, 0.8))) if kind in ("book", "journal", "technical", "play") \
        and rng.random() < 0.45 else 0.0
    table = kind in ("table_row", "page_header", "contents", "receipt") and rng.random() < 0.6
    words = text.count(" ") + 1
    italics = (0, 0)
    if style == "regular" and words > 3 and rng.random() < 0.09 and proportional and not small_caps:
        first = rng.randrange(words - 1)
        italics = (first, rng.randint(first + 1, min(words, first + 4)))
    features = ("onum",) if "onum" in glyphs(face.path).features and rng.random() < 0.5 else ()
    return Style(face, size, small_caps, tracking, word_space, rng.choice((1, 1, 2, 3)) if table else 0,
                 rng.uniform(0.6, 3.0), rng.uniform(0.1, 0.3) if kind in ("book", "play") and rng.random() < 0.3 else 0.0,
                 rng.random() < 0.65, italics, features)
