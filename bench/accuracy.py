"""How well does ocria read real documents, beside Tesseract on the same images?

    python bench/accuracy.py                          all groups and document tests
    python bench/accuracy.py --document-tests         document tests only
    python bench/accuracy.py --olmocr-bench DIR       olmOCR-bench's own tests
    python bench/accuracy.py --lines-only --model runs/nano/export --peer none
    python bench/accuracy.py --reader tesseract-lines --group books     line finding or reading?

Progress goes to standard error, tables to standard output; the last line there is one JSON document.
See docs/accuracy.md for what is measured and how.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

from document_tests.command import add_arguments, run_document_tests
from document_tests.rows import BadRow
from readers import FoundLines, Ocria, Peer, ReaderUnderTest
from report import (
    Reading,
    confusion_counts,
    confusion_table,
    error_kinds,
    error_table,
    group_table,
    shown,
    summary,
    time_ratios,
    worst_places,
    worst_words,
)
from samples import GROUPS, MIN_WORDS, RASTER_DPI, SamplesNotFound, find_samples, load_items
from tesseract import PeerError, Tesseract, cache_folder, pin

from ocria.errors import OcriaError


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", metavar="DIR", help="the real samples (default: OCRIA_SAMPLES)")
    parser.add_argument("--model", metavar="FOLDER", help="checkpoint folder or name (default: ocria-nano)")
    parser.add_argument("--group", action="append", choices=list(GROUPS), help="repeatable; default all")
    parser.add_argument("--lines-only", action="store_true", help="line images only, for use during training")
    parser.add_argument("--peer", choices=["tesseract", "none"], default="tesseract")
    parser.add_argument("--reader", choices=["ocria", "tesseract-lines", "tesseract"], default="ocria")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N items of each group")
    parser.add_argument("--worst", type=int, default=10, metavar="N", help="how many of the worst to show")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything, texts included")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32, help="lines in one batch of the engine")
    parser.add_argument("--no-cache", action="store_true", help="run the peer again, reuse nothing")
    add_arguments(parser)
    arguments = parser.parse_args(argv)
    if (arguments.document_tests or arguments.olmocr_bench) and (arguments.lines_only or arguments.group):
        parser.error("--document-tests and --olmocr-bench read no groups")
    if arguments.lines_only:
        if arguments.group:
            parser.error("--lines-only and --group exclude each other")
        arguments.group = ["lines"]
    return arguments


def read_groups(
    readers: list[ReaderUnderTest], items_of: dict[str, list]
) -> dict[str, dict[str, list[Reading]]]:
    """All readings by group and reader. Readers take turns on each page, so that they meet the same load.

    Line images are read group by group, because ocria reads many of them in one batch.
    """
    readings: dict[str, dict[str, list[Reading]]] = {}
    for group, items in items_of.items():
        start = time.perf_counter()
        readings[group] = {reader.name: [] for reader in readers}
        turns = [items] if GROUPS[group].unit == "line" else [[item] for item in items]
        for number, turn in enumerate(turns):
            first = number % len(readers)
            for reader in readers[first:] + readers[:first]:
                readings[group][reader.name] += reader.read(turn)
        took = time.perf_counter() - start
        names = " and ".join(reader.name for reader in readers)
        print(f"{group}: {len(items)} items by {names} in {took:.1f} s", file=sys.stderr)
    return readings


def method(arguments: argparse.Namespace, tesseract: Tesseract | None) -> list[str]:
    """What was done, in lines of text."""
    from ocria import __version__

    under_test = {
        "ocria": f"model {arguments.model or 'ocria-nano'}, {arguments.threads} threads, batch "
        f"{arguments.batch}; pages as images through ocria.parse(mode='model'), line images through the same "
        "line reader. Loading the model is not counted.",
        "tesseract-lines": "its line finder only: Tesseract --psm 7 reads the crops of each page.",
        "tesseract": "not run.",
    }
    lines = [
        f"ocria {__version__}: {under_test[arguments.reader]}",
        "Texts are compared after NFKC, straight quotes and dashes, ſ→s, line-end hyphens joined, white "
        "space collapsed; case counts except on receipts. CER and WER: edits of all items over size of all "
        "items. F1: multiset of words, mean over items. Median: over items, of CER, else of F1.",
        f"Born-digital pages: the first two of each file if they have {MIN_WORDS} words, rendered in grey at "
        f"{RASTER_DPI} dpi; truth is their text layer.",
    ]
    if tesseract:
        reuse = "nothing reused" if arguments.no_cache else "texts and times of earlier runs reused"
        lines.append(
            f"Tesseract {tesseract.version}, eng, pages --psm 3, lines --psm 13, wall seconds of its process with "
            f"OMP_THREAD_LIMIT=1 or {arguments.threads}, whichever was faster on the image, on the same cores as "
            f"ocria; {reuse}."
        )
    lines.append(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}.")
    return lines


def print_report(readings: dict[str, dict[str, list[Reading]]], readers: list[str], worst: int) -> dict:
    """Print all tables; returns the groups' summaries and the confusions for the JSON document."""
    groups = {
        group: {reader: summary(found) for reader, found in by_reader.items()}
        for group, by_reader in readings.items()
    }
    print("\n".join(group_table(groups, readers)))
    ratios = time_ratios(readings, *readers[:2]) if len(readers) > 1 else {}
    for group, ratio in ratios.items():
        print(f"{GROUPS[group].title}: {readers[0]} takes {ratio:.2f} times as long as {readers[1]} (median of items)")
    kinds = {
        group: {reader: error_kinds(found) for reader, found in by_reader.items()}
        for group, by_reader in readings.items()
        if GROUPS[group].measure == "cer"
    }
    print("\nKinds of error, in edits per 1000 characters")
    print("\n".join(error_table(kinds, readers)))
    mine = [reading for by_reader in readings.values() for reading in by_reader[readers[0]]]
    counts = confusion_counts(mine)
    if worst:
        print(f"\nWorst places of {readers[0]} (edits, item; truth above output)")
        for place in worst_places(mine, worst):
            print(f"{place.edits:>4}  {place.name}\n      {shown(place.truth)}\n      {shown(place.output)}")
        print(f"\nWorst items of {readers[0]} by word F1 (words missed; words made up)")
        for name, f1, missed, made_up in worst_words(mine, worst):
            print(f"{f1:.3f}  {name}")
            print(f"       missed  {shown(' '.join(missed))[:95]}")
            print(f"       made up {shown(' '.join(made_up))[:95]}")
    print(f"\nConfusions of {readers[0]} where the truth has an order")
    print("\n".join(confusion_table(counts)))
    confusions = [[a, b, n] for (a, b), n in counts.most_common(50)]
    return {"groups": groups, "time_ratios": ratios, "error_kinds": kinds, "confusions": confusions}


def make_readers(
    arguments: argparse.Namespace, tesseract: Tesseract | None, cache: Path
) -> list[ReaderUnderTest]:
    """The reader under test first, then the peer."""
    readers: list[ReaderUnderTest] = []
    if arguments.reader == "ocria":
        readers.append(Ocria(arguments.model, cache, arguments.batch, arguments.threads))
    elif arguments.reader == "tesseract-lines":
        readers.append(FoundLines(tesseract, cache))
    if arguments.peer == "tesseract" or arguments.reader == "tesseract":
        readers.append(Peer(tesseract, cache))
    return readers


def write_json(path: Path, document: dict, readings: dict[str, dict[str, list[Reading]]]) -> None:
    """The whole document with every text and score."""
    items = [
        {"reader": reader, "group": group, "name": one.name, "truth": one.truth, "output": one.output}
        | {"status": one.status, "seconds": one.seconds, "cer": one.score.cer, "wer": one.score.wer, "f1": one.score.f1}
        for group, by_reader in readings.items()
        for reader, found in by_reader.items()
        for one in found
    ]
    path.write_text(json.dumps({**document, "items": items}, ensure_ascii=False), encoding="utf-8")


def read_and_report(arguments: argparse.Namespace, cache: Path) -> tuple[dict, dict]:
    """The groups: the JSON document and all readings."""
    groups = [group for group in GROUPS if not arguments.group or group in arguments.group]
    items = load_items(find_samples(arguments.samples), groups, limit=arguments.limit)
    tesseract = None
    if arguments.peer == "tesseract" or arguments.reader != "ocria":
        tesseract = Tesseract(None if arguments.no_cache else cache, arguments.threads)
        pin(min(arguments.threads, len(os.sched_getaffinity(0))))
    readers = make_readers(arguments, tesseract, cache)
    items_of = {group: [item for item in items if item.group == group] for group in groups}
    readings = read_groups(readers, {group: found for group, found in items_of.items() if found})
    how = method(arguments, tesseract)
    print("\n".join(how) + "\n")
    result = print_report(readings, [reader.name for reader in readers], arguments.worst)
    return {"method": how, **result}, readings


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    cache = cache_folder()
    cores = os.sched_getaffinity(0)
    only_tests = arguments.document_tests or arguments.olmocr_bench is not None
    document, readings = {"bench": "accuracy"}, {}
    try:
        if not only_tests:
            found, readings = read_and_report(arguments, cache)
            document |= found
        if only_tests or not (arguments.group or arguments.reader != "ocria"):
            document["document_tests"] = run_document_tests(arguments, cache)
    except (SamplesNotFound, PeerError, BadRow, OcriaError) as error:
        print(f"accuracy: {error}", file=sys.stderr)
        return 2
    finally:
        os.sched_setaffinity(0, cores)
    if arguments.json:
        write_json(arguments.json, document, readings)
    print(json.dumps(document, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
