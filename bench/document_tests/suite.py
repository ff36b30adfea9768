"""The tests of the default suite: own pages, facts about real samples, and olmOCR-bench's samples among those."""

from __future__ import annotations

import random
from pathlib import Path

from . import own_pages, own_scans
from .own_pages import Made
from .rows import Test, as_test, read_rows

FACTS = Path(__file__).with_name("facts.jsonl")
OLMOCR_GROUP = "olmOCR-bench samples"


def own_tests(folder: Path, seed: int) -> list[Test]:
    """Draw all own pages into `folder`; another seed gives other texts on the same kinds of page."""
    made = Made(folder, random.Random(seed))
    for draw in (*own_pages.MAKERS, *own_scans.MAKERS):
        draw(made)
    return [as_test(row, row["group"], folder, f"own page {row['pdf']}") for row in made.rows]


def sample_tests(samples: Path) -> list[Test]:
    """Facts about the real samples in `samples` (the folder of the manifest); of files that are missing there none."""
    tests = [as_test(row, row["group"], samples, where) for where, row in read_rows(FACTS)]
    return [test for test in tests if test.path.is_file()] + _olmocr_samples(samples)


def _olmocr_samples(samples: Path) -> list[Test]:
    """Single pages of olmOCR-bench with their rows in `NAME.truth.jsonl` beside them, as our samples keep them."""
    folder = samples / "olmocr" / "bench"
    found: dict[str, Test] = {}
    for file in sorted(folder.rglob("*.truth.jsonl")):
        for where, row in read_rows(file):
            if (folder / row["pdf"]).is_file():
                # The files repeat each other's rows.
                found.setdefault(row["id"], as_test(row, OLMOCR_GROUP, folder, where))
    return list(found.values())
