"""Tables over several pages become one, with every drawn row once."""

import json

import pymupdf
import pytest
from drawn_tables import draw_table, prose, words
from made import samples

from ocria.document.finish import finish
from ocria.document.layout import lay_out
from ocria.document.options import ParseOptions
from ocria.document.result import Block, Cell, Document, Page
from ocria.document.table import cells_rows, cells_text
from ocria.document.write.store import page_from_dict, page_to_dict

SIZE = (595.0, 842.0)
BOX = (60, 100, 500, 780)
TOP = (60, 90, 500, 200)
BELOW = (60, 790, 500, 800)


def grid(rows, header=0):
    return [Cell(r, c, 1, 1, text, r < header) for r, row in enumerate(rows) for c, text in enumerate(row)]


def table(rows, box=BOX, header=0):
    cells = grid(rows, header)
    return Block("table", box, cells_text(cells), "", 0, cells=cells)


def text(words, box=(60, 60, 500, 80), kind="text"):
    return Block(kind, box, words, words, 0, font_size=11.0)


def document(*pages, first=1, route="text"):
    made = [Page(first + at, "ok", *SIZE, 0, route, "", list(blocks)) for at, blocks in enumerate(pages)]
    return Document("x.pdf", len(made), "", made)


def finished(document, **options):
    finish(document, ParseOptions(**options))
    return document


def test_rows_are_conserved(rng):
    """Random tables over 2 to 4 pages, with and without a head, repeated or not, equal rows among them."""
    for _ in range(60):
        columns = rng.randint(2, 5)
        head = [[words(rng, 1, 1) for _ in range(columns)]] if rng.random() < 0.6 else []
        repeat, marked = rng.random() < 0.5, rng.random() < 0.7
        pages, expected, row_pages = [], list(head), [1] * len(head)
        for number in range(rng.randint(2, 4)):
            body = [
                [rng.choice(["0.00", f"{words(rng)} 1"]) for _ in range(columns)] for _ in range(rng.randint(2, 20))
            ]
            on_top = head if number == 0 or repeat else []
            box = (60, 300 if number == 0 else 60, 500, 780)
            part = table([*on_top, *body], box, header=len(on_top) if marked else 0)
            pages.append([*([text("Some words before.")] if number == 0 else []), part])
            expected += body
            row_pages += [number + 1] * len(body)
        pages[-1].append(text("Some words after.", (60, 790, 500, 800)))
        done = finished(document(*pages))
        whole, *others = [block for page in done.pages for block in page.blocks if block.type == "table"]
        assert cells_rows(whole.cells) == expected
        assert whole.row_pages == row_pages
        assert [(b.continues, b.text, b.markdown, b.cells) for b in others] == [(1, "", "", [])] * len(others)
        assert whole.markdown.count("\n") == len(expected)
        assert done.pages[1].markdown in ("", "Some words after.")


def test_the_option_leaves_tables_on_their_pages():
    pages = [[table([["a", "1"], ["b", "2"]])], [table([["c", "3"]], (60, 60, 500, 200))]]
    done = finished(document(*pages), merge_tables=False)
    assert [len(cells_rows(page.blocks[0].cells)) for page in done.pages] == [2, 1]
    assert all(page.blocks[0].row_pages is page.blocks[0].continues is None for page in done.pages)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param([table([["a", "1"]])], [table([["b", "2", "3"]], TOP)], id="other columns"),
        pytest.param([table([["a", "1"]]), text("Words.", BELOW)], [table([["b", "2"]], TOP)], id="text below"),
        pytest.param([table([["a", "1"]])], [text("Words."), table([["b", "2"]], TOP)], id="text above"),
        pytest.param([table([["a", "1"]])], [text("Table 2: B", TOP, "caption"), table([["b", "2"]], TOP)], id="new"),
        pytest.param([table([["a", "b"], ["x", "1"]], BOX, 1)], [table([["c", "d"], ["y", "2"]], TOP, 1)], id="head"),
        pytest.param([table([["a", "1"]])], [table([["b", "2"]], (60, 60, 250, 200))], id="narrower"),
        pytest.param([table([["a", "1"]], (60, 60, 500, 150))], [table([["b", "2"]], TOP)], id="ends high"),
        pytest.param([table([["a", "1"]])], [table([["b", "2"]], (60, 500, 500, 700))], id="begins low"),
    ],
)  # fmt: skip
def test_two_tables_stay_two(first, second):
    done = finished(document(first, second))
    assert [b.continues for page in done.pages for b in page.blocks if b.type == "table"] == [None, None]


def test_pages_that_do_not_follow_are_not_joined():
    made = document([table([["a", "1"]])], [table([["b", "2"]], (60, 60, 500, 200))])
    made.pages[1].index = 3
    assert finished(made).pages[1].blocks[0].continues is None


def test_headers_footers_notes_and_continued_captions_may_stand_between():
    def footer(number):
        return text(str(number), (290, 820, 300, 830), "footer")

    continued = text("Table 1 (continued)", (60, 40, 500, 50), "caption")
    pages = [
        [table([["n", "m"], ["a", "1"]], header=1), text("1 A note.", BELOW, "footnote"), footer(1)],
        [continued, table([["n", "m"], ["b", "2"]], (60, 60, 500, 780), 1), footer(2)],
        [table([["n", "m"], ["c", "3"]], (60, 60, 500, 300), 1), text("After.", (60, 400, 500, 420)), footer(3)],
    ]  # fmt: skip
    done = finished(document(*pages))
    assert cells_rows(done.pages[0].blocks[0].cells) == [["n", "m"], ["a", "1"], ["b", "2"], ["c", "3"]]
    assert done.markdown == (
        "| n | m |\n| --- | --- |\n| a | 1 |\n| b | 2 |\n| c | 3 |\n\n1 A note.\n\nTable 1 (continued)\n\nAfter.\n"
    )


def test_equal_numbers_at_the_turn_of_the_page_are_rows():
    pages = [[table([["0.00", "1"]] * 3)], [table([["0.00", "1"]] * 2, (60, 60, 500, 200))]]
    assert cells_rows(finished(document(*pages)).pages[0].blocks[0].cells) == [["0.00", "1"]] * 5


def test_tables_of_a_page_model_keep_being_html():
    def answer(words):
        rows = grid([["a", words]])
        return Block(
            "table",
            (0, 0, *SIZE),
            cells_text(rows),
            f"<table><tr><td>a</td><td>{words}</td></tr></table>",
            0,
            cells=rows,
        )

    done = finished(document([answer("1")], [answer("2")], route="model"))
    assert done.pages[0].blocks[0].markdown.splitlines()[1:3] == [f"<tr><td>a</td><td>{n}</td></tr>" for n in (1, 2)]
    assert done.pages[1].markdown == ""


def laid_out(pdf):
    pages = []
    for index in range(len(pdf)):
        layout = lay_out(pdf, index)
        pages.append(Page(index + 1, "ok", *SIZE, layout.turned, "text", "", layout.blocks))
    return Document("x.pdf", len(pages), "", pages)


def test_drawn_over_pages(rng):
    """From the PDF on: text, a table over three pages with its head on each of them, text."""
    pdf = pymupdf.open()
    head = [f"{words(rng, 1, 1)}" for _ in range(3)]
    rows = [[f"item{n}", str(rng.randint(0, 9)), f"{rng.randint(1, 99)}.00"] for n in range(rng.randint(68, 80))]
    left = list(rows)
    for number in range(3):
        page = pdf.new_page(width=SIZE[0], height=SIZE[1])
        if number == 0:
            prose(page, 60, 50, rng)
        top = 120 if number == 0 else 60
        part, left = left[: (800 - top) // 20 - 2], left[(800 - top) // 20 - 2 :]
        cells = [(r, c, 1, 1, word) for r, row in enumerate([head, *part]) for c, word in enumerate(row)]
        drawn = draw_table(page, cells, top=top, width=150, bold_rows=1)
        page.insert_text((290, 825), str(number + 1), fontsize=9)
    prose(pdf[2], 60, drawn.bottom + 40, rng)
    assert not left
    made = laid_out(pdf)
    stored = [page_from_dict(json.loads(json.dumps(page_to_dict(page)))) for page in made.pages]
    again = finished(Document("x.pdf", len(stored), "", stored))
    done = finished(made)
    assert again.pages == done.pages
    tables = [block for page in done.pages for block in page.blocks if block.type == "table"]
    assert cells_rows(tables[0].cells) == [head, *rows]
    assert [block.continues for block in tables] == [None, 1, 1]
    assert all(done.markdown.split().count(f"item{n}") == 1 for n in range(len(rows)))


@pytest.mark.skipif(samples() is None, reason="the sample documents are not here")
def test_the_sample():
    done = finished(laid_out(pymupdf.open(samples() / "edge" / "table_2pages.pdf")))
    rows = cells_rows(done.pages[0].blocks[0].cells)
    assert rows[0] == ["Name", "Qty", "Price"]
    assert [row[0] for row in rows[1:]] == [f"item{n}" for n in range(40)]
    assert done.pages[1].markdown == ""
