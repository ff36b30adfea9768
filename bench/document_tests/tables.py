"""What is printed of document tests."""

from __future__ import annotations

from collections import Counter

from report import shown

from .run import Outcome, Result, kind_rates, pass_rates, time_rows


def rate_table(rates: dict[str, dict[str, dict[str, float]]], readers: list[str], what: str) -> list[str]:
    """Passed of all, the share, and its interval where there is one; "-" where a reader read nothing of a row."""
    width = 21 if any("low" in row for by in rates.values() for row in by.values()) else 14
    head = f"{what:<34}" + "".join(f"{reader:>{width}}" for reader in readers)
    lines = [head, "-" * len(head)]
    for name, by_reader in rates.items():
        cells = []
        for reader in readers:
            row = by_reader.get(reader)
            if row is None:
                cells.append(f"{'-':>{width}}")
                continue
            text = f"{row['passed']}/{row['total']}"
            if "low" in row:
                text += f" {row['rate']:4.0%} [{row['low']:.0%},{row['high']:.0%}]".replace("%", "")
            cells.append(f"{text:>{width}}")
        lines.append(f"{name:<34}" + "".join(cells))
    return lines


def failure_list(results: list[Result], reader: str, most: int) -> list[str]:
    """Failed tests of one reader by group, at most `most` of them."""
    failed = [result for result in results if result.reader == reader and result.failure is not None]
    lines = [f"{r.test.group:<20} {r.test.id:<28} {shown(r.failure or '')}" for r in failed[:most]]
    if len(failed) > most:
        lines.append(f"... and {len(failed) - most} more")
    return lines


def time_table(rows: dict[str, dict[str, float]], mine: str, peer: str) -> list[str]:
    """Medians of seconds by group, and how much of the peer's time a page takes."""
    head = f"{'class':<24} {'pages':>5} {mine:>14} {peer:>12} {'ratio':>8}"
    lines = [head, "-" * len(head)]
    for group, row in rows.items():
        lines.append(
            f"{group:<24} {row['pages']:>5} {row['mine']:>12.2f} s {row['peer']:>10.2f} s {row['ratio']:>8.2f}"
        )
    return lines


def print_outcome(outcome: Outcome, readers: list[str], most_failures: int) -> dict:
    """Print everything; returns it for the JSON document."""
    rates, kinds = pass_rates(outcome.results), kind_rates(outcome.results)
    print("\nPassed of all, per cent [95 % interval]")
    print("\n".join(rate_table(rates, readers, "class")) + "\n")
    print("\n".join(rate_table(kinds, readers, "kind of test")))
    not_run = Counter(test.kind for test in outcome.not_run)
    if not_run:
        told = ", ".join(f"{kind} ({count})" for kind, count in sorted(not_run.items()))
        print(f"Not run, and counted nowhere above: {told}.")
    times = {}
    for mine in readers:
        if mine.startswith("ocria ") and "tesseract" in readers:
            times[mine] = time_rows(outcome, mine, "tesseract")
            print(f"\nWall time of a page, medians: {mine} over tesseract")
            print("\n".join(time_table(times[mine], mine, "tesseract")))
    for reader in readers:
        lines = failure_list(outcome.results, reader, most_failures)
        if lines:
            print(f"\nFailed tests of {reader}")
            print("\n".join(lines))
    failures = [
        {"reader": r.reader, "group": r.test.group, "id": r.test.id, "kind": r.test.kind, "why": r.failure}
        for r in outcome.results
        if r.failure is not None
    ]
    return {"rates": rates, "kinds": kinds, "not_run": dict(not_run), "times": times, "failures": failures}
