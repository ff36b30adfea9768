"""What becomes of a document whose time is over: pages that are done stay, the others say so."""

import time

import pytest
from made import FakeReader, draw_lines, scan_pdf

import ocria
from ocria.cli.parse import exit_code
from ocria.document.reader import Delta, ReadText
from ocria.events import Note, PageDone, PageStarted

LINES = ["The first line of the page is here", "and the second line follows it", "with a third one to end it"]


class Clock:
    """The time of this process, which can be put forward."""

    ahead = 0.0

    def monotonic(self):
        return time.monotonic() + self.ahead


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("ocria.document.control.time", clock)
    return clock


class Slow(FakeReader):
    """Ends the first `quick` readings at once; later ones go on for ever, by a clock where a step takes a minute."""

    quick = 0

    def __init__(self, clock, **options):
        super().__init__(LINES, **options)
        self.clock = clock

    def stream(self, images, guesses=None):
        if len(self.seen) < self.quick:
            return (yield from super().stream(images, guesses))
        self.seen.append(list(images))
        yield Delta(0, "what was read")
        try:
            while True:
                self.clock.ahead += 60
                yield Delta(0, ".")
        except GeneratorExit:
            self.closed = True
            raise


def scans(count):
    return scan_pdf(*[draw_lines(LINES, size=(620, 400), font_size=20, top=40, gap=50)] * count)


@pytest.mark.parametrize("unit", ["line", "page"])
def test_the_model_is_stopped_and_what_it_read_is_kept(unit, clock):
    reader = Slow(clock, unit=unit, dialect="text")
    events = list(ocria.stream(scans(6), reader=reader, timeout=600))
    document = events[-1].document
    assert [page.index for page in document.pages] == list(range(1, 7))
    assert {page.status for page in document.pages} == {"timeout"}
    assert all("time for the document ran out" in page.error for page in document.pages)
    assert document.pages[0].text.startswith("what was read......")
    assert document.seconds < 900, "at most a step or two too long"
    assert reader.closed
    assert document.status == "failed"
    assert exit_code(document) == 8
    done = [event.page for event in events if isinstance(event, PageDone)]
    assert sorted(done) == list(range(1, 7))
    begun = [event.page for event in events if isinstance(event, PageStarted)]
    assert begun == [1, 2, 3, 4], "the others are not begun"
    assert any("2 pages were not begun" in event.message for event in events if isinstance(event, Note))


def test_pages_that_are_done_stay(clock):
    reader = Slow(clock)
    reader.quick = 1
    document = ocria.parse(scans(6), reader=reader, timeout=600)
    assert [page.status for page in document.pages] == ["ok"] * 4 + ["timeout"] * 2
    assert document.status == "partial"
    assert exit_code(document) == 3


def test_no_model_is_loaded_for_pages_that_come_too_late(tmp_path):
    document = ocria.parse(scans(2), timeout=1e-9, model=str(tmp_path / "none"))
    assert {page.status for page in document.pages} == {"timeout"}


def test_the_time_of_a_page_is_told_apart_from_a_failure():
    cut = ReadText("only this", 0.8, "timeout", 8, 2, "time ran out after 2 s")
    document = ocria.parse(scans(1), reader=FakeReader([LINES[0], cut, LINES[2]]), page_timeout=5, timeout=60)
    assert document.pages[0].status == "timeout"
    assert "time ran out after 2 s" in document.pages[0].error
