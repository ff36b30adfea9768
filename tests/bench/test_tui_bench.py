"""The bench of the app: its keys reach the app and are clocked, its numbers are what they are called."""

import asyncio
import random
import statistics
from pathlib import Path

import pymupdf
from ocria_tui.replay import ReplaySession
from ocria_tui.settings import AppSettings

import tui as bench
from ocria.events import DocumentDone, PageDone

RUN = Path(__file__).parents[1] / "tui" / "run.jsonl"


def test_keys_are_clocked_and_none_is_lost():
    async def clocked():
        app = bench.TimedApp(ReplaySession(RUN, float("inf")), AppSettings(animation=False))
        async with app.run_test(size=bench.SIZE):
            typist = bench.Typist(app, random.Random(), 0.01)
            typist.start()
            while len(typist.cpu) < 12:
                await asyncio.sleep(0.05)
            typist.stop()
            await asyncio.to_thread(typist.join)
        return typist

    typist = asyncio.run(clocked())
    found = bench.flat([typist])
    assert typist.lost == 0
    assert len(found) == len(typist.cpu) >= 12
    assert all(ms > 0 for ms in found)


def test_figures_are_those_of_the_sorted_times():
    times = [float(number) for number in range(1, 101)]
    random.shuffle(times)
    assert bench.figures(times) == {"keys": 100, "median": statistics.median(times), "p95": 96.0, "max": 100.0}
    assert bench.figures([]) == {"keys": 0}
    assert bench.shown([]) == "no key"


def test_a_reading_counts_the_tokens_of_its_own_document():
    class Session:
        pid = 1

    reading = bench.Reading(Session())
    for path, page in (("a", 1), ("b", 1), ("a", 2)):
        reading.take(PageDone(path, page, "ok", "model", 1.0, 10 * page, "x"), "a")
    assert reading.end is None
    reading.take(DocumentDone("b", "ok", 9.0), "a")
    assert reading.end is None
    reading.take(DocumentDone("a", "ok", 2.0), "a")
    assert reading.tokens_per_s == 15.0


def test_the_document_is_drawn_as_asked(tmp_path):
    bench.draw(tmp_path / "a.pdf", 2, 5, random.Random())
    with pymupdf.open(tmp_path / "a.pdf") as document:
        assert len(document) == 2
        assert all(len(page.get_text().strip().splitlines()) == 5 for page in document)
