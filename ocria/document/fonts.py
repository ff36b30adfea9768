"""Which fonts of a page provably draw the characters that its text layer says.

A font program has a map of its own from characters to glyphs, by its tables or by the names of its glyphs. Where it
draws for a character the very glyph that this map gives, the text layer does not lie. Programs that make PDFs often
leave the map out; then only the pixels can tell.
"""

from __future__ import annotations

from collections import defaultdict

import pymupdf

from ocria.document.hidden import TextLayer
from ocria.document.trust import is_latin

# What MuPDF draws with where a file leaves its font out.
_STAND_INS = ("helv", "hebo", "heit", "hebi", "tiro", "tibo", "tiit", "tibi", "cour", "cobo", "coit", "cobi")
_LEAST_MAPPED = 0.8
"""Share of the characters that the font's own map must know."""


def doubtful_fonts(page: pymupdf.Page, layer: TextLayer) -> dict[str, str]:
    """Fonts with visible Latin letters or digits whose text cannot be proven: the name in the trace of each, and a key
    that is the same wherever the document uses these very fonts."""
    pairs: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for i, glyph in enumerate(layer.glyphs):
        if layer.shows[i] and len(glyph.text) == 1 and is_latin(glyph.text):
            pairs[layer.runs[glyph.run].font].add((glyph.text, glyph.number))
    if not pairs:
        return {}
    entries: dict[str, list[int]] = defaultdict(list)
    for xref, ending, _, name, *_ in page.get_fonts(full=True):
        entries[_plain(name)].append(xref if ending != "n/a" else 0)
    doubtful = {}
    for name, drawn in pairs.items():
        xrefs = sorted(set(entries.get(_plain(name), [])))
        programs = [font for xref in xrefs if xref and (font := _program(page.parent, xref)) is not None]
        if 0 in xrefs or not xrefs:
            programs += [pymupdf.Font(stand_in) for stand_in in _STAND_INS]
        if not _is_proven(drawn, programs):
            doubtful[name] = f"{name} {' '.join(map(str, xrefs))}"
    return doubtful


def _is_proven(drawn: set[tuple[str, int]], programs: list[pymupdf.Font]) -> bool:
    """Whether one of the font programs maps the characters to just these glyphs."""
    for program in programs:
        own = [(program.has_glyph(ord(text)), number) for text, number in drawn]
        known = [pair for pair in own if pair[0]]
        if len(known) >= _LEAST_MAPPED * len(own) and all(given == number for given, number in known):
            return True
    return False


def _program(pdf: pymupdf.Document, xref: int) -> pymupdf.Font | None:
    """The embedded font program, or None where it cannot be loaded alone."""
    content = pdf.extract_font(xref)[3]
    if not content:
        return None
    try:
        return pymupdf.Font(fontbuffer=content)
    except Exception:  # MuPDF raises errors of several kinds for a font that is damaged or of a rare format
        return None


def _plain(name: str) -> str:
    """The name without the six letters that mark a subset, by which MuPDF calls the font."""
    return name[7:] if len(name) > 7 and name[6] == "+" else name
