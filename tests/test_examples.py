"""The sample documents that ship with the repository are what their script makes."""

import importlib.util
from pathlib import Path

import numpy as np
import pymupdf
import pytest
from PIL import Image

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture(scope="module")
def make():
    spec = importlib.util.spec_from_file_location("examples_make", EXAMPLES / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_scan_is_the_page_of_its_text(make):
    clean, lines = make.book_page()
    assert (EXAMPLES / "scan.txt").read_text(encoding="utf-8").splitlines() == lines
    made = np.asarray(make.scanned(clean))
    with Image.open(EXAMPLES / "scan.png") as shipped:
        assert shipped.mode == "1"
        assert round(shipped.info["dpi"][0]) == 300
        differing = np.mean(made != np.asarray(shipped))
    # Another release of the renderer may move the edges of glyphs, never a tenth of the ink (8 %).
    assert differing < 0.008


def test_scan_is_small_enough_to_ship():
    assert (EXAMPLES / "scan.png").stat().st_size < 100_000


def test_report_has_the_text_of_the_script(make):
    with pymupdf.open(EXAMPLES / "report.pdf") as shipped:
        assert shipped.page_count == 2
        text = " ".join(" ".join(page.get_text().split()) for page in shipped)
    for part in (make.SUMMARY, *make.FINDINGS, *make.METHOD, *make.DISCUSSION):
        assert part in text
    for row in make.TABLE:
        assert all(cell in text for cell in row)
