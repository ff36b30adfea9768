"""Born-digital pages drawn here, with tests whose truth is known because it was drawn.

Each maker draws one file into a folder and adds its rows, which have the fields of olmOCR-bench's JSONL and a `group`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pymupdf

from .words import Words

A4 = (595, 842)
_CHARS_PER_EDIT = 50  # one edit is let pass for so many characters of a sought text


@dataclass
class Made:
    """Files drawn into `folder` and the rows of their tests."""

    folder: Path
    random: random.Random
    rows: list[dict[str, Any]] = field(default_factory=list)

    def words(self) -> Words:
        return Words(self.random)

    def add(self, file: str, group: str, kind: str, page: int | None = 1, **fields: Any) -> None:
        number = sum(row["pdf"] == file for row in self.rows)
        row = {"pdf": file, "page": page, "id": f"{Path(file).stem}_{number:02}", "type": kind, "group": group}
        self.rows.append(row | fields)

    def present(self, file: str, group: str, text: str, *, page: int | None = 1, edits: int = 1) -> None:
        """`edits` for every 50 characters begun."""
        self.add(file, group, "present", page, text=text, max_diffs=edits * -(-len(text) // _CHARS_PER_EDIT))

    def order(self, file: str, group: str, before: str, after: str, *, edits: int = 1) -> None:
        shorter = min(len(before), len(after))
        self.add(file, group, "order", before=before, after=after, max_diffs=edits * -(-shorter // _CHARS_PER_EDIT))

    def baseline(self, file: str, page: int | None = 1) -> None:
        self.add(file, "baseline", "baseline", page)
        self.add(file, "baseline", "no_loop", page)


def write(
    page: pymupdf.Page, box: tuple[float, float, float, float], text: str, size: float = 11, **style: Any
) -> float:
    """Write text into a box; returns the y below its last line. The box has to hold it."""
    left = page.insert_textbox(pymupdf.Rect(box), text, fontsize=size, **style)
    assert left >= 0, f"{text[:40]!r} does not fit"
    return box[3] - left


def report(made: Made) -> None:
    """One column: title, paragraphs, a list, a footnote."""
    words, file, group = made.words(), "report.pdf", "born-digital"
    title, heading = words.title(), words.title()
    paragraphs = [words.sentences(5) for _ in range(3)]
    entries, note = words.sentences(4), words.sentence()
    with pymupdf.open() as document:
        page = document.new_page(width=A4[0], height=A4[1])
        y = write(page, (60, 60, 540, 120), title, 20, fontname="hebo")
        y = write(page, (60, y + 10, 540, 400), " ".join(paragraphs[0]))
        y = write(page, (60, y + 8, 540, 500), " ".join(paragraphs[1]))
        y = write(page, (60, y + 16, 540, 520), heading, 15, fontname="hebo")
        y = write(page, (60, y + 8, 540, 640), " ".join(paragraphs[2]))
        for number, entry in enumerate(entries, start=1):
            y = write(page, (76, y + 5, 540, 720), f"{number}. {entry}")
        page.draw_line((60, 770), (200, 770), width=0.5)
        write(page, (60, 775, 540, 800), f"1 {note}", 8)
        document.save(made.folder / file)
    for text in (title, heading, paragraphs[0][2], paragraphs[1][4], entries[1], note):
        made.present(file, group, text)
    made.order(file, group, title, paragraphs[0][0])
    made.order(file, group, paragraphs[1][4], heading)
    made.order(file, group, entries[0], entries[3])
    made.order(file, group, entries[3], note)
    made.baseline(file)


def columns(made: Made, count: int, file: str = "", group: str = "columns") -> None:
    """Several columns under one title: the text runs down each column in turn."""
    words, file = made.words(), file or f"columns_{count}.pdf"
    title = words.title()
    texts = [words.sentences(22 // count + 2) for _ in range(count)]
    gap, width = 20, (A4[0] - 100 - 20 * (count - 1)) / count
    with pymupdf.open() as document:
        page = document.new_page(width=A4[0], height=A4[1])
        write(page, (50, 50, 545, 100), title, 18, fontname="tibo")
        for number, sentences in enumerate(texts):
            left = 50 + number * (width + gap)
            write(page, (left, 110, left + width, 790), " ".join(sentences), 11 if count < 3 else 10, fontname="tiro")
        document.save(made.folder / file)
    made.order(file, group, title, texts[0][0])
    for left, right in pairwise(texts):
        made.order(file, group, left[-1], right[0])
        made.order(file, group, left[1], right[1])
        # Sentences that cross a line end next to the gap: read across, they are torn.
        made.present(file, group, left[2])
        made.present(file, group, right[3])
    made.baseline(file)


def running(made: Made, pages: int = 3) -> None:
    """Pages with a running header, a footer and page numbers, which the text should be without."""
    words, file, group = made.words(), "running.pdf", "headers and footers"
    header, footer = words.title(), f"Printed by {words.thing().title()} Press"
    first = made.random.randint(100, 800)
    texts = [words.sentences(12) for _ in range(pages)]
    with pymupdf.open() as document:
        for number, sentences in enumerate(texts):
            page = document.new_page(width=A4[0], height=A4[1])
            write(page, (60, 30, 540, 50), header, 9, align=1)
            write(page, (60, 90, 540, 700), "\n\n".join(" ".join(sentences[at : at + 4]) for at in (0, 4, 8)))
            write(page, (60, 800, 400, 820), footer, 8)
            write(page, (480, 800, 540, 820), str(first + number), 9, align=2)
        document.save(made.folder / file)
    for number, sentences in enumerate(texts):
        made.present(file, group, sentences[0], page=None)
        made.present(file, group, sentences[11], page=None)
        made.add(file, group, "absent", None, text=str(first + number))
    made.add(file, group, "absent", None, text=header, max_diffs=2, case_sensitive=False)
    made.add(file, group, "absent", None, text=footer, max_diffs=2, case_sensitive=False)
    made.baseline(file, None)


def table(made: Made, *, ruled: bool, file: str = "", group: str = "tables") -> None:
    """Five rows and four columns; without rules the columns show by their gaps only."""
    words, file = made.words(), file or ("table_ruled.pdf" if ruled else "table_plain.pdf")
    heads = ["Item", "Price", "Weight", "Total"]
    rows = [[words.thing(), words.amount(), words.amount(), words.amount()] for _ in range(5)]
    before, after = words.sentence(), words.sentence()
    lefts = [70, 240, 330, 420, 520]
    with pymupdf.open() as document:
        page = document.new_page(width=A4[0], height=A4[1])
        write(page, (60, 80, 540, 110), before)
        for at, cells in enumerate([heads, *rows]):
            for column, text in enumerate(cells):
                box = pymupdf.Rect(lefts[column], 130 + 24 * at, lefts[column + 1], 154 + 24 * at)
                if ruled:
                    page.draw_rect(box, width=0.7)
                page.insert_text((box.x0 + 5, box.y0 + 16), text, fontsize=10.5, fontname="hebo" if at == 0 else "helv")
        write(page, (60, 300, 540, 330), after)
        document.save(made.folder / file)
    row, column = made.random.randint(1, 3), made.random.randint(1, 2)
    cell = rows[row][column]
    made.add(file, group, "table", cell=cell, up=rows[row - 1][column], down=rows[row + 1][column])
    made.add(file, group, "table", cell=cell, left=rows[row][column - 1], right=rows[row][column + 1])
    made.add(file, group, "table", cell=cell, top_heading=heads[column])
    made.add(file, group, "table", cell=rows[4][3], left_heading=rows[4][0])
    made.order(file, group, before, after)
    made.present(file, group, rows[0][0])
    made.baseline(file)


def spanned(made: Made) -> None:
    """A ruled table whose head spans two columns and whose first column spans rows."""
    words, file, group = made.words(), "table_spans.pdf", "tables"
    years, halves = ["Year 2021", "Year 2022"], ["First half", "Second half"] * 2
    groups = [words.thing().title() for _ in range(2)]
    names = [words.thing() for _ in range(4)]
    values = [[words.amount() for _ in range(4)] for _ in range(4)]
    lefts = [40, 140, 260, 330, 400, 470, 540]

    with pymupdf.open() as document:
        page = document.new_page(width=A4[0], height=A4[1])

        def cell(row: int, column: int, text: str, rows: int = 1, columns: int = 1) -> None:
            box = pymupdf.Rect(lefts[column], 100 + 24 * row, lefts[column + columns], 100 + 24 * (row + rows))
            page.draw_rect(box, width=0.7)
            page.insert_text((box.x0 + 4, (box.y0 + box.y1) / 2 + 4), text, fontsize=9.5)

        cell(0, 0, "Group", rows=2)
        cell(0, 1, "Name", rows=2)
        for number, year in enumerate(years):
            cell(0, 2 + 2 * number, year, columns=2)
        for number, half in enumerate(halves):
            cell(1, 2 + number, half)
        for number, name in enumerate(groups):
            cell(2 + 2 * number, 0, name, rows=2)
        for row, (name, line) in enumerate(zip(names, values, strict=True)):
            for column, text in enumerate([name, *line]):
                cell(2 + row, 1 + column, text)
        document.save(made.folder / file)
    made.add(file, group, "table", cell=values[1][2], up=values[0][2], left=values[1][1], right=values[1][3])
    made.add(file, group, "table", cell=values[0][0], up="First half")
    made.add(file, group, "table", cell=values[2][3], top_heading=years[1])
    made.add(file, group, "table", cell=names[3], left=groups[1])
    made.baseline(file)


def form(made: Made) -> None:
    """Labels with a line or a box of their own, in two columns, and boxes to tick."""
    words, file, group = made.words(), "form.pdf", "forms"
    labels = ["Family name", "First name", "Street and number", "Town", "Date of birth", "Account number"]
    values = [words.thing().title() for _ in range(4)] + ["14 May 1987", f"{made.random.randrange(10**8, 10**9)}"]
    choices = [words.thing() for _ in range(3)]
    with pymupdf.open() as document:
        page = document.new_page(width=A4[0], height=A4[1])
        title = f"Application for a {words.thing().title()}"
        write(page, (60, 50, 540, 90), title, 16, fontname="hebo")
        for number, (label, value) in enumerate(zip(labels, values, strict=True)):
            left, top = 60 + 250 * (number % 2), 110 + 50 * (number // 2)
            page.insert_text((left, top), label, fontsize=8)
            page.draw_rect(pymupdf.Rect(left, top + 4, left + 220, top + 26), width=0.6)
            page.insert_text((left + 6, top + 20), value, fontsize=11, fontname="cour")
        for number, choice in enumerate(choices):
            page.draw_rect(pymupdf.Rect(60, 270 + 22 * number, 70, 280 + 22 * number), width=0.8)
            page.insert_text((78, 279 + 22 * number), choice, fontsize=10)
        document.save(made.folder / file)
    for text in (title, values[0], values[3], values[5], choices[1]):
        made.present(file, group, text)
    for at in (0, 2, 5):
        made.order(file, group, labels[at], values[at])
    made.baseline(file)


def turned(made: Made, degrees: int) -> None:
    """A page drawn upright with an entry that turns it: shown, it lies on its side or on its head."""
    words, file, group = made.words(), f"turned_{degrees}.pdf", "rotated"
    sentences = words.sentences(14)
    with pymupdf.open() as document:
        page = document.new_page(width=A4[0], height=A4[1])
        write(page, (60, 80, 540, 600), " ".join(sentences), 12)
        page.set_rotation(degrees)
        document.save(made.folder / file)
    made.present(file, group, sentences[3])
    made.present(file, group, sentences[9])
    made.order(file, group, sentences[1], sentences[12])
    made.baseline(file)


def blank(made: Made) -> None:
    """No ink at all, and a frame without a word."""
    for file, frame in (("blank.pdf", False), ("blank_frame.pdf", True)):
        with pymupdf.open() as document:
            page = document.new_page(width=A4[0], height=A4[1])
            if frame:
                page.draw_rect(pymupdf.Rect(40, 40, 555, 802), width=1.5)
            document.save(made.folder / file)
        made.add(file, "blank", "blank")


MAKERS: list[Callable[[Made], None]] = [
    report,
    lambda made: columns(made, 2),
    lambda made: columns(made, 3),
    running,
    lambda made: table(made, ruled=True),
    lambda made: table(made, ruled=False),
    spanned,
    form,
    lambda made: turned(made, 90),
    lambda made: turned(made, 180),
    blank,
]
