"""Text layers become blocks in reading order, in the space of the displayed page."""

import pymupdf
import pytest
from made import PARAGRAPH

from ocria.document.layout import lay_out
from ocria.document.place import LinePlace, place_lines


def test_heading_paragraph_and_table(born_digital):
    pdf = pymupdf.open(stream=born_digital)
    first, second = lay_out(pdf, 0).blocks, lay_out(pdf, 1).blocks
    assert first[0].type in ("heading", "title")
    assert first[0].markdown == "# The Ledger of the Port"
    assert "the captain's name" in first[1].text
    assert "well-known vessel" in first[1].markdown
    assert [block.order for block in first] == list(range(len(first)))
    table = next(block for block in second if block.type == "table")
    assert "| June | 275 | 3 |" in table.markdown
    assert "June\t275\t3" in table.text


def test_boxes_cover_their_text(born_digital):
    pdf = pymupdf.open(stream=born_digital)
    heading = lay_out(pdf, 0).blocks[0]
    x0, y0, x1, y1 = heading.box
    assert x0 == pytest.approx(72, abs=2)
    assert y0 < 100 < y1 + 1
    assert 200 < x1 < 320


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_a_page_that_shows_sideways_is_read_and_its_boxes_stay_in_place(born_digital, rotation):
    pdf = pymupdf.open(stream=born_digital)
    upright = lay_out(pdf, 0)
    pdf[0].set_rotation(rotation)
    turned = lay_out(pdf, 0)
    assert turned.turned == 360 - rotation
    assert [b.text for b in turned.blocks] == [b.text for b in upright.blocks]
    for before, after in zip(upright.blocks, turned.blocks, strict=True):
        expected = pymupdf.Rect(before.box) * pdf[0].rotation_matrix
        assert after.box == pytest.approx(tuple(expected), abs=2.0)


def test_an_upright_page_with_a_rotation_entry_is_not_turned():
    pdf = pymupdf.open()
    page = pdf.new_page(width=792, height=612)
    for row, line in enumerate(PARAGRAPH):
        page.insert_text(pymupdf.Point(500 - 16 * row, 72), line, rotate=270)
    page.set_rotation(270)
    layout = lay_out(pdf, 0)
    assert layout.turned == 0
    assert "the captain's name" in layout.blocks[0].text


def test_the_document_is_left_as_it_was(born_digital):
    pdf = pymupdf.open(stream=born_digital)
    pdf[0].set_rotation(90)
    before = pdf[0].get_text(), pdf[0].rotation, pdf[0].read_contents()
    lay_out(pdf, 0)
    assert (pdf[0].get_text(), pdf[0].rotation, pdf[0].read_contents()) == before


def test_nothing_is_printed(born_digital, capfd):
    lay_out(pymupdf.open(stream=born_digital), 1)
    out, err = capfd.readouterr()
    assert out == err == ""


def place(x0, y0, x1, size):
    return LinePlace((x0, y0 - 0.7 * size, x1, y0 + 0.2 * size), y0, 0.46 * size)


def test_placed_lines_come_back_with_their_characters_and_spaces():
    lines = [
        ("It’s “quoted” — with a dash… and 5 € § 7", place(72, 100, 330, 11)),
        ("in café Łódź, naïve façade • ½ × 3", place(72, 114, 330, 11)),
        ("   ", place(72, 128, 330, 11)),
    ]
    blocks = lay_out(place_lines(612, 792, lines), 0).blocks
    assert " ".join(b.text for b in blocks) == (
        "It’s “quoted” — with a dash… and 5 € § 7 in café Łódź, naïve façade • ½ × 3"
    )


def test_placed_columns_are_read_one_after_the_other():
    lines = []
    for row in range(20):
        y = 90 + 14 * row
        # As a line finder may give them: across the page, and with widths that wobble.
        lines.append((f"left {row} lorem ipsum dolor sit amet", place(60, y, 270 + row % 3, 10)))
        lines.append((f"right {row} consectetur adipiscing elit", place(330, y + 0.4, 545 - row % 3, 10)))
    text = " ".join(b.text for b in lay_out(place_lines(612, 792, lines), 0).blocks)
    places = [text.index(f"left {row} ") for row in range(20)] + [text.index(f"right {row} ") for row in range(20)]
    assert places == sorted(places)


def test_a_placed_line_fills_its_box():
    wide = place(72, 100, 400, 12)
    page = place_lines(612, 792, [("a line of text set wide", wide)])[0]
    assert page.get_text("words")[0][0] == pytest.approx(72, abs=1)
    assert page.get_text("words")[-1][2] == pytest.approx(400, abs=2)


def test_no_lines_give_no_blocks():
    assert lay_out(place_lines(612, 792, []), 0).blocks == []


def test_annotations_that_stand_in_the_page_come_out_after_it_was_drawn():
    pdf = pymupdf.open()
    page = pdf.new_page()
    page.insert_text((72, 100), PARAGRAPH[0])
    note = "<</Type/Annot/Subtype/FreeText/Rect[72 500 300 540]/Contents(Seen by the owner)/DA(/Helv 12 Tf 0 g)/F 4>>"
    pdf.xref_set_key(page.xref, "Annots", f"[{note}]")
    pdf = pymupdf.open(stream=pdf.tobytes())
    before = pdf[0].get_pixmap().samples
    assert "Seen by the owner" in " ".join(block.text for block in lay_out(pdf, 0).blocks)
    assert pdf[0].get_pixmap().samples == before
