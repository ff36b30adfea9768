"""Lines of a page's text layer that are worth comparing with the pixels."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pymupdf

from ocria.document.facts import Doubtful, TextSample
from ocria.document.fonts import doubtful_fonts
from ocria.document.glyphs import Glyph, Run
from ocria.document.hidden import TextLayer
from ocria.document.trust import is_latin

_MOST_LETTERS = 40
_LEAST_LETTERS = 6
_LEAST_LATIN = 0.8
"""Share of a line's letters of any script."""
_SAMPLES = 5
_ENOUGH = 3
"""Times that a character should appear in the samples of a font."""
_SIZES = (5.0, 60.0)
"""Points: smaller and larger print is read less surely."""


def doubtful_text(page: pymupdf.Page, layer: TextLayer) -> tuple[Doubtful, ...]:
    """Fonts of a page that could lie, each with a few of its lines; none where a font has too little Latin text."""
    fonts = doubtful_fonts(page, layer)
    if not fonts:
        return ()
    lines: dict[str, list[_Line]] = defaultdict(list)
    letters: Counter[str] = Counter()
    for line in _lines(layer):
        if line.font in fonts:
            lines[line.font].append(line)
            letters[line.font] += line.letters
    found = []
    for font, key in fonts.items():
        samples = tuple(line.sample() for line in _chosen(lines[font]))
        if samples:
            found.append(Doubtful(key, letters[font], samples))
    return tuple(found)


@dataclass(slots=True)
class _Line:
    """Neighbouring glyphs of one font."""

    font: str
    glyphs: list[Glyph]
    run: Run

    @property
    def text(self) -> str:
        return "".join(glyph.text for glyph in self.glyphs)

    @property
    def letters(self) -> int:
        return sum(is_latin(glyph.text) for glyph in self.glyphs)

    def sample(self) -> TextSample:
        box = pymupdf.Rect()
        for glyph in self.glyphs:
            if not glyph.text.isspace():
                box.include_rect(glyph.box)
        across, down = self.run.direction
        turned = (0 if across > 0 else 180) if abs(across) >= abs(down) else 270 if down > 0 else 90
        return TextSample(" ".join(self.text.split()), tuple(box), turned)


def _lines(layer: TextLayer) -> list[_Line]:
    """The visible glyphs in runs that stand on one line, none much longer than a few words."""
    lines: list[_Line] = []
    for i, glyph in enumerate(layer.glyphs):
        if not layer.shows[i] or layer.again[i]:
            continue
        run = layer.runs[glyph.run]
        line = lines[-1] if lines else None
        if line is not None and line.font == run.font and line.run.direction == run.direction:
            along, aside = _step(line.glyphs[-1], glyph, run)
            joined = abs(aside) < 0.1 * run.size and -0.3 * run.size < along < 1.2 * run.size
            full = len(line.glyphs) >= (_MOST_LETTERS if not glyph.text.isalnum() else 2 * _MOST_LETTERS)
            if joined and not full:
                line.glyphs += [_space(glyph)] * (along > 0.2 * run.size) + [glyph]
                continue
        lines.append(_Line(run.font, [glyph], run))
    return lines


def _space(before: Glyph) -> Glyph:
    return Glyph(" ", before.origin, before.box, before.run, before.number)


def _step(before: Glyph, after: Glyph, run: Run) -> tuple[float, float]:
    """From the end of one glyph to the next, along the line and across it, in points."""
    across, down = run.direction
    width = abs(across) * (before.box[2] - before.box[0]) + abs(down) * (before.box[3] - before.box[1])
    x, y = after.origin[0] - before.origin[0], after.origin[1] - before.origin[1]
    return x * across + y * down - width, y * across - x * down


def _chosen(lines: Sequence[_Line]) -> list[_Line]:
    """A few lines that show as many different characters as they can, each often enough."""
    fit = [line for line in lines if _is_fit(line)]
    chosen: list[_Line] = []
    seen: Counter[str] = Counter()
    while fit and len(chosen) < _SAMPLES:
        best = max(fit, key=lambda line: _gain(line, seen))
        if chosen and _gain(best, seen) == 0:
            break
        chosen.append(best)
        fit.remove(best)
        seen += Counter(glyph.text for glyph in best.glyphs if is_latin(glyph.text))
    return chosen


def _gain(line: _Line, seen: Counter[str]) -> int:
    """What a line adds to what was seen; of digits there are few, and each matters."""
    own = Counter(glyph.text for glyph in line.glyphs if is_latin(glyph.text))
    return sum(
        (3 if text.isdigit() else 1) * (min(_ENOUGH, seen[text] + count) - min(_ENOUGH, seen[text]))
        for text, count in own.items()
    )


def _is_fit(line: _Line) -> bool:
    letters = sum(glyph.text.isalnum() for glyph in line.glyphs)
    across, down = line.run.direction
    level = min(abs(across), abs(down)) < 0.02
    size = _SIZES[0] <= line.run.size <= _SIZES[1]
    return level and size and line.letters >= max(_LEAST_LETTERS, _LEAST_LATIN * letters)
