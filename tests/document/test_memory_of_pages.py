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


def growth(content, workers, count, **options):
    """Bytes by which both processes grew from page `WARM_UP` to the last one."""
    seen = {}
    for event in ocria.stream(content, workers=workers, **options):
        if isinstance(event, PageDone):
            assert event.status == "ok", event.result.error
            seen[event.page] = sum(map(resident, (os.getpid(), *workers.pids)))
    assert len(seen) == count
    print(f"MB at every tenth page: {[seen[page] >> 20 for page in range(10, count + 1, 10)]}")
    # The least of some pages: what is needed for a moment is not kept.
    return min(seen[page] for page in range(count - 9, count + 1)) - min(seen[page] for page in range(20, WARM_UP + 1))


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


def test_pixels_are_not_kept():
    """A page of pixels takes 2.6 MB here; those after the warm-up would take 100 MB."""

    class Forgetful(FakeReader):
        def stream(self, images, guesses=None):
            result = yield from super().stream(images, guesses)
            self.seen.clear()
            self.guesses.clear()
            return result

    count = 70
    sheets = [draw_lines([f"Page {number}", "with some words"], size=(800, 1100)) for number in range(10)]
    with Workers(1) as workers:
        content = scan_pdf(*sheets * (count // 10), dpi=100)
        grown = growth(content, workers, count, mode="model", reader=Forgetful(["text"], unit="page", dialect="text"))
    assert grown < MOST_GROWTH
