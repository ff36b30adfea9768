"""PDFs whose text layers say something else than their pixels."""

import pymupdf

LETTERS = "abcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"


def lying_pdf(lines, wrong, font="helv", size=11, direction=0):
    """Bytes of a PDF with these lines in an embedded font whose Unicode map gives `wrong[c]` for some characters."""
    font = pymupdf.Font(font)
    pdf = pymupdf.open()
    page = pdf.new_page()
    page.insert_font("F0", fontbuffer=font.buffer)
    for row, line in enumerate(lines):
        at = (40, 60 + 22 * row) if direction == 0 else (60 + 22 * row, 700)
        page.insert_text(at, line, fontname="F0", fontsize=size, rotate=direction)
    entries = [
        f"<{font.has_glyph(ord(c)):04x}> <{ord(wrong.get(c, c)):04x}>" for c in sorted(set("".join(lines)))
    ]
    table = "\n".join(entries)
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /Wrong def /CMapType 2 def\n"
        f"1 begincodespacerange <0000> <FFFF> endcodespacerange\n{len(entries)} beginbfchar\n{table}\nendbfchar\n"
        "endcmap end end"
    )
    for xref in range(1, pdf.xref_length()):
        kind, value = pdf.xref_get_key(xref, "ToUnicode")
        if kind == "xref":
            pdf.update_stream(int(value.split()[0]), cmap.encode())
    return pdf.tobytes()


def shifted(by):
    """Every letter moved along the alphabet."""
    small = {c: LETTERS[(i + by) % 26] for i, c in enumerate(LETTERS)}
    return small | {c.upper(): other.upper() for c, other in small.items()}


def swapped(one, other):
    return {one: other, other: one}
