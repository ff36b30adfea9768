"""Run document tests: every reader reads every page once, page by page in turns, and every test looks at that."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from .intervals import over_pages, wilson
from .outputs import MarkdownReader, Output
from .rows import Test

Page = tuple[Path, int | None]


@dataclass(frozen=True, slots=True)
class Result:
    """One test of one reader. `failure` is None where it passed."""

    test: Test
    reader: str
    failure: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of all tests that ran, and the wall seconds by page and reader."""

    results: list[Result]
    seconds: dict[Page, dict[str, float]]
    not_run: list[Test]
    """Tests of kinds that have no check here; they count neither as passed nor as failed."""


def run_tests(tests: list[Test], readers: list[MarkdownReader], *, quiet: bool = False) -> Outcome:
    """Readers take turns on each page, the first of them in turn too, so that all meet the same load.

    A reader that raises on a page fails its tests: an error is no output.
    """
    of_page: dict[Page, list[Test]] = {}
    not_run = [test for test in tests if test.check is None]
    for test in tests:
        if test.check is not None:
            of_page.setdefault((test.path, test.page), []).append(test)
    results: list[Result] = []
    seconds: dict[Page, dict[str, float]] = {}
    for number, (page, its_tests) in enumerate(of_page.items()):
        shift = number % len(readers)
        seconds[page] = {}
        for reader in readers[shift:] + readers[:shift]:
            output, error = _read(reader, page)
            if output:
                seconds[page][reader.name] = output.seconds
            if output or error:
                results += [
                    Result(test, reader.name, error or test.check.failure(output.markdown)) for test in its_tests
                ]
        if not quiet:
            took = ", ".join(f"{name} {value:.1f} s" for name, value in seconds[page].items())
            print(f"{number + 1}/{len(of_page)} {page[0].name}: {took}", file=sys.stderr)
    return Outcome(results, seconds, not_run)


def _read(reader: MarkdownReader, page: Page) -> tuple[Output | None, str | None]:
    try:
        return reader.read(*page), None
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def pass_rates(results: list[Result]) -> dict[str, dict[str, dict[str, float]]]:
    """By group and reader, "all" last: passed, total, rate, interval. Groups keep their order.

    The interval is the wider of Wilson's and a bootstrap over pages: tests of one page are not independent.
    """
    groups = [*dict.fromkeys(result.test.group for result in results), "all"]
    readers = dict.fromkeys(result.reader for result in results)
    table: dict[str, dict[str, dict[str, float]]] = {}
    for group in groups:
        table[group] = {}
        for reader in readers:
            own = [r for r in results if r.reader == reader and group in ("all", r.test.group)]
            if own:
                table[group][reader] = _rate(own)
    return table


def _rate(results: list[Result]) -> dict[str, float]:
    pages: dict[Page, tuple[int, int]] = {}
    for result in results:
        page = result.test.path, result.test.page
        passed, total = pages.get(page, (0, 0))
        pages[page] = passed + (result.failure is None), total + 1
    passed, total = (sum(column) for column in zip(*pages.values(), strict=True))
    low, high = wilson(passed, total)
    page_low, page_high = over_pages(list(pages.values()))
    interval = {"low": min(low, page_low), "high": max(high, page_high)}
    return {"passed": passed, "total": total, "pages": len(pages), "rate": passed / total, **interval}


def kind_rates(results: list[Result]) -> dict[str, dict[str, dict[str, float]]]:
    """By kind of test and reader: passed and total."""
    table: dict[str, dict[str, dict[str, float]]] = {}
    for result in results:
        row = table.setdefault(result.test.kind, {}).setdefault(result.reader, {"passed": 0, "total": 0})
        row["passed"] += result.failure is None
        row["total"] += 1
    return table


def time_rows(outcome: Outcome, mine: str, peer: str) -> dict[str, dict[str, float]]:
    """By group the medians of the wall seconds of two readers and of their ratio, over pages that both read."""
    rows: dict[str, dict[str, float]] = {}
    group_of = {(r.test.path, r.test.page): r.test.group for r in outcome.results if r.test.group != "baseline"}
    for group in dict.fromkeys(group_of.values()):
        pairs = [
            (took[mine], took[peer])
            for page, took in outcome.seconds.items()
            if group_of.get(page) == group and mine in took and peer in took
        ]
        if pairs:
            rows[group] = {
                "pages": len(pairs),
                "mine": median(a for a, _ in pairs),
                "peer": median(b for _, b in pairs),
                "ratio": median(a / b for a, b in pairs),
            }
    return rows
