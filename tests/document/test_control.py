"""Pausing a run and cancelling parts of it, from other threads, at any moment."""

import random
import threading

import pytest
from made import FakeReader, draw_lines, scan_pdf

import ocria
from ocria.document.control import Control, Deadline, control_of
from ocria.document.options import ParseOptions
from ocria.document.reader import Delta, Reader, ReadText
from ocria.document.result import Block
from ocria.events import (
    DocumentDone,
    LinesFound,
    PageDone,
    PageRouted,
    PageStarted,
    PrefillDone,
    RequestSubmitted,
    TextDelta,
    TokensAccepted,
)

NAME = "<bytes>"
PAGES = 6


def scans(count):
    """Pages of two short lines each, all different."""
    return scan_pdf(*[
        draw_lines([f"Berth {number} is free", f"ship {number * 7}"], size=(620, 300), font_size=20, top=40, gap=60)
        for number in range(1, count + 1)
    ])  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def plain_layout():
    """Lines under each other are laid out without the layout analysis, which takes half a second a page."""
    patch = pytest.MonkeyPatch()
    patch.setattr("ocria.document.read_pages._blocks_of_lines", lambda unit, results: [
        Block("text", (0, 0, 9, 9), "\n".join(result.text for result in results), "words", 0)
    ])  # fmt: skip
    yield
    patch.undo()


@pytest.fixture(scope="module")
def document():
    return scans(PAGES)


def texts(document):
    return {page.index: page.text for page in document.pages}


class Clock:
    """A time that goes on when it is told to."""

    def __init__(self):
        self.at = 100.0

    def monotonic(self):
        return self.at


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("ocria.document.control.time", clock)
    return clock


class Watched(Control):
    """Tells when a run is held."""

    def __init__(self):
        super().__init__()
        self.holds = threading.Event()

    def hold(self):
        if self.paused:
            self.holds.set()
        return super().hold()


class Obedient(FakeReader):
    """A reader that works in steps over all images and gives up those that it is told to."""

    def __init__(self, unit="line", **options):
        super().__init__(["one", "two"], unit=unit, dialect="text", **options)
        self.steps, self.orders = 0, []

    def stream(self, images, guesses=None):
        self.seen.append(list(images))
        lost = set()
        for half in (0, 1):
            for index in range(len(images)):
                self.steps += 1
                if index in lost:
                    continue
                order = yield Delta(index, f"{self._word(images[index])}{half}")
                if order is not None:
                    self.orders.append(order)
                    lost |= set(order.cancel)
        return [
            ReadText("", None, "cancelled", 1, 1) if index in lost
            else ReadText(f"{self._word(image)}0{self._word(image)}1", 0.9, "ok", 3, 4)
            for index, image in enumerate(images)
        ]  # fmt: skip

    def _word(self, image):
        return f"w{int(image.astype(int).sum()) % 9973}"


# The clock and what controls say.


def test_a_control_is_an_event(clock):
    control = Control()
    assert isinstance(control, threading.Event)
    assert not control.is_set()
    control.set()
    assert control.is_set()
    assert control.wait(0)
    assert control_of(control) is control
    flag = threading.Event()
    following = control_of(flag)
    assert not following.is_set()
    flag.set()
    assert following.is_set()
    assert not control_of(None).is_set()


def test_what_follows_a_control_says_the_same():
    control = Control()
    following = Control(control)
    control.cancel_page("a", 3)
    following.cancel_document("b")
    for one in (control, following):
        assert one.is_cancelled("a", 3)
        assert not one.is_cancelled("a", 2)
        assert not one.is_cancelled("a")
        assert one.is_cancelled("b")
        assert not one.is_cancelled("b", 3)
    control.pause()
    assert following.paused
    following.resume()
    assert not control.paused
    following.set()
    assert not control.is_set(), "it is not led by those who follow it"


def test_the_clock_stands_still_in_pauses(clock):
    control = Control()
    other = Control(control)
    limit, began = Deadline(control, 10), control.now()
    clock.at += 4
    control.pause()
    clock.at += 1000
    control.pause()
    clock.at += 1000
    assert not limit.is_over()
    assert other.now() - began == 4
    assert limit.at() == clock.at + 6
    control.resume()
    control.resume()
    clock.at += 5
    assert other.now() - began == 9
    assert not limit.is_over()
    clock.at += 1
    assert limit.is_over()
    assert limit.at() == clock.at


def in_thread(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("end", ["resume", "set", "flag"])
def test_who_follows_waits_for_the_end_of_a_pause(end):
    flag = threading.Event()
    control = Control(flag)
    assert control.hold() == 0
    control.pause()
    began, done = threading.Event(), threading.Event()

    def follow():
        began.set()
        control.hold()
        done.set()

    thread = in_thread(follow)
    assert began.wait(60)
    assert not done.wait(0.2)
    {"resume": control.resume, "set": control.set, "flag": flag.set}[end]()
    thread.join(60)
    assert done.is_set()
    assert not control.paused
    control.pause()
    assert control.paused == (end == "resume"), "what is stopped does not wait"


# Runs.


@pytest.mark.parametrize("unit", ["line", "page"])
@pytest.mark.parametrize("kind", [PageStarted, PageRouted, LinesFound, TextDelta, PageDone])
def test_nothing_happens_in_a_pause_and_nothing_is_lost(document, unit, kind):
    if (unit, kind) == ("page", LinesFound):
        pytest.skip("a page model finds no lines")
    expected = ocria.parse(document, reader=Obedient(unit))
    control, reader, events = Watched(), Obedient(unit), []
    when = random.randrange(3)

    def run():
        for event in ocria.stream(document, reader=reader, cancel=control):
            events.append(event)
            if sum(isinstance(e, kind) for e in events) == when + 1 and isinstance(event, kind):
                control.pause()

    thread = in_thread(run)
    assert control.holds.wait(60)
    before = len(events), reader.steps
    thread.join(0.1)
    assert (len(events), reader.steps) == before
    assert thread.is_alive()
    control.resume()
    thread.join(60)
    assert isinstance(events[-1], DocumentDone)
    assert texts(events[-1].document) == texts(expected)
    assert events[-1].status == "ok"


def test_no_time_runs_out_in_a_pause(document, clock):
    control, events = Watched(), []
    reader = Obedient()

    def run():
        for event in ocria.stream(document, reader=reader, cancel=control, timeout=60):
            events.append(event)
            clock.at += 0.1
            if isinstance(event, TextDelta) and sum(isinstance(e, TextDelta) for e in events) in (2, 5):
                control.pause()

    thread = in_thread(run)
    for _ in range(2):
        assert control.holds.wait(60)
        control.holds.clear()
        clock.at += 1000
        control.resume()
    thread.join(60)
    assert events[-1].status == "ok"
    assert events[-1].seconds < 60
    assert all(page.seconds < 60 for page in events[-1].document.pages)
    assert sum(order.held_s for order in reader.orders) == pytest.approx(2000)


@pytest.mark.parametrize("unit", ["line", "page"])
@pytest.mark.parametrize("seed", range(4))
def test_a_page_that_is_cancelled_leaves_the_others_alone(document, unit, seed):
    draw = random.Random(random.randrange(1 << 32))
    expected = texts(ocria.parse(document, reader=Obedient(unit)))
    count = len(list(ocria.stream(document, reader=Obedient(unit))))
    control, reader = Control(), Obedient(unit)
    lost = draw.sample(range(1, PAGES + 1), draw.randint(1, 3))
    when, events = {page: draw.randrange(count) for page in lost}, []
    gone = set()
    for event in ocria.stream(document, reader=reader, cancel=control):
        events.append(event)
        for page in lost:
            if when[page] == len(events) - 1:
                control.cancel_page(NAME, page)
                if not any(isinstance(e, PageDone) and e.page == page for e in events):
                    gone.add(page)
    pages = {page.index: page for page in events[-1].document.pages}
    assert sorted(pages) == list(range(1, PAGES + 1))
    done = [event for event in events if isinstance(event, PageDone)]
    assert sorted(event.page for event in done) == sorted(pages)
    for number, page in pages.items():
        if number in gone:
            assert (page.status, page.text, page.blocks, page.lines) == ("cancelled", "", [], []), (lost, when)
            assert "cancelled" in page.error
        else:
            assert (page.status, page.text) == ("ok", expected[number])
    for event in done:
        assert event.status == pages[event.page].status
    assert events[-1].status == ("partial" if gone else "ok")
    for place, event in enumerate(events):
        if isinstance(event, PageDone):
            later = [e for e in events[place + 1 :] if getattr(e, "page", None) == event.page]
            assert not later, "nothing comes of a page that is done"


def test_a_queued_page_is_not_begun(document):
    control, reader = Control(), Obedient()
    for page in (2, 5, 6):
        control.cancel_page(NAME, page)
    events = list(ocria.stream(document, reader=reader, cancel=control))
    assert [event.page for event in events if isinstance(event, PageStarted)] == [1, 3, 4]
    assert {e.page: e.status for e in events if isinstance(e, PageDone)} == {
        1: "ok", 2: "cancelled", 3: "ok", 4: "ok", 5: "cancelled", 6: "cancelled"
    }  # fmt: skip
    assert sum(map(len, reader.seen)) == 6


def test_the_engine_is_told_at_once(document):
    """A page that is with the model does not wait for its end there."""
    control, reader = Control(), Obedient()
    for event in ocria.stream(document, reader=reader, cancel=control, pages=[1, 2, 3]):
        if isinstance(event, TextDelta):
            control.cancel_page(NAME, 2)
    assert [sorted(order.cancel) for order in reader.orders] == [[2, 3]], "the lines of the second page"


def test_no_model_is_loaded_for_pages_that_were_cancelled(document, tmp_path):
    control = Control()
    events = []
    for event in ocria.stream(document, cancel=control, pages=[1, 2], model=str(tmp_path / "none"), mode="model"):
        events.append(event)
        if isinstance(event, PageRouted):
            control.cancel_page(NAME, event.page)
    assert events[-1].status == "partial"
    assert {page.status for page in events[-1].document.pages} == {"cancelled"}
    assert {page.route for page in events[-1].document.pages} == {"model"}


def test_pages_with_a_text_layer_can_be_cancelled(born_digital):
    control = Control()
    events = []
    for event in ocria.stream(born_digital, cancel=control, mode="text"):
        events.append(event)
        if isinstance(event, PageRouted) and event.page == 1:
            control.cancel_page(NAME, 1)
    assert [(page.index, page.status) for page in events[-1].document.pages] == [(1, "cancelled"), (2, "ok")]
    assert events[-1].document.pages[0].markdown == ""
    assert "Ledger" not in events[-1].document.markdown
    assert "page 1 is missing (cancelled): the page was cancelled" in events[-1].document.markdown


@pytest.mark.parametrize("moment", [None, PageStarted, LinesFound, TextDelta, PageDone])
def test_a_document_that_is_cancelled_keeps_what_is_done(document, moment):
    expected = texts(ocria.parse(document, reader=Obedient()))
    control, reader, events = Control(), Obedient(), []
    if moment is None:
        control.cancel_document(NAME)
    for event in ocria.stream(document, reader=reader, cancel=control):
        events.append(event)
        if moment is not None and isinstance(event, moment):
            control.cancel_document(NAME)
    assert events[-1].status == "interrupted"
    kept = texts(events[-1].document)
    assert kept.items() <= expected.items()
    # What the model read together is finished together.
    assert len(kept) == (4 if moment is PageDone else 0)
    assert not control.is_set()


def test_other_documents_are_none_of_its_business(document):
    control = Control()
    control.cancel_document("other")
    control.cancel_page("other", 1)
    assert ocria.parse(document, reader=Obedient(), cancel=control).status == "ok"


def test_pages_ahead_are_passed_over(document, monkeypatch):
    """With child processes, pages are drawn before their turn; those that are cancelled are let go."""
    control = Control()
    control.cancel_page(NAME, 1)
    control.cancel_page(NAME, 4)
    events = list(ocria.stream(document, reader=Obedient(), cancel=control, jobs=1))
    assert [event.page for event in events if isinstance(event, PageStarted)] == [2, 3, 5, 6]
    assert {page.index for page in events[-1].document.pages if page.status == "ok"} == {2, 3, 5, 6}


# The real engine.


@pytest.fixture(scope="module")
def nano():
    return Reader(ParseOptions(batch=3))


@pytest.fixture(scope="module")
def read(nano, document):
    """What nano reads without any ado."""
    return texts(ocria.parse(document, reader=nano, pages=[1, 2, 3, 4]))


def is_free(reader):
    reader._engine.check_integrity()
    return reader._engine.idle


@pytest.mark.parametrize("kind", [LinesFound, RequestSubmitted, PrefillDone, TextDelta, TokensAccepted, None])
def test_the_engine_goes_on_without_a_page(nano, document, read, kind):
    """At every phase: before the engine, queued, prefill, decode, any moment."""
    draw = random.Random(random.randrange(1 << 32))
    lost, when = draw.randint(1, 4), draw.randrange(1, 60)
    control, seen = Control(), 0
    for event in ocria.stream(document, reader=nano, cancel=control, pages=[1, 2, 3, 4]):
        mine = kind is None or (isinstance(event, kind) and event.page == lost)
        seen += mine
        if seen == (when if kind is None else 1) and mine and not isinstance(event, DocumentDone):
            control.cancel_page(NAME, lost)
    pages = {page.index: page for page in event.document.pages}
    assert sorted(pages) == [1, 2, 3, 4]
    if kind is not None:
        assert pages[lost].status == "cancelled"
    others = {number: page.text for number, page in pages.items() if page.status == "ok"}
    assert others.keys() >= {1, 2, 3, 4} - {lost}
    assert others.items() <= read.items(), (lost, when)
    assert is_free(nano)


def test_the_engine_waits_and_reads_the_same(nano, document, read):
    control, events = Watched(), []
    when = random.randrange(1, 20)

    def run():
        for event in ocria.stream(document, reader=nano, cancel=control, pages=[1, 2, 3, 4]):
            events.append(event)
            if isinstance(event, TextDelta) and sum(isinstance(e, TextDelta) for e in events) == when:
                control.pause()

    thread = in_thread(run)
    while not control.holds.wait(0.1) and thread.is_alive():
        pass
    if thread.is_alive():  # else there were fewer pieces of text
        before = len(events), nano._engine.worker.steps
        thread.join(0.2)
        assert (len(events), nano._engine.worker.steps) == before
        held = nano._clock.held_s
        control.resume()
        thread.join(300)
        assert nano._clock.held_s > held
    assert texts(events[-1].document) == read
    assert is_free(nano)


def test_a_page_may_be_cancelled_from_another_thread_at_any_time(nano, document, read):
    draw = random.Random(random.randrange(1 << 32))
    for _ in range(3):
        control, lost = Control(), draw.randint(1, 4)
        timer = threading.Timer(draw.random() * 3, control.cancel_page, (NAME, lost))
        timer.start()
        pages = ocria.parse(document, reader=nano, cancel=control, pages=[1, 2, 3, 4]).pages
        timer.cancel()
        others = {page.index: page.text for page in pages if page.status == "ok"}
        assert others.items() <= read.items()
        assert others.keys() >= {1, 2, 3, 4} - {lost}
        assert is_free(nano)
