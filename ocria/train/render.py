"""Rasterises a line of text in its style as an ink mask."""

import random
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image, ImageDraw

from ocria.train.charset import PLAIN_DIGIT
from ocria.train.fonts import FontSet, glyphs, load
from ocria.train.style import Style

_LIGATURES = (("ffi", "ﬃ"), ("ffl", "ﬄ"), ("fi", "ﬁ"), ("fl", "ﬂ"), ("ff", "ﬀ"))
_RAISED = frozenset("⁰¹²³⁴⁵⁶⁷⁸⁹")
# Signs that old printers set off: by a space before and behind them.
_BEFORE, _BEHIND = frozenset(";:?!—”"), frozenset("—“")
# Sizes of the drawings that are shrunk to the wanted size: few, so that the cache of fonts serves them.
_MASTERS = (36, 48, 64, 88, 120)


@dataclass(frozen=True)
class Ink:
    """The rasterised line: coverage uint8 [H, W], the row of the baseline and the face's band around it."""

    mask: np.ndarray
    baseline: int
    ascent: int
    descent: int


def rasterise(style: Style, text: str, fonts: FontSet, rng: random.Random) -> Ink:
    """The ink of `text` on a canvas with a free margin of one em on every side."""
    if style.hinted and style.widen == 1.0:
        return _draw(replace(style, size=round(style.size)), text, fonts, rng)
    master = next((m for m in _MASTERS if m >= 1.35 * style.size), _MASTERS[-1])
    ink = _draw(replace(style, size=master), text, fonts, rng)
    factor = style.size / master
    h, w = ink.mask.shape
    size = (max(1, round(w * factor * style.widen)), max(1, round(h * factor)))
    # A box filter is what a scanner's sensor and a PDF rasteriser's coverage do.
    mask = np.asarray(
        Image.fromarray(ink.mask).resize(
            size, Image.Resampling.BOX if factor < 0.7 else Image.Resampling.BILINEAR
        )
    )
    return Ink(mask, round(ink.baseline * factor), round(ink.ascent * factor), round(ink.descent * factor))


@dataclass
class _Piece:
    """A run of one font and size: where it is drawn (pixels) and its advance."""

    text: str
    path: str
    size: int
    rise: float
    features: list[str] | None
    x: float
    advance: float


def _draw(style: Style, text: str, fonts: FontSet, rng: random.Random) -> Ink:
    """`text` drawn at style.size, which is whole."""
    pieces = _pieces(style, text, fonts)
    ascent, descent = load(style.face.path, style.size).getmetrics()
    ascent, descent = min(ascent, round(1.15 * style.size)), min(descent, round(0.45 * style.size))
    pad = style.size
    image = Image.new("L", (int(pieces[-1].x + pieces[-1].advance) + 2 * pad, ascent + descent + 2 * pad), 0)
    draw = ImageDraw.Draw(image)
    off, uneven = (
        style.jitter * style.size,
        min(90, round(3500 * style.jitter)) if style.face.group == "mono" else 0,
    )
    for piece in pieces:
        dx, dy, fill = (
            (rng.gauss(0, off), rng.gauss(0, off), 255 - rng.randint(0, uneven)) if off else (0, 0, 255)
        )
        draw.text(
            (pad + piece.x + dx, pad + ascent - piece.rise + dy),
            piece.text,
            fill=fill,
            anchor="ls",
            features=piece.features,
            font=load(piece.path, piece.size),
        )
    return Ink(np.asarray(image), pad + ascent, ascent, descent)


def _pieces(style: Style, text: str, fonts: FontSet) -> list[_Piece]:
    """The line as pieces of one font and size each, with their places."""
    common = [*style.features, *(() if style.ligatures else ("-liga", "-clig"))]
    single = bool(style.tracking or style.jitter)
    pieces: list[_Piece] = []
    x, spaces = 0.0, 0
    for run, path, size, rise, own_caps in _runs(style, text, fonts):
        features = [*common, "smcp"] if own_caps else common or None
        joined = _ligated(run, path) if style.ligatures and not style.tracking else run
        font = load(path, size)
        for unit in joined if single else _units(style, joined):
            if style.stop_space and unit[0] in _BEFORE and pieces:
                x += style.stop_space * style.size
            pieces.append(
                _Piece(unit, path, size, rise, features, x, font.getlength(unit, features=features))
            )
            x += pieces[-1].advance + style.tracking * style.size
            if style.stop_space and unit[-1] in _BEHIND:
                x += style.stop_space * style.size
            if unit[-1] == " ":
                spaces += 1
                wide = style.gap_every and spaces > style.gap_from and spaces % style.gap_every == 0
                x += (style.word_space + (style.gap if wide else 0.0)) * style.size
                before = unit[-2:-1] or (pieces[-2].text[-1] if len(pieces) > 1 else "")
                if style.sentence_space and before in {".", "?", "!", "”"}:
                    x += style.sentence_space * style.size
    return pieces


def _runs(style: Style, text: str, fonts: FontSet) -> list[tuple[str, str, int, float, bool]]:
    """The line as runs (text, font path, size, rise, the face's own small capitals), as long as they can be."""
    italic = fonts.sibling(style.face, "italic").path if style.italic_words[1] else style.face.path
    runs: list[tuple[str, str, int, float, bool]] = []
    words = text.split(" ")
    for i, word in enumerate(words):
        path = italic if style.italic_words[0] <= i < style.italic_words[1] else style.face.path
        caps = style.caps_words[0] <= i < style.caps_words[1]
        made = style.small_caps if caps else 0.0
        for part, size, rise in _sized(style.size, word + " " if i < len(words) - 1 else word, made):
            look = (path, size, rise, caps and not made)
            if runs and runs[-1][1:] == look:
                runs[-1] = (runs[-1][0] + part, *look)
            else:
                runs.append((part, *look))
    return runs


def _sized(size: int, word: str, small_caps: float) -> list[tuple[str, int, float]]:
    """`word` split where the size changes: made small capitals, raised digits."""
    if not small_caps and _RAISED.isdisjoint(word):
        return [(word, size, 0.0)]
    parts: list[tuple[str, int, float]] = []
    for c in word:
        if c in _RAISED:
            part = (c.translate(PLAIN_DIGIT), max(6, round(size * 0.62)), 0.34 * size)
        elif small_caps and c.islower():
            part = (c.upper(), max(6, round(size * small_caps)), 0.0)
        else:
            part = (c, size, 0.0)
        if parts and parts[-1][1:] == part[1:]:
            parts[-1] = (parts[-1][0] + part[0], *part[1:])
        else:
            parts.append(part)
    return parts


def _units(style: Style, text: str) -> list[str]:
    """`text` split after every space whose width is changed, and around the stops that are set off."""
    spaced = style.word_space or style.sentence_space or style.gap_every
    if not spaced and not style.stop_space:
        return [text]
    units, start = [], 0
    for i, c in enumerate(text):
        if style.stop_space and c in _BEFORE and i > start:
            units.append(text[start:i])
            start = i
        if i >= start and ((spaced and c == " ") or (style.stop_space and c in _BEHIND)):
            units.append(text[start : i + 1])
            start = i + 1
    return [*units, text[start:]] if start < len(text) else units


def _ligated(text: str, path: str) -> str:
    """`text` with the ligature characters that the font has, where its shaping tables do not join them."""
    if "f" not in text or "liga" in glyphs(path).features:
        return text
    chars = glyphs(path).chars
    for plain, joined in _LIGATURES:
        if joined in chars:
            text = text.replace(plain, joined)
    return text
