"""Damaged files of every kind: whatever is wrong with one, it is told as a typed error, page by page.

`OCRIA_FUZZ=20000` sets how many are made, `OCRIA_FUZZ_SEED` repeats a run, and with `OCRIA_FUZZ_KEEP=FOLDER` files
whose reading crashed or ran out of time are kept there.
"""

import os
import random
import re
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from fuzz_corpus import corpus, mutate
from made import FakeReader

import ocria
from ocria.document.control import Control, Deadline
from ocria.document.source import open_source
from ocria.document.workers import Workers
from ocria.errors import CrashError, OcriaError, TimeoutExceeded

COUNT = int(os.environ.get("OCRIA_FUZZ", 2000))
SEED = os.environ.get("OCRIA_FUZZ_SEED")
KEEP = os.environ.get("OCRIA_FUZZ_KEEP")
PAGE_S, OPEN_S = 20, 40
# Layout analysis takes far longer than all the rest.
LAID_OUT, PARSED = 0.01, 0.006
MOST_GROWTH = 64 << 20
UNTYPED = re.compile(r"[A-Z]\w*(Error|Exception|Warning): ")


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def children():
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.append(int(stat.parent.name))
    return found


def test_damaged_files_are_told_as_such():
    seed = int(SEED) if SEED else random.randrange(1 << 30)
    print(f"seed {seed}")
    draw = random.Random(seed)
    seeds = corpus(draw)
    contents = [content for _, content in seeds]
    tally, before, untyped = Counter(), None, []
    ours = set(children())
    with Workers(1) as workers:
        for number in range(COUNT):
            name, content = draw.choice(seeds)
            content = mutate(draw, name, content, contents)
            password = draw.choice((None, None, "u", "o", "wrong"))
            step = parse_whole if draw.random() < PARSED else read_pages
            began = time.monotonic()
            try:
                step(draw, content, password, workers, tally)
            except OcriaError as error:
                note(tally, "open", error, content, f"{number}-{name}")
                if UNTYPED.match(error.message):
                    untyped.append((number, name, error.message))
            assert time.monotonic() - began < 20 * (OPEN_S + PAGE_S)
            if number == COUNT // 5:
                before = resident()
        assert len(set(children()) - ours) <= 1
    assert set(children()) <= ours
    print(*(f"{count:6d} {what}" for what, count in tally.most_common()), sep="\n")
    # What a library raises that nobody foresaw is an InputError as well, if one that says little; that must be rare.
    print(*untyped, sep="\n")
    assert len(untyped) <= COUNT // 1000
    assert tally["pages read"] > COUNT / 4, "most faults leave something to read"
    assert tally["open InputError"] > COUNT / 50
    assert resident() - before < MOST_GROWTH


def read_pages(draw, content, password, workers, tally):
    until = Deadline(Control(), OPEN_S)
    with closing(open_source(content, password, workers, page_timeout=PAGE_S, until=until)) as source:
        assert source.page_count >= 1
        for number in {1, 2, source.page_count} - {2 if source.page_count < 2 else 0}:
            page = source.page(number)
            try:
                facts = page.look()
                assert facts.width > 0
                assert facts.height > 0
                pixels = page.render(draw.choice((20, 36)))
                assert pixels.shape[2] == 3
                assert pixels.size > 0
                page.words()
                if draw.random() < LAID_OUT:
                    page.lay_out()
                tally["pages read"] += 1
            except OcriaError as error:
                note(tally, "page", error, content, f"{len(content)}-page{number}")


def parse_whole(draw, content, password, workers, tally):
    """A whole run, with a reader without a model."""
    mode = draw.choice(("auto", "model", "text"))
    reader = FakeReader(["some", "lines", "of text"], unit=draw.choice(("page", "line")))
    document = ocria.parse(content, password=password, mode=mode, workers=workers, reader=reader, timeout=OPEN_S)
    assert [page.index for page in document.pages] == list(range(1, document.page_count + 1))
    tally["documents parsed"] += 1


def note(tally, where, error, content, name):
    kind = type(error).__name__
    tally[f"{where} {kind}"] += 1
    if UNTYPED.match(error.message):
        tally[f"{where} {error.message.split(':')[0]}"] += 1
    if KEEP and (isinstance(error, (CrashError, TimeoutExceeded)) or UNTYPED.match(error.message)):
        Path(KEEP, f"{kind}-{name}").write_bytes(content)
