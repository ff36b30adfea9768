"""Lists, code, notes, captions, headings, columns and styles of pages with text."""

import random
from collections import Counter

import pymupdf
import pytest
from drawn_tables import draw_table, prose, random_cells, words
from markdown_it import MarkdownIt
from test_tables_over_pages import SIZE, laid_out

from ocria.document.finish import finish
from ocria.document.layout import lay_out
from ocria.document.options import ParseOptions
from ocria.document.place import LinePlace, lay_out_lines
from ocria.document.result import Block, Document, LineText, Page
from ocria.document.structure.column_order import in_columns
from ocria.document.structure.paragraphs import paragraphs
from ocria.document.structure.pieces import Piece, Style, lines_of, page_pieces
from ocria.document.structure.regions import Region
from ocria.document.structure.text_blocks import Flow, PageType, page_type


@pytest.fixture
def rng():
    seed = random.randrange(1 << 32)
    print("seed", seed)
    return random.Random(seed)


@pytest.fixture
def pdf():
    return pymupdf.open()


def new_page(pdf):
    return pdf.new_page(width=SIZE[0], height=SIZE[1])


def write(page, lines, y, step=15, size=11.0, font="helv"):
    """Lines as `(x, text)`; returns the y of the next."""
    for x, text in lines:
        page.insert_text((x, y), text, fontsize=size, fontname=font)
        y += step
    return y


def blocks_of(pdf, **options):
    document = laid_out(pdf)
    finish(document, ParseOptions(**options))
    return document.blocks


def test_nested_bullets_and_items_over_lines(rng, pdf):
    page = new_page(pdf)
    before = prose(page, 72, 90, rng, 3)
    texts = [words(rng, 3, 4) for _ in range(5)]
    long = words(rng, 8, 8), words(rng, 3, 3)
    y = write(page, [(72, f"\u2022 {texts[0]}"), (72, f"\u2022 {long[0]}"), (80, long[1])], 160)
    y = write(page, [(92, f"\u2022 {texts[1]}"), (92, f"\u2022 {texts[2]}"), (72, f"\u2022 {texts[3]}")], y)
    after = prose(page, 72, y + 25, rng, 3)
    blocks = blocks_of(pdf)
    items = [block for block in blocks if block.type == "list-item"]
    assert [item.markdown for item in items] == [
        f"- {texts[0]}", f"- {' '.join(long)}", f"  - {texts[1]}", f"  - {texts[2]}", f"- {texts[3]}",
    ]  # fmt: skip
    assert [item.level for item in items] == [1, 1, 2, 2, 1]
    assert (blocks[0].text, blocks[-1].text) == (before, after)


def test_numbers_and_letters_are_kept(rng, pdf):
    page = new_page(pdf)
    prose(page, 72, 90, rng, 3)
    texts = [words(rng, 3, 4) for _ in range(5)]
    marks = [(72, "9."), (72, "10."), (96, "(a)"), (96, "(b)"), (72, "11.")]
    y = write(page, [(x, f"{mark} {text}") for (x, mark), text in zip(marks, texts, strict=True)], 160)
    prose(page, 72, y + 25, rng, 3)
    items = [block for block in blocks_of(pdf) if block.type == "list-item"]
    assert [item.markdown for item in items] == [
        f"9. {texts[0]}", f"10. {texts[1]}", f"    - (a) {texts[2]}", f"    - (b) {texts[3]}", f"11. {texts[4]}",
    ]  # fmt: skip
    html = MarkdownIt("commonmark").render("\n".join(item.markdown for item in items))
    assert html.count("<ol") == 1
    assert html.count("<li>") == 5


def test_code_keeps_its_places_and_its_backticks(rng, pdf):
    page = new_page(pdf)
    prose(page, 72, 90, rng, 3)
    name = words(rng, 1, 1)
    code = [f"def {name}(x):", "    if x > 1:", "        return `x` ** 2", "", "    return '```', *x, _y_"]
    write(page, [(72, line) for line in code], 170, step=13, size=10, font="cour")
    prose(page, 72, 290, rng, 3)
    block = next(block for block in blocks_of(pdf) if block.type == "code")
    assert block.text.split("\n") == code
    assert block.markdown.split("\n") == ["````", *code, "````"]


def test_words_in_a_monospaced_font_are_quoted(rng, pdf):
    page = new_page(pdf)
    prose(page, 72, 90, rng, 3)
    page.insert_text((72, 150), "Call", fontsize=11)
    page.insert_text((98, 150), "snake_case(*x)", fontsize=11, fontname="cour")
    page.insert_text((195, 150), f"of {words(rng, 2, 2)} in the harbour of amber.", fontsize=11)
    page.insert_text((72, 164), f"{words(rng, 5, 5)} and more.", fontsize=11)
    block = next(block for block in blocks_of(pdf) if "Call" in block.text)
    assert block.markdown.startswith("Call `snake_case(*x)` of ")


def test_footnotes_stand_alone(rng, pdf):
    page = new_page(pdf)
    for part in range(4):
        prose(page, 72, 90 + 120 * part, rng, 6)
    notes = [f"{words(rng, 5, 6)}." for _ in range(2)]
    for at, note in enumerate(notes):
        page.insert_text((72, 757 + 12 * at), str(at + 1), fontsize=6)
        page.insert_text((77, 760 + 12 * at), note, fontsize=8.5)
    found = [block for block in blocks_of(pdf) if block.type == "footnote"]
    assert [block.markdown for block in found] == [f"<sup>{at + 1}</sup> {note}" for at, note in enumerate(notes)]


@pytest.mark.parametrize("name", ["Figure 1.", "Fig. 12:", "Abb. 3 —", "FIGURE A.2:"])
def test_captions(name):
    boxes = (60, 100, 500, 300), (60, 310, 500, 325), (60, 340, 500, 500)
    figure = Block("picture", boxes[0], "", "", 0)
    caption = Block("heading", boxes[1], f"{name} The port.", f"## {name} The port.", 1, font_size=9.0)
    prose_like = Block("text", boxes[2], "Figure 2 shows a port.", "Figure 2 shows a port.", 2, font_size=11.0)
    document = Document("x", 1, "", [Page(1, "ok", *SIZE, 0, "text", "", [figure, caption, prose_like])])
    finish(document, ParseOptions())
    assert [block.type for block in document.blocks] == ["picture", "caption", "text"]
    assert caption.markdown == f"{name} The port."
    assert caption.level is None


def test_a_caption_names_something():
    alone = Block("text", (60, 100, 500, 120), "Table 4: amounts", "Table 4: amounts", 0, font_size=11.0)
    document = Document("x", 1, "", [Page(1, "ok", *SIZE, 0, "text", "", [alone])])
    finish(document, ParseOptions())
    assert alone.type == "text"


def test_levels_of_headings_over_a_document():
    told = [
        ("The Port", 22.0),
        ("1 Ships", 14.0),
        ("1.1 Cutters", 14.0),
        ("2 Cargo", 14.1),
        ("Sources", 14.0),
        ("Salt", 12.0),
    ]
    blocks = [Block("heading", (0, 0, 10, 10), text, f"# {text}", 0, font_size=size) for text, size in told]
    pages = [Page(n + 1, "ok", 0, 0, 0, "text", "", [block]) for n, block in enumerate(blocks)]
    finish(Document("x", 6, "", pages), ParseOptions())
    assert [block.level for block in blocks] == [1, 2, 3, 2, 2, 4]
    assert blocks[2].markdown == "### 1.1 Cutters"
    for page in pages:
        page.lines = [LineText(page.blocks[0].box, "", 1.0, "ok")]
        page.blocks[0].font_size *= random.uniform(0.97, 1.03)
    blocks[-1].font_size = 9.0
    finish(Document("x", 6, "", pages), ParseOptions())
    assert [block.level for block in blocks] == [1, 2, 3, 2, 2, 4]


def test_bold_words_at_the_start_of_a_paragraph_are_no_heading(rng, pdf):
    page = new_page(pdf)
    prose(page, 72, 90, rng, 3)
    page.insert_text((72, 160), "Run-in head.", fontsize=11, fontname="hebo")
    page.insert_text((148, 160), words(rng, 7, 7), fontsize=11)
    page.insert_text((72, 174), f"{words(rng, 9, 9)}.", fontsize=11)
    page.insert_text((72, 188), f"{words(rng, 4, 4)}.", fontsize=11)
    block = next(block for block in blocks_of(pdf) if "Run-in" in block.text)
    assert block.type == "text"
    assert block.markdown.startswith("**Run-in head.** ")


@pytest.mark.parametrize("columns", [2, 3])
def test_columns_are_read_one_after_the_other(rng, pdf, columns):
    page = new_page(pdf)
    page.insert_text((72, 70), "A Title over All of the Columns of the Page", fontsize=18, fontname="hebo")
    wide = 500 / columns
    told = []
    for column in range(columns):
        for row in range(rng.randint(18, 24)):
            told.append(f"c{column}r{row}")
            page.insert_text((50 + wide * column, 110 + 14 * row), f"{told[-1]} {words(rng, 3, 3)}", fontsize=9)
    blocks = blocks_of(pdf)
    assert blocks[0].markdown == "# A Title over All of the Columns of the Page"
    assert [word for block in blocks for word in block.text.split() if word[:1] == "c" and word[1:2].isdigit()] == told


def test_side_notes_do_not_break_into_lines(rng, pdf):
    page = new_page(pdf)
    lines = [words(rng, 5, 5) for _ in range(14)]
    write(page, [(220, line) for line in lines], 100)
    write(page, [(60, "A side note"), (60, "of the port")], 118, step=11, size=8, font="heit")
    text = " ".join(" ".join(block.text for block in blocks_of(pdf)).split())
    assert " ".join(lines[:2]) in text
    assert "A side note of the port" in text
    assert " ".join(lines[4:]) in text


def test_words_that_are_parted_at_line_ends_are_whole(rng, pdf):
    page = new_page(pdf)
    lines = [
        "The harbour master kept a ledger of all the car-",
        "goes that came to the well-",
        "known port of the state-of-",
        "the-art.",
    ]
    write(page, [(72, line) for line in lines], 100)
    block = blocks_of(pdf)[0]
    assert block.text == block.markdown
    assert block.text.startswith("The harbour master kept a ledger of all the cargoes that came to the well")
    assert "car-" not in block.text


def test_paragraphs_begin_where_they_are_indented_or_apart(rng):
    def line(text, x, y):
        box = (x, y - 9, x + 80, y + 3)
        return [Piece(w, box, y, 11.0, Style(), round(y), 0, at > 0, True) for at, w in enumerate(text.split())]

    told = [f"{words(rng, 6, 6)}." for _ in range(9)]
    indents = [14, 0, 0, 14, 0, 0, 0, 0, 0]
    gaps = [0, 14, 14, 14, 14, 14, 30, 14, 14]
    y = 100
    lines = []
    for text, indent, gap in zip(told, indents, gaps, strict=True):
        y += gap
        lines.append(line(text, 60 + indent, y))
    parts = [" ".join(" ".join(p.text for p in x) for x in part) for part in paragraphs(lines)]
    assert parts == [" ".join(told[:3]), " ".join(told[3:6]), " ".join(told[6:])]
    verse = [line(text, 60 + 20 * (at % 2), 100 + 14 * at) for at, text in enumerate(told)]
    assert len(paragraphs(verse[:2])) == 1


def test_soft_hyphens_show_at_the_ends_of_lines_only(pdf):
    page = new_page(pdf)
    font = pymupdf.Font("tiro")
    for x, y, text in (
        (72, 100, "The ship\xadping of the car\xad"),
        (72, 115, "go and of ever\xad"),
        (72, 130, "Green trees."),
    ):
        writer = pymupdf.TextWriter(page.rect)
        writer.append((x, y), text, font=font, fontsize=11)
        writer.write_text(page)
    assert blocks_of(pdf)[0].text == "The shipping of the cargo and of ever-Green trees."


def test_styles_are_told_where_markdown_can():
    pdf = pymupdf.open()
    page = new_page(pdf)
    page.insert_htmlbox(
        pymupdf.Rect(60, 60, 500, 400),
        "<p>An <b>amber</b> and an <i>early</i> word, <b><i>both</i></b> of them, un<b>believ</b>able, <b>2 * 3</b>, "
        "<b>a_b</b> and <b>(amber)</b>x of a plain text that goes on for some words more.</p>",
    )
    block = blocks_of(pdf)[0]
    said = "An **amber** and an *early* word, ***both*** of them, un**believ**able, **2 * 3**, **a_b** and (amber)x of"
    assert block.markdown.replace("\\", "").startswith(said)
    html = MarkdownIt("commonmark").render(block.markdown)
    assert "<strong>amber</strong>" in html


def test_every_word_of_a_page_comes_out_once(rng, pdf):
    """Text wherever it stands, tables and pictures: the same words as those that were drawn."""
    for _ in range(4):
        page = new_page(pdf)
        drawn = []
        for _ in range(rng.randint(2, 5)):
            x, y = rng.uniform(20, 300), rng.uniform(30, 330)
            size = rng.choice([7.0, 9.0, 11.0, 14.0])
            text = words(rng, 1, 6)
            if not any(pymupdf.Rect(x - 5, y - 20, x + 290, y + 5).intersects(box) for _, box in drawn):
                page.insert_text((x, y), text, fontsize=size)
                drawn.append((text, pymupdf.Rect(x - 5, y - 20, x + 290, y + 5)))
        cells = random_cells(rng, rng.randint(2, 5), rng.randint(2, 5))
        draw_table(page, cells, top=380)
        told = " ".join([*(text for text, _ in drawn), *(text for *_, text in cells)])
        out = " ".join(block.text for block in lay_out(pdf, page.number).blocks)
        assert Counter(out.split()) == Counter(told.split())


def placed(x0, y0, x1, size):
    return LinePlace((x0, y0 - 0.7 * size, x1, y0 + 0.2 * size), y0, 0.46 * size)


def test_lines_of_a_scan_become_headings_lists_and_tables(rng):
    lines = [("Ships of the Year", placed(72, 90, 300, 22))]
    first = [f"{words(rng, 9, 9)}" for _ in range(4)]
    lines += [(text, placed(72, 130 + 15 * at, 420 - at, rng.uniform(10.8, 11.2))) for at, text in enumerate(first)]
    items = [words(rng, 3, 4) for _ in range(3)]
    lines += [(f"- {text}", placed(80, 205 + 15 * at, 80 + 6 * len(text), 11)) for at, text in enumerate(items)]
    rows = [
        ["Item", "Qty", "Price"],
        *([words(rng, 1, 1), str(rng.randint(1, 99)), f"{rng.randint(1, 99)}.50"] for _ in range(6)),
    ]
    for r, row in enumerate(rows):
        lines += [
            (text, placed(72 + 150 * c, 280 + 17 * r, 72 + 150 * c + 6 * len(text), 11)) for c, text in enumerate(row)
        ]
    blocks = lay_out_lines(612, 842, lines)
    assert blocks[0].type in ("title", "heading")
    assert blocks[1].text == " ".join(first)
    assert [b.text for b in blocks if b.text.startswith("- ")] == [f"- {text}" for text in items]
    # The layout analysis may take a first item for a line of text.
    assert sum(b.type == "list-item" for b in blocks) >= 2
    table = next(block for block in blocks if block.type == "table")
    assert table.text == "\n".join("\t".join(row) for row in rows)


def test_equal_rows_of_figures_are_kept(pdf):
    page = new_page(pdf)
    write(page, [(72, "0.00 0.00 17.50 N/A 0.00")] * 40, 60, step=14, size=9)
    table = next(block for block in blocks_of(pdf) if block.type == "table")
    assert table.text.split("\n") == ["0.00\t0.00\t17.50\tN/A\t0.00"] * 40


@pytest.mark.parametrize(("render_mode", "shows"), [(0, True), (0, False), (3, True)])
def test_invisible_words_of_a_scan_are_not_raised(rng, pdf, render_mode, shows):
    page = new_page(pdf)
    for row in range(4):
        x, y = 72.0, 120 + 16 * row
        for text, rise, size in ((words(rng, 3, 3), 0, 11), (str(row + 1), 4, 7), (words(rng, 3, 3), 0, 11)):
            page.insert_text((x, y - rise), text, fontsize=size, render_mode=render_mode)
            x += pymupdf.get_text_length(text, fontsize=size) + 1.0
    pieces = [piece for line in lines_of(page_pieces(page, shows)) for piece in line]
    assert sum(piece.style.raised for piece in pieces) == (4 if render_mode == 0 and shows else 0)


def test_words_on_a_picture_that_are_prose_are_running_text():
    def line(y, text, wide):
        step = wide / len(text.split())
        return [
            Piece(word, (72 + step * at, y - 9, 69 + step * (at + 1), y + 2), y, 11.0, Style(), y, 0, at > 0, True)
            for at, word in enumerate(text.split())
        ]

    prose_lines = ["The harbour master kept a ledger of every ship", "that called at the port, with all of the cap-"]
    prose_lines += ["tain and the date of it, all in one hand."]
    for lines, wide, kinds in (
        (prose_lines, 300.0, ["text"]),
        (["North 40", "South 20", "West 10", "East 5"], 40.0, ["picture"]),
    ):
        pieces = [piece for row, text in enumerate(lines) for piece in line(100 + 13 * row, text, wide)]
        flow = Flow(page_type(pieces, 800.0))
        flow.add(Region("picture", (72.0, 90.0, 372.0, 104.0 + 13 * len(lines)), pieces=pieces))
        assert [block.type for block in flow.blocks] == kinds
        assert ("captain and" in flow.blocks[0].markdown) == (kinds == ["text"])


def test_signs_of_zapf_dingbats_are_told_as_they_show(pdf):
    page = new_page(pdf)
    signs = {"4": "\u2714", "8": "\u2718", "l": "\u25cf", "H": "\u2605", "o": "\u274f", "~": "\u275e"}
    page.insert_text((72, 100), "The harbour is open:")
    for at, key in enumerate(signs):
        page.insert_text((200 + 30 * at, 100), key, fontname="zadb")
    told = "".join(block.text for block in blocks_of(pdf))
    assert "".join(told.split()).endswith("".join(signs.values()))


@pytest.mark.parametrize(("size", "kind"), [(11.0, "list-item"), (16.0, "heading")])
def test_a_heading_that_begins_with_a_bullet_is_an_item_unless_it_is_large(size, kind):
    pieces = [
        Piece(word, (72 + 40 * at, 100, 108 + 40 * at, 112), 110, size, Style(), 0, 0, at > 0, True)
        for at, word in enumerate(["\u2022", "amber", "of", "the", "north"])
    ]
    flow = Flow(PageType(11.0, False, 800.0))
    flow.add(Region("heading", (72.0, 100.0, 300.0, 112.0), pieces=pieces))
    assert [block.type for block in flow.blocks] == [kind]


def test_columns_that_were_mixed_are_read_one_after_the_other(rng):
    def column(x):
        ys = sorted(rng.sample(range(100, 700, 7), rng.randint(4, 9)))
        return [Region("text", (x, y, x + rng.uniform(180, 220), y + 5)) for y in ys]

    left, right = column(72), [Region(r.kind, (r.box[0], r.box[1] + 3.5, *r.box[2:])) for r in column(320)]
    mixed = [left[0], right[0], left[1], right[1], *left[2:], *right[2:]]
    head, foot = Region("heading", (72, 60, 540, 80)), Region("footer", (300, 780, 310, 790))
    assert in_columns([head, *mixed, foot]) == [head, *left, *right, foot]
    # Rows of two cells each stay rows, and what was in order stays so.
    rows = [Region("text", (x, y, x + 190, y + 12)) for y in range(100, 300, 30) for x in (72, 320)]
    assert in_columns(rows) == rows
    assert in_columns([head, *left, *right, foot]) == [head, *left, *right, foot]
