import random

import laid_out_once  # noqa: F401
import pymupdf
import pytest
from made import PARAGRAPH, samples


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """Starting a process for every document takes a second; those that test processes ask for them."""
    monkeypatch.setattr("ocria.document.api.DEFAULT_JOBS", 0)


@pytest.fixture
def rng():
    """Draws afresh; the seed is told so that a failure can be repeated."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    return random.Random(seed)


@pytest.fixture
def sample_folder():
    folder = samples()
    if folder is None:
        pytest.skip("no sample documents here: set OCRIA_SAMPLES")
    return folder


@pytest.fixture
def born_digital():
    """Bytes of a two-page PDF: a heading, a paragraph with a broken word, and a ruled table on page 2."""
    pdf = pymupdf.open()
    page = pdf.new_page(width=612, height=792)
    page.insert_text((72, 100), "The Ledger of the Port", fontname="hebo", fontsize=20)
    for row, line in enumerate(PARAGRAPH):
        page.insert_text((72, 140 + 16 * row), line, fontsize=12)
    page = pdf.new_page(width=612, height=792)
    page.insert_text((72, 90), "Cargo by month, in tons, as the clerk wrote it down.", fontsize=12)
    cells = [("Month", "Tons", "Ships"), ("May", "310", "4"), ("June", "275", "3"), ("July", "402", "6")]
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            box = pymupdf.Rect(72 + 120 * j, 120 + 24 * i, 192 + 120 * j, 144 + 24 * i)
            page.draw_rect(box)
            page.insert_text((box.x0 + 8, box.y1 - 8), cell, fontsize=11)
    return pdf.tobytes()
