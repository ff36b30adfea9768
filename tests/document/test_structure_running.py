"""Running headers, footers and page numbers, over made documents and from PDFs on."""


import pymupdf
import pytest
from drawn_tables import prose, words
from test_tables_over_pages import SIZE, laid_out

from ocria.document.finish import finish
from ocria.document.options import ParseOptions
from ocria.document.result import Block, Document, LineText, Page


def block(text, y, kind="text", x=60, width=300, size=10.0):
    markdown = f"# {text}" if kind in ("title", "heading") else text
    return Block(kind, (x, y, x + width, y + 1.2 * size), text, markdown, 0, font_size=size)


def body(rng, y=120):
    return Block("text", (60, y, 530, 700), words(rng, 20, 30), "", 0, font_size=11.0)


def document(pages, count=None, lines=False, first=1):
    made = []
    for at, blocks in enumerate(pages):
        page = Page(first + at, "ok", *SIZE, 0, "model" if lines else "text", "", list(blocks))
        page.lines = [LineText(b.box, b.text, 0.9, "ok") for b in blocks] if lines else []
        made.append(page)
    done = Document("x.pdf", count or len(made), "", made)
    finish(done, ParseOptions())
    return done


def types(done, place):
    return [page.blocks[place].type for page in done.pages]


@pytest.mark.parametrize("count", [2, 3, 7])
def test_the_same_words_at_the_edge_of_all_pages(rng, count):
    done = document([[block("The Ledger", 40), body(rng), block("Port of Trade", 800)] for _ in range(count)])
    assert types(done, 0) == ["header"] * count
    assert types(done, 1) == ["text"] * count
    assert types(done, 2) == ["footer"] * count


def test_left_and_right_pages_have_their_own(rng):
    def page(number):
        if number % 2:
            return [block(f"Chapter Two {number}", 40, x=300), body(rng)]
        return [block(f"{number} The Ledger", 40), body(rng)]

    done = document([page(number) for number in range(1, 9)])
    assert types(done, 0) == ["header"] * 8


@pytest.mark.parametrize("form", ["{}", "- {} -", "Page {} of 9", "Seite {}", "ES-{}"])
@pytest.mark.parametrize("y", [30, 810])
def test_numbers_that_count_the_pages(rng, form, y):
    shift = rng.randint(-1, 300)
    pages = [sorted([block(form.format(n + shift), y), body(rng)], key=lambda b: b.box[1]) for n in range(1, 5)]
    done = document(pages)
    kinds = [[b.type for b in page.blocks] for page in done.pages]
    assert kinds == [["header", "text"] if y < 400 else ["text", "footer"]] * 4


def test_roman_numbers_and_numbers_in_changing_places(rng):
    pages = [
        [block(n, 40 if at == 0 else 810, x=60 + 200 * (at % 2)), body(rng)]
        for at, n in enumerate(["v", "vi", "vii", "viii"])
    ]
    assert types(document(pages), 0) == ["header", "footer", "footer", "footer"]


def test_other_numbers_are_text(rng):
    """Amounts at the foot of pages do not count them."""
    pages = [[body(rng), block(amount, 800)] for amount in ("17", "4", "230")]
    assert types(document(pages), 1) == ["text"] * 3


def test_a_heading_at_the_top_of_chapters_is_none(rng):
    pages = []
    for number in range(12):
        top = [block("Exercises", 50, "heading", size=16.0)] if number in (2, 6, 11) else []
        pages.append([*top, body(rng)])
    done = document(pages)
    assert [b.type for page in done.pages for b in page.blocks if b.text == "Exercises"] == ["heading"] * 3


def test_numbered_chapters_are_headings(rng):
    done = document([[block(f"Chapter {n}", 50, "heading", size=18.0), body(rng)] for n in (1, 1 + 1, 5, 9)])
    assert types(done, 0)[2:] == ["heading"] * 2


def test_the_title_that_runs_on_as_a_header_is_a_title_first(rng):
    done = document([[block("The Ledger", 50, "title", size=20.0), body(rng)] for _ in range(5)])
    assert types(done, 0) == ["title"] + ["header"] * 4
    assert done.pages[0].blocks[0].markdown == "# The Ledger"
    assert done.pages[1].blocks[0].markdown == "The Ledger"
    assert done.pages[1].blocks[0].level is None


def test_names_of_columns_on_every_page_are_text(rng):
    """They stand right on their columns."""
    pages = [[block("Name Stock Price", 100), body(rng, 113)] for _ in range(4)]
    assert types(document(pages), 0) == ["text"] * 4


def test_text_of_the_body_that_repeats_is_text(rng):
    pages = [[body(rng), block("Signed by the harbour master.", 600)] for _ in range(4)]
    assert types(document(pages), 1) == ["text"] * 4


def test_what_only_looks_like_a_header_is_text(rng):
    """The layout analysis is not believed where nothing else on the pages says so."""
    done = document([[block("Harbour Office, 5 Quay", 30, "header"), body(rng), block("1", 810, "footer")]])
    assert [b.type for b in done.pages[0].blocks] == ["text", "text", "footer"]
    done = document([[block("The Great Ledger", 30, "header", size=22.0), body(rng)], [body(rng)]])
    assert done.pages[0].blocks[0].type == "heading"
    assert done.pages[0].blocks[0].markdown == "# The Great Ledger"


def test_headers_that_change_stand_at_one_height(rng):
    pages = [[block(name, 30, "header"), body(rng)] for name in ("Ships", "Cargo", "Crews")]
    assert types(document(pages), 0) == ["header"] * 3


def test_one_page_of_many_keeps_what_the_layout_says(rng):
    done = document([[block("The Ledger, volume 3", 30, "header"), body(rng)]], count=40, first=7)
    assert types(done, 0) == ["header"]


def test_readings_of_scans_may_differ(rng):
    names = ["The Harbour Ledger", "The Harb0ur Ledger", "Tne Harbour Ledger", "The Harbour Ledqer"]
    pages = [[block(name, 40 + rng.random() * 4), body(rng)] for name in names]
    assert types(document(pages, lines=True), 0) == ["header"] * 4
    assert "header" not in types(document(pages[:1], lines=True), 0)


def test_pages_that_lie_on_their_side(rng):
    def page(number):
        # Read after a quarter turn clockwise: the top is at the left.
        return [
            Block("text", (40, 100, 52, 400), "The Ledger", "The Ledger", 0, font_size=10.0),
            Block("text", (120, 60, 500, 780), words(rng, 20, 30), "", 0, font_size=11.0),
        ]

    made = [Page(n, "ok", *SIZE, 90, "text", "", page(n)) for n in (1, 2, 3)]
    done = Document("x.pdf", 3, "", made)
    finish(done, ParseOptions())
    assert types(done, 0) == ["header"] * 3


@pytest.mark.parametrize("count", [1, 4])
def test_from_the_pdf_on(rng, count):
    pdf = pymupdf.open()
    for number in range(count):
        page = pdf.new_page(width=SIZE[0], height=SIZE[1])
        page.insert_text((72, 40), "The Ledger of the Port", fontsize=9)
        page.insert_text((290, 815), str(number + 1), fontsize=9)
        if number == 0:
            page.insert_text((72, 100), "Ships of the Year", fontsize=20, fontname="hebo")
        for part in range(3):
            prose(page, 72, 140 + 120 * part, rng, lines=5)
    done = laid_out(pdf)
    finish(done, ParseOptions())
    told = [b.text for page in done.pages for b in page.blocks if b.type in ("header", "footer")]
    if count > 1:
        assert told == [text for n in range(count) for text in ("The Ledger of the Port", str(n + 1))]
        assert "Ledger" not in done.markdown
    else:
        assert "The Ledger of the Port" in done.markdown
    assert "# Ships of the Year" in done.markdown.splitlines()


def test_a_document_without_text(rng):
    done = document([[], []])
    assert done.markdown == ""
