"""The text of a page in pieces: runs of characters without a space between them that look alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pymupdf

from ocria.document.bidi import set_reading_order
from ocria.document.clean import clean_text
from ocria.document.structure.dingbats import as_dingbats
from ocria.events import Box

# Spaces stay, ligatures are spelt out by MuPDF, and text that replaces what is drawn is not taken.
_FLAGS = (
    pymupdf.TEXT_PRESERVE_WHITESPACE
    | pymupdf.TEXT_COLLECT_STYLES
    | pymupdf.TEXT_MEDIABOX_CLIP
    | pymupdf.TEXT_IGNORE_ACTUALTEXT
)
_SOFT_HYPHEN = "\xad"
# Of a line's height: how far baselines of one line may lie apart, and those of raised letters.
_SAME_BASELINE = 0.2
_RAISED = 0.6
# Programs that read scans write their text in fonts without glyphs, which call themselves monospaced.
_NO_GLYPHS = ("GlyphLess", "OCR-", "Invisible")


@dataclass(frozen=True, slots=True)
class Style:
    """How letters look, as far as Markdown tells it."""

    bold: bool = False
    italic: bool = False
    mono: bool = False
    raised: bool = False
    struck: bool = False


@dataclass(slots=True)
class Piece:
    """Characters without a space between them, on the page as displayed, in points."""

    text: str
    box: Box
    baseline: float
    """y, of a line that runs across."""
    size: float
    style: Style
    line: int
    """Which of MuPDF's lines it belongs to."""
    block: int
    spaced: bool
    """Whether a space stands before it."""
    across: bool
    """Whether its line runs from left to right, or from right to left."""
    drawn: bool = True
    """Whether it shows: text that programs lay over scans does not, and its baselines and sizes are rough."""

    @property
    def middle(self) -> tuple[float, float]:
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2


Line = list[Piece]


def page_pieces(page: pymupdf.Page, shows: bool = True) -> list[Piece]:
    """All text of a page without rotation, in the order of its content.

    Args:
        shows: whether what is drawn can be seen, which the reading of a scan under its image cannot.
    """
    pieces: list[Piece] = []
    number = 0
    blocks = page.get_text("rawdict", flags=_FLAGS)["blocks"]
    set_reading_order(blocks)
    for block_number, block in enumerate(blocks):
        for line in block.get("lines", ()):
            across = abs(line["dir"][1]) < 0.02
            spaced = False
            first = len(pieces)
            for span in line["spans"]:
                spaced = _span_pieces(pieces, span, number, block_number, spaced, across)
            number += 1
            for piece in pieces[first:]:
                if not shows:
                    piece.drawn, piece.style = False, replace(piece.style, raised=False)
                # A soft hyphen shows at the end of a line only.
                piece.text = piece.text.replace(_SOFT_HYPHEN, "-" if piece is pieces[-1] else "")
            pieces[first:] = [piece for piece in pieces[first:] if piece.text]
    return pieces


def lines_of(pieces: Sequence[Piece]) -> list[Line]:
    """Pieces of one part of a page as its printed lines, from top to bottom; each line in its reading order."""
    runs: list[Line] = []
    for piece in pieces:
        if runs and runs[-1][-1].line == piece.line:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    lines: list[list[Line]] = []
    for run in sorted(runs, key=lambda run: (not run[0].across, _low(run))):
        home = next((line for line in reversed(lines[-3:]) if run[0].across and _one_line(line, run)), None)
        if home is None:
            lines.append([run])
        else:
            home.append(run)
    # Each beginning of a line stands where its baseline does; raised letters do not move it.
    lines.sort(key=lambda line: (not line[0][0].across, _low(max(line, key=_size))))
    return [_in_order(line) for line in lines]


def box_of(pieces: Sequence[Piece]) -> Box:
    """What the pieces cover."""
    boxes = [piece.box for piece in pieces]
    return (
        min(box[0] for box in boxes),
        min(box[1] for box in boxes),
        max(box[2] for box in boxes),
        max(box[3] for box in boxes),
    )


def line_text(line: Line) -> str:
    """The pieces of a line with the spaces between them."""
    return "".join(" " * (at > 0 and piece.spaced) + piece.text for at, piece in enumerate(line))


def _span_pieces(pieces: list[Piece], span: dict, line: int, block: int, spaced: bool, across: bool) -> bool:
    """Add the pieces of a span; returns whether it ends with a space."""
    style, drawn = _style(span), _is_drawn(span)
    letters: list[dict] = []
    for char in [*span["chars"], None]:
        if char is not None and not char["c"].isspace():
            letters.append(char)
            continue
        if letters:
            said = "".join(letter["c"] for letter in letters)
            text = clean_text(as_dingbats(said, span["font"]))
            if said.endswith(_SOFT_HYPHEN):
                text = text.removesuffix("-") + _SOFT_HYPHEN
            if text:
                boxes = [letter["bbox"] for letter in letters]
                box = (
                    min(b[0] for b in boxes),
                    min(b[1] for b in boxes),
                    max(b[2] for b in boxes),
                    max(b[3] for b in boxes),
                )
                baseline = letters[0]["origin"][1]
                pieces.append(Piece(text, box, baseline, span["size"], style, line, block, spaced, across, drawn))
                spaced = False
            letters = []
        if char is not None:
            spaced = True
    return spaced


def _style(span: dict) -> Style:
    flags, more = span["flags"], span["char_flags"]
    mono = bool(flags & pymupdf.TEXT_FONT_MONOSPACED) and not any(name in span["font"] for name in _NO_GLYPHS)
    return Style(
        bold=bool(flags & pymupdf.TEXT_FONT_BOLD or more & pymupdf.mupdf.FZ_STEXT_BOLD),
        italic=bool(flags & pymupdf.TEXT_FONT_ITALIC),
        mono=mono,
        raised=bool(flags & pymupdf.TEXT_FONT_SUPERSCRIPT) and _is_drawn(span),
        struck=bool(more & pymupdf.mupdf.FZ_STEXT_STRIKEOUT),
    )


def _is_drawn(span: dict) -> bool:
    return bool(span["char_flags"] & (pymupdf.mupdf.FZ_STEXT_FILLED | pymupdf.mupdf.FZ_STEXT_STROKED))


def _one_line(line: list[Line], run: Line) -> bool:
    """Whether a run of MuPDF's is part of a printed line."""
    for other in line:
        large, small = (other, run) if _size(other) >= _size(run) else (run, other)
        apart = abs(_low(other) - _low(run))
        overlap = min(other[-1].box[2], run[-1].box[2]) - max(other[0].box[0], run[0].box[0])
        if overlap > 0.3 * _size(small):
            continue
        if apart <= _SAME_BASELINE * _size(large):
            return True
        near = -overlap < 0.5 * _size(large)
        if near and _size(small) < 0.85 * _size(large) and apart <= _RAISED * _size(large):
            return True
    return False


def _in_order(runs: list[Line]) -> Line:
    backwards = 2 * sum(map(_is_backwards, runs)) > len(runs)
    runs = sorted(runs, key=lambda run: -run[0].box[2] if backwards else run[0].box[0])
    line: Line = []
    for run in runs:
        if line:
            gap = line[-1].box[0] - run[0].box[2] if backwards else run[0].box[0] - line[-1].box[2]
            run[0].spaced = run[0].spaced or gap > 0.1 * _size(run)
        line += run
    return _raised(line)


def _raised(line: Line) -> Line:
    """Small letters over the baseline of the others are raised, whatever their font says."""
    main = max(line, key=lambda piece: (round(piece.size, 1), len(piece.text)))
    for piece in line:
        high = main.baseline - piece.baseline > 0.15 * main.size
        if piece.across and piece.drawn and high and piece.size < 0.85 * main.size:
            piece.style = replace(piece.style, raised=True)
    return line


def _is_backwards(run: Line) -> bool:
    letters = "".join(piece.text for piece in run)
    return 2 * sum("\u0590" <= c <= "\u08ff" or "\ufb1d" <= c <= "\ufefc" for c in letters) > len(letters)


def _low(run: Line) -> float:
    return max(run, key=lambda piece: piece.size).baseline


def _size(run: Line) -> float:
    return max(piece.size for piece in run)
