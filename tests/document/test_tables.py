"""Tables: their cells, and how they stand in Markdown, HTML and CSV."""

import csv
import io
from collections import Counter
from html.parser import HTMLParser

import pymupdf
from drawn_tables import draw_table, prose, random_cells, words
from markdown_it import MarkdownIt
from test_escape import NASTY, folded, nasty

from ocria.document.finish import finish
from ocria.document.layout import lay_out
from ocria.document.options import ParseOptions
from ocria.document.result import Block, Cell, Document, Page
from ocria.document.structure.cells import fill_cells
from ocria.document.structure.columns import table_grid
from ocria.document.structure.page_tables import with_drawn_tables
from ocria.document.structure.pieces import Piece, Style
from ocria.document.structure.regions import Region
from ocria.document.structure.rulings import plain_grid
from ocria.document.table import cells_csv, cells_html, cells_markdown, cells_rows, cells_text, fits_pipes


class Reader(HTMLParser):
    """The cells of an HTML table as `(row, tag, rowspan, colspan, text)`."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.row, self.cells, self.inside = -1, [], False

    def handle_starttag(self, tag, attrs):
        spans = dict(attrs)
        if tag == "tr":
            self.row += 1
        elif tag in ("td", "th"):
            self.inside = True
            self.cells.append([self.row, tag, int(spans.get("rowspan", 1)), int(spans.get("colspan", 1)), ""])
        elif tag == "br":
            self.cells[-1][4] += "\n"
        elif tag != "table":
            raise AssertionError(tag)

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.cells[-1][4] += data


def read_html(html):
    reader = Reader()
    reader.feed(html)
    return [tuple(cell) for cell in reader.cells]


def as_cells(drawn, text=None):
    return [Cell(r, c, high, wide, text() if text else said, False) for r, c, high, wide, said in drawn]


def any_text(rng):
    return "\n".join(rng.choice(["", " "]) + nasty(rng) for _ in range(rng.choice([1, 1, 2])))


def test_html_keeps_every_text_and_span(rng):
    for _ in range(100):
        cells = as_cells(random_cells(rng, rng.randint(1, 5), rng.randint(1, 5)), lambda: any_text(rng))
        assert read_html(cells_html(cells)) == [(c.row, "td", c.row_span, c.column_span, c.text) for c in cells]


def test_html_in_markdown_is_one_piece(rng):
    for _ in range(50):
        cells = as_cells(random_cells(rng, 3, 3), lambda: any_text(rng))
        markdown = cells_markdown(cells, "html")
        tokens = MarkdownIt("commonmark").parse(f"before\n\n{markdown}\n\nafter")
        assert [t.type for t in tokens if t.type in ("html_block", "inline")] == ["inline", "html_block", "inline"]


def test_csv_keeps_every_text(rng):
    for _ in range(100):
        cells = as_cells(random_cells(rng, rng.randint(1, 5), rng.randint(1, 5)), lambda: any_text(rng))
        assert list(csv.reader(io.StringIO(cells_csv(cells), newline=""))) == cells_rows(cells)
        tokens = MarkdownIt("commonmark").parse(cells_markdown(cells, "csv"))
        if any(cell.text.strip() for cell in cells):
            assert [(t.type, t.info) for t in tokens] == [("fence", "csv")]


def test_pipe_tables_keep_every_text(rng):
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for _ in range(100):
        cells = as_cells(random_cells(rng, rng.randint(2, 5), rng.randint(1, 5)), lambda: any_text(rng) + "x")
        tokens = parser.parse(cells_markdown(cells, "md"))
        assert tokens[0].type == "table_open"
        told = []
        for token in tokens:
            if token.type == "inline":
                parts = [t.content if t.type == "text" else "\n" for t in token.children]
                assert all(t.type == "text" or t.content == "<br>" for t in token.children)
                told.append("".join(parts))
        wanted = [
            "\n".join(folded(line) for line in text.split("\n") if line.strip())
            for row in cells_rows(cells)
            for text in row
        ]
        assert told == wanted


def test_auto_takes_pipes_where_they_hold_the_table():
    plain = [Cell(0, 0, 1, 1, "a|b", True), Cell(0, 1, 1, 1, "c", True), Cell(1, 0, 1, 1, "1", False)]
    assert fits_pipes(plain)
    assert cells_markdown(plain, "auto") == "| a\\|b | c |\n| --- | --- |\n| 1 |  |"
    assert cells_markdown([*plain, Cell(1, 1, 1, 1, "x\ny", False)], "auto").startswith("<table>")
    wide = [Cell(0, 0, 1, 2, "both", False), *plain[2:]]
    assert cells_markdown(wide, "auto") == (
        '<table>\n<tr><td colspan="2">both</td></tr>\n<tr><td>1</td></tr>\n</table>'
    )
    assert cells_markdown(wide, "md") == "| both |  |\n| --- | --- |\n| 1 |  |"
    assert cells_text(plain) == "a|b\tc\n1"


def test_an_empty_table_gives_no_noise():
    cells = [Cell(r, c, 1, 1, " ", False) for r in range(3) for c in range(3)]
    assert [cells_markdown(cells, kind) for kind in ("auto", "md", "html", "csv")] == [""] * 4


def test_drawn_cells_and_spans_come_out_as_drawn(rng):
    for _ in range(6):
        pdf = pymupdf.open()
        page = pdf.new_page()
        # Fewer cells, most of them over the whole width, are a picture to the layout analysis at times.
        rows, columns = rng.randint(5, 9), rng.randint(3, 5)
        before = prose(page, 60, 60, rng, lines=2)
        table = draw_table(page, random_cells(rng, rows, columns))
        after = prose(page, 60, table.bottom + 40, rng)
        blocks = lay_out(pdf, 0).blocks
        tables = [block for block in blocks if block.type == "table"]
        assert len(tables) == 1
        assert [(c.row, c.column, c.row_span, c.column_span, c.text) for c in tables[0].cells] == sorted(table.cells)
        told = " ".join(block.text for block in blocks)
        assert Counter(told.split()) == Counter(f"{before} {after} {' '.join(t for *_, t in table.cells)}".split())
        at = blocks.index(tables[0])
        assert " ".join(" ".join(b.text for b in blocks[:at]).split()) == before
        assert " ".join(" ".join(b.text for b in blocks[at + 1 :]).split()) == after


def test_a_table_without_lines_keeps_all_of_its_rows_and_words(rng):
    """Text, a table of two columns and text: nothing twice, nothing lost."""
    pdf = pymupdf.open()
    page = pdf.new_page()
    before = prose(page, 72, 90, rng)
    rows = [(f"item{r}", str(rng.randint(100, 999)), f"{rng.randint(1, 99)}.50") for r in range(rng.randint(6, 12))]
    for r, row in enumerate([("Name", "Stock", "Price"), *rows]):
        for c, text in enumerate(row):
            page.insert_text((72 + 150 * c, 160 + 18 * r), text, fontsize=11, fontname="helv" if r else "hebo")
    after = prose(page, 72, 200 + 18 * len(rows) + 40, rng)
    blocks = lay_out(pdf, 0).blocks
    told = Counter(" ".join(block.text for block in blocks).split())
    assert told == Counter(f"{before} {after} Name Stock Price {' '.join(t for row in rows for t in row)}".split())
    table = next(block for block in blocks if block.type == "table")
    assert cells_rows(table.cells) == [["Name", "Stock", "Price"], *map(list, rows)]
    assert [cell.header for cell in table.cells] == [True] * 3 + [False] * 3 * len(rows)


def test_two_columns_of_prose_are_no_table(rng):
    pdf = pymupdf.open()
    page = pdf.new_page()
    left = prose(page, 60, 90, rng, lines=20, width=4, size=10)
    right = prose(page, 320, 90, rng, lines=20, width=4, size=10)
    blocks = lay_out(pdf, 0).blocks
    assert "table" not in [block.type for block in blocks]
    assert " ".join(" ".join(block.text for block in blocks).split()) == f"{left} {right}"


def test_the_option_rules_all_tables_but_those_a_model_wrote():
    cells = [
        Cell(0, 0, 1, 1, "a", True),
        Cell(0, 1, 1, 1, "b", True),
        Cell(1, 0, 1, 1, "1", False),
        Cell(1, 1, 1, 1, "2", False),
    ]
    own = "<table>\n<tr><td><b>a</b></td></tr>\n</table>"
    for kind, text_layer, model in (
        ("auto", "| a | b |", own),
        ("md", "| a | b |", "| a | b |"),
        ("html", "<table>", "<table>\n<tr><th>a</th>"),
        ("csv", "```csv\na,b", "```csv\na,b"),
    ):
        pages = [
            Page(
                1,
                "ok",
                600,
                800,
                0,
                route,
                "",
                [Block("table", (50, 50, 500, 400), "a\tb\n1\t2", markdown, 0, cells=list(cells))],
            )
            for route, markdown in (("text", ""), ("model", own))
        ]
        document = Document("x.pdf", 2, "", pages)
        finish(document, ParseOptions(table_format=kind, merge_tables=False))
        assert pages[0].blocks[0].markdown.startswith(text_layer)
        assert pages[1].blocks[0].markdown.startswith(model)


def test_nasty_pieces_are_all_used():
    assert len(set(NASTY)) == len(NASTY)


def test_wide_numbers_with_a_space_between_them_keep_their_columns():
    """A row of longer numbers than the others have is no cell over several columns; words over them are one."""
    ys, xs = [100.0, 115.0, 130.0, 145.0], [60.0, 120.0, 160.0, 200.0]

    def piece(text, x0, x1, row, spaced=False):
        y = 110.0 + 15 * row
        return Piece(text, (x0, y - 8, x1, y + 2), y, 9.0, Style(), row, 0, spaced, True)

    pieces = [piece("Total", 62, 80, 0), piece("1,234,567", 120, 159, 0), piece("2,345,678", 161.5, 200, 0, True)]
    pieces += [piece("North", 62, 80, 1), piece("234", 145, 159, 1), piece("678", 185, 200, 1)]
    pieces += [piece("Sums", 120, 145, 2), piece("together", 147, 185, 2, True)]
    rows = cells_rows(fill_cells(plain_grid(ys, xs), pieces, certain=False))
    assert rows[:2] == [["Total", "1,234,567", "2,345,678"], ["North", "234", "678"]]
    assert "Sums together" in rows[2]


def test_short_words_side_by_side_are_a_table_and_lines_of_prose_are_none(rng):
    def line(y, entries):
        out = []
        for x, text in entries:
            for at, word in enumerate(text.split()):
                out.append(Piece(word, (x, y - 8, x + 6 * len(word), y + 2), y, 10.0, Style(), y, 0, at > 0, True))
                x += 6 * len(word) + 4
        return out

    rows = [(words(rng), words(rng)) for _ in range(rng.randint(3, 9))]
    lines = [line(100 + 14 * at, [(72, one), (300, other)]) for at, (one, other) in enumerate(rows)]
    pieces = [piece for one in lines for piece in one]
    assert cells_rows(fill_cells(table_grid(lines), pieces, certain=True)) == list(map(list, rows))
    # Not all rows have both, columns do not begin below one another, or the entries are parts of sentences.
    assert table_grid([*lines, line(300, [(72, "amber")])]) is None
    assert table_grid([*lines, line(300, [(72, "amber"), (330, "flint")])]) is None
    parts = [[(72, words(rng, 4, 6)), (400, words(rng, 4, 6))] for _ in range(8)]
    assert table_grid([line(100 + 14 * at, part) for at, part in enumerate(parts)]) is None


def test_figures_below_one_another_in_a_drawn_cell_are_rows():
    """A frame around the head and one around all rows: what the layout analysis tells has more rows."""
    told = plain_grid([100.0, 120.0, 135.0, 150.0], [60.0, 160.0, 220.0, 280.0])
    drawn = plain_grid([100.0, 120.0, 150.0], [60.0, 160.0, 220.0, 280.0])
    figures, prose_in_cells = [["North", "1,530", "10"], ["South", "253", "9"]], [["a", "of", "it"], ["b", "and", "so"]]
    for texts, rows in ((figures, 3), (prose_in_cells, 2)):
        pieces = []
        for row, line in enumerate([["Name", "Sheep", "Goats"], *texts]):
            for column, text in enumerate(line):
                x, y = 64.0 + (0, 100, 160)[column], 112.0 + 15 * row
                pieces.append(Piece(text, (x, y - 8, x + 30, y + 2), y, 9.0, Style(), row, 0, True, True))
        region = Region("table", (60.0, 100.0, 280.0, 150.0), told)
        found = with_drawn_tables([region], [drawn], pieces)
        assert [len(one.grid.ys) - 1 for one in found] == [rows]
