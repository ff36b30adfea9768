"""A font for text that is found and copied but never seen: every character has a width and no shape.

One character has one code of two bytes, so any text of Unicode can be written; a map tells readers which it is.
Source: ISO 32000-1, 9.7 (composite fonts) and 9.10.3 (ToUnicode); the OpenType specification for the font file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pymupdf

from ocria.document.mupdf import serial

ASCENT, DESCENT = 0.8, 0.2
"""Shares of the size of letters over and under the baseline: together 1, so that marked text is as high as its line."""
_UNITS = 1000
_WIDTHS_FROM = "tiro"
_USUAL_WIDTH = 500
_NAME = "OcriaGlyphless"


class Glyphless:
    """The font as an object of a PDF, with the characters of some texts; without texts there is none."""

    @serial
    def __init__(self, pdf: pymupdf.Document, texts: Iterable[str]):
        self._codes = {character: code for code, character in enumerate(sorted(set().union(*texts)), 1)}
        measure = pymupdf.Font(_WIDTHS_FROM)
        self._widths = {c: round(_UNITS * measure.glyph_advance(ord(c))) for c in self._codes}
        self.xref = self._write(pdf) if self._codes else 0

    def codes(self, text: str) -> str:
        """The text as the hexadecimal string of a content stream, without its brackets."""
        return "".join(f"{self._codes[character]:04X}" for character in text)

    def length(self, text: str) -> float:
        """How long the text is at size 1."""
        return sum(self._widths[character] for character in text) / _UNITS

    def _write(self, pdf: pymupdf.Document) -> int:
        file = _stream(pdf, f"<</Length1 {len(_FONT_FILE)}>>", _FONT_FILE)
        glyphs = _stream(pdf, "<<>>", bytes(2 * (len(self._codes) + 1)))
        unicode = _stream(pdf, "<<>>", self._map().encode("ascii"))
        descriptor = _object(
            pdf,
            f"<</Type/FontDescriptor/FontName/{_NAME}/Flags 4/FontBBox[0 {-DESCENT * _UNITS:g} {_UNITS} "
            f"{ASCENT * _UNITS:g}]/ItalicAngle 0/Ascent {ASCENT * _UNITS:g}/Descent {-DESCENT * _UNITS:g}"
            f"/CapHeight {ASCENT * _UNITS:g}/StemV 80/FontFile2 {file} 0 R>>",
        )
        widths = " ".join(str(self._widths[character]) for character in self._codes)
        descendant = _object(
            pdf,
            f"<</Type/Font/Subtype/CIDFontType2/BaseFont/{_NAME}/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)"
            f"/Supplement 0>>/FontDescriptor {descriptor} 0 R/DW {_USUAL_WIDTH}/W[1[{widths}]]"
            f"/CIDToGIDMap {glyphs} 0 R>>",
        )
        return _object(
            pdf,
            f"<</Type/Font/Subtype/Type0/BaseFont/{_NAME}/Encoding/Identity-H/DescendantFonts[{descendant} 0 R]"
            f"/ToUnicode {unicode} 0 R>>",
        )

    def _map(self) -> str:
        """The ToUnicode map, in parts of a hundred entries, as its format demands."""
        entries = [f"<{code:04X}> <{c.encode('utf-16-be').hex().upper()}>" for c, code in self._codes.items()]
        parts = [entries[at : at + 100] for at in range(0, len(entries), 100)]
        body = "\n".join("\n".join([f"{len(part)} beginbfchar", *part, "endbfchar"]) for part in parts)
        return (
            "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n"
            "/CIDSystemInfo <</Registry (Adobe) /Ordering (UCS) /Supplement 0>> def\n"
            "/CMapName /Adobe-Identity-UCS def\n/CMapType 2 def\n"
            f"1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n{body}\n"
            "endcmap\nCMapName currentdict /CMap defineresource pop\nend\nend\n"
        )


def _object(pdf: pymupdf.Document, text: str) -> int:
    xref = pdf.get_new_xref()
    pdf.update_object(xref, text)
    return xref


def _stream(pdf: pymupdf.Document, dictionary: str, content: bytes) -> int:
    xref = _object(pdf, dictionary)
    pdf.update_stream(xref, content)
    return xref


def _font_file() -> bytes:
    """A TrueType font with one glyph: a line without width from corner to corner, which no fill shows. MuPDF takes text
    of no extent for nothing."""
    ascent, descent = round(ASCENT * _UNITS), -round(DESCENT * _UNITS)
    glyph = struct.pack(">hhhhhHHBBhhhh", 1, 0, descent, _UNITS, ascent, 1, 0, 1, 1, 0, _UNITS, descent, _UNITS)
    tables = {
        b"glyf": glyph,
        b"head": struct.pack(
            ">IIIIHHQQhhhhHHhhh", 0x10000, 0x10000, 0, 0x5F0F3CF5, 0, _UNITS, 0, 0, 0, descent, _UNITS, ascent, 0, 8,
            2, 0, 0,
        ),
        b"hhea": struct.pack(
            ">IhhhHhhhhhhhhhhhH", 0x10000, ascent, descent, 0, _USUAL_WIDTH, 0, 0, _UNITS, 1, 0, 0, 0, 0, 0, 0, 0, 1
        ),
        b"hmtx": struct.pack(">Hh", _USUAL_WIDTH, 0),
        b"loca": struct.pack(">HH", 0, len(glyph) // 2),
        b"maxp": struct.pack(">IHHHHHHHHHHHHHH", 0x10000, 1, 2, 1, 0, 0, 1, *[0] * 8),
    }  # fmt: skip
    place = 12 + 16 * len(tables)
    directory = struct.pack(">IHHHH", 0x10000, len(tables), 64, 2, 16 * len(tables) - 64)
    body = b""
    for tag, data in sorted(tables.items()):
        padded = data + bytes(-len(data) % 4)
        total = sum(struct.unpack(f">{len(padded) // 4}I", padded)) & 0xFFFFFFFF
        directory += tag + struct.pack(">III", total, place + len(body), len(data))
        body += padded
    return directory + body


_FONT_FILE = _font_file()
