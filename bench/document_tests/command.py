"""Document tests as part of the accuracy bench: which tests, which readers, and the report."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from samples import SamplesNotFound, find_samples

from .olmocr import olmocr_tests
from .outputs import READERS, MarkdownReader, ReaderMissing, make_reader
from .rows import Test
from .run import run_tests
from .suite import own_tests, sample_tests
from .tables import print_outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--document-tests", action="store_true", help="document tests only")
    parser.add_argument("--olmocr-bench", type=Path, metavar="DIR", help="tests of an olmOCR-bench folder only")
    parser.add_argument(
        "--test-reader", action="append", choices=READERS, help="readers of document tests; repeatable, default all"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the texts on pages drawn for document tests")
    parser.add_argument("--failures", type=int, default=40, metavar="N", help="failed tests to list of each reader")


def run_document_tests(arguments: argparse.Namespace, cache: Path) -> dict:
    """Run what the arguments ask for, print it, and return it for the JSON document.

    Raises BadRow for a folder of olmOCR-bench that cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="ocria-bench-") as name:
        folder = Path(name)
        notes = []
        if arguments.olmocr_bench:
            tests, title = olmocr_tests(arguments.olmocr_bench), f"olmOCR-bench of {arguments.olmocr_bench}"
        else:
            title = "Document tests"
            tests = own_tests(folder, arguments.seed)
            notes.append(f"Own pages: texts of seed {arguments.seed}.")
            try:
                tests += sample_tests(find_samples(arguments.samples))
            except SamplesNotFound as error:
                notes.append(f"No real samples: {error}.")
        tests = limited(tests, arguments.limit)
        readers, absent = _readers(arguments, None if arguments.no_cache else cache, folder)
        notes += [f"Not compared: {why}." for why in absent]
        notes.append(
            "Readers take turns page by page. tesseract and rapidocr get pages drawn at 200 dpi, drawing included in "
            "their time; pymupdf4llm reads the text layer of PDFs only."
        )
        if not arguments.no_cache and any(reader.name == "tesseract" for reader in readers):
            notes.append("Times of tesseract are of earlier runs where there were any: --no-cache takes new ones.")
        outcome = run_tests(tests, readers)
    print(f"\n{title}")
    print("\n".join(notes))
    result = print_outcome(outcome, [reader.name for reader in readers], arguments.failures)
    return {"title": title, "notes": notes, "readers": [reader.name for reader in readers], **result}


def limited(tests: list[Test], most: int | None) -> list[Test]:
    """The tests of the first `most` pages of each class; a page counts for the class that it comes up in first."""
    if most is None:
        return tests
    pages: dict[str, list] = {}
    for test in tests:
        page = test.path, test.page
        if not any(page in kept for kept in pages.values()):
            pages.setdefault(test.group, []).append(page)
    kept = {page for found in pages.values() for page in found[:most]}
    return [test for test in tests if (test.path, test.page) in kept]


def _readers(
    arguments: argparse.Namespace, cache: Path | None, folder: Path
) -> tuple[list[MarkdownReader], list[str]]:
    """The readers that are installed, and why the others are left out."""
    readers, absent = [], []
    for name in arguments.test_reader or READERS:
        try:
            readers.append(
                make_reader(
                    name,
                    model=arguments.model,
                    batch=arguments.batch,
                    threads=arguments.threads,
                    cache=cache,
                    pictures=folder,
                )
            )
        except ReaderMissing as error:
            absent.append(str(error))
            print(f"accuracy: {error}", file=sys.stderr)
    return readers, absent
