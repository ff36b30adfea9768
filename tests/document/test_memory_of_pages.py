"""Long documents take no more memory than short ones, here and in the process that draws them."""

import os
from pathlib import Path

import pymupdf
from made import FakeReader, draw_lines, scan_pdf

import ocria
from ocria.document.workers import Workers
from ocria.events import PageDone

WARM_UP = 30
MOST_GROWTH = 24 << 20
"""Bytes: what the pages hold, and what allocators keep."""


def resident(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def growth(content, workers, count, warm_up=WARM_UP, **options):
    """Bytes by which both processes grew from page `warm_up` to the last one."""
    seen = {}
    for event in ocria.stream(content, workers=workers, **options):
        if isinstance(event, PageDone):
            assert event.status == "ok", event.result.error
            seen[event.page] = sum(map(resident, (os.getpid(), *workers.pids)))
    assert len(seen) == count
    print(f"MB on the way: {[seen[page] >> 20 for page in range(10, count + 1, count // 7)]}")
    # The least of some pages: what is needed for a moment is not kept.
    before, after = range(warm_up - 9, warm_up + 1), range(count - 9, count + 1)
    return min(seen[page] for page in after) - min(seen[page] for page in before)


def test_pages_with_text_are_not_kept():
    count = 60
    with pymupdf.open() as pdf:
        for number in range(count):
            sheet = pdf.new_page(width=300, height=200)
            sheet.insert_text((20, 40), f"Page {number} of a long book", fontname="hebo", fontsize=14)
            for row in range(8):
                sheet.insert_text((20, 70 + 14 * row), f"Line {row} of page {number}, with a few words", fontsize=9)
        content = pdf.tobytes()
    with Workers(1) as workers:
        assert growth(content, workers, count, mode="text") < MOST_GROWTH


class Forgetful(FakeReader):
    """Reads any page, and keeps none of its pixels."""

    def __init__(self):
        super().__init__(["text"], unit="page", dialect="text")

    def stream(self, images, guesses=None):
        result = yield from super().stream(images, guesses)
        self.seen.clear()
        self.guesses.clear()
        return result


def test_a_thousand_pages():
    """What the pages themselves hold grows with them, but nothing else does."""
    count = 1000
    with pymupdf.open() as pdf:
        for number in range(count):
            pdf.new_page(width=144, height=100).insert_text((20, 40), f"Page {number}", fontsize=14)
        content = pdf.tobytes()
    with Workers(1) as workers:
        assert growth(content, workers, count, 100, mode="model", dpi=72, reader=Forgetful()) < 100 << 20


def test_pixels_are_not_kept():
    """A page of pixels takes 2.6 MB here; those after the warm-up would take 100 MB."""
    count = 70
    sheets = [draw_lines([f"Page {number}", "with some words"], size=(800, 1100)) for number in range(10)]
    with Workers(1) as workers:
        content = scan_pdf(*sheets * (count // 10), dpi=100)
        grown = growth(content, workers, count, mode="model", reader=Forgetful())
    assert grown < MOST_GROWTH
