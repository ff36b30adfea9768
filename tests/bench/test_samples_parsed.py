"""The documents of the README's first command, read from end to end and scored against their texts."""

from pathlib import Path

import pytest

pytest.importorskip("rapidfuzz", reason="the bench extra is not installed")

from scoring import normalise, score

import ocria

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def test_scan_is_read_from_its_pixels():
    document = ocria.parse(EXAMPLES / "scan.png")
    (page,) = document.pages
    assert (page.status, page.route) == ("ok", "model")
    truth = (EXAMPLES / "scan.txt").read_text(encoding="utf-8")
    # What is aimed at on pages of old books, which are no easier than this one.
    assert score(truth, document.text).cer <= 0.03, document.text
    assert document.markdown.startswith("# The Keeper")


def test_report_is_taken_from_its_text_layer():
    document = ocria.parse(EXAMPLES / "report.pdf")
    assert [(page.status, page.route) for page in document.pages] == [("ok", "text")] * 2
    markdown = normalise(document.markdown)
    for part in (
        "# Rainfall on the Western Slope",
        "- The wettest month was November (214 mm at Fell Head).",
        "| Long Moss | 405 | 1,390 | 208 |",
        "tenth of a millimetre. Snow is melted first.",
        "its water on the western slope.",
    ):
        assert part in markdown
    assert markdown.index("Method") < markdown.index("one per cent") < markdown.index("Discussion")
