"""Hebrew and Arabic come out as they are read, whatever the order they were drawn in."""


import pymupdf
import pytest

from ocria.document.bidi import set_reading_order
from ocria.document.layout import lay_out

HEBREW = [
    "שלום עולם זה מבחן של הסדר",
    "בשנת 1987 נמכרו 250 ספרים בעיר",
    "חברת Acme Corp מודיעה לכולם",
    "המחיר הוא 12.50 שקלים ליום",
]
ARABIC = ["مرحبا بالعالم في المدينة", "في عام 1999 كانت السنة طويلة", "الكتاب على الطاولة الكبيرة"]
# No built-in font has Hebrew or Arabic: accented letters are drawn in their place, which the text layer does not say.
LETTERS = sorted({c for line in HEBREW + ARABIC for c in line if not c.isascii()})
DRAWN = dict(zip(LETTERS, "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿ", strict=False))


def runs_from_left(line):
    """The characters of a line as they stand on the page, from left to right: the line turned round, numbers and
    Latin words kept."""
    placed = []
    for word in line.split(" ")[::-1]:
        placed.append(word if word.isascii() else word[::-1])
    for i in range(len(placed) - 1):
        if placed[i].isalpha() and placed[i + 1].isalpha() and (placed[i] + placed[i + 1]).isascii():
            placed[i], placed[i + 1] = placed[i + 1], placed[i]
    return " ".join(placed)


def drawn(lines, how, rng):
    font = pymupdf.Font("tiro")
    pdf = pymupdf.open()
    page = pdf.new_page(width=500, height=400)
    page.insert_font("F0", fontbuffer=font.buffer)
    size = rng.uniform(9, 16)
    for row, line in enumerate(lines):
        y, shown = 60 + 24 * row, runs_from_left(line)
        text = "".join(DRAWN.get(c, c) for c in (line if how == "backwards" else shown))
        x = 50 if how == "backwards" else 450 - font.text_length(text, size)
        if how != "from the right":
            page.insert_text((x, y), text, fontname="F0", fontsize=size)
            continue
        places = []
        for character in text:
            places.append((character, x))
            x += font.text_length(character, size)
        for character, at in reversed(places):
            page.insert_text((at, y), character, fontname="F0", fontsize=size)
    say(pdf, font, {other: c for c, other in DRAWN.items()})
    return pdf


def say(pdf, font, meaning):
    """Let the text layer give for drawn characters what they mean."""
    characters = [chr(c) for c in range(32, 127)] + list(meaning)
    rows = [f"<{font.has_glyph(ord(c)):04x}> <{ord(meaning.get(c, c)):04x}>" for c in characters]
    parts = "".join(
        f"{len(part)} beginbfchar\n{chr(10).join(part)}\nendbfchar\n"
        for part in (rows[i : i + 100] for i in range(0, len(rows), 100))
    )
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def\n"
        f"1 begincodespacerange <0000> <FFFF> endcodespacerange\n{parts}endcmap end end"
    )
    for xref in range(1, pdf.xref_length()):
        kind, value = pdf.xref_get_key(xref, "ToUnicode")
        if kind == "xref":
            pdf.update_stream(int(value.split()[0]), cmap.encode())


@pytest.mark.parametrize("how", ["in the order of the page", "from the right", "backwards"])
@pytest.mark.parametrize("lines", [HEBREW, ARABIC], ids=["Hebrew", "Arabic"])
def test_lines_come_out_as_they_are_read(lines, how, rng):
    lines = rng.sample(lines, len(lines))
    blocks = lay_out(drawn(lines, how, rng), 0).blocks
    assert " ".join(" ".join(block.text for block in blocks).split()) == " ".join(lines)


def test_latin_lines_are_left_alone(rng):
    pdf = pymupdf.open()
    page = pdf.new_page()
    page.insert_text((60, 60), "plain words, 1,204.50 and more")
    before = page.get_text("rawdict")["blocks"]
    after = page.get_text("rawdict")["blocks"]
    set_reading_order(after)
    assert after == before
