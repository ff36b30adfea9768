"""Events in, what the app knows out."""

import random
import sys
from collections import Counter
from pathlib import Path

import pytest
from fake_session import FakeSession, begun, halfway, tick, whole_page
from ocria_tui.eta import eta
from ocria_tui.messages import (
    MESSAGES,
    DocumentCancelled,
    DocumentQueued,
    Exported,
    PageImage,
    PausedChanged,
    Refused,
    SessionEnded,
)
from ocria_tui.state import LIVE, LOG_LINES, SAMPLES, UNFINISHED, AppState, apply

from ocria.events import (
    BatchStarted,
    DocumentDone,
    DocumentFailed,
    DocumentSkipped,
    DocumentStarted,
    DocumentWritten,
    LinesFound,
    Note,
    PageDone,
    PageRouted,
    PageStarted,
    PrefillDone,
    RequestSubmitted,
    TextDelta,
    TokensAccepted,
)
from ocria.record import read_recording

RECORDED = Path(__file__).parent / "run.jsonl"
STATUSES = ("ok", "blank", "failed", "truncated", "degenerate", "timeout", "cancelled")


def after(*events, at=0.0):
    state = AppState()
    for event in events:
        apply(state, at, event)
    return state


def check(state):
    """What holds after every event, whatever came."""
    total = Counter()
    for path, document in state.documents.items():
        assert document.path == path
        assert document.order == sorted(document.pages)
        counts = Counter(page.status for page in document.pages.values())
        assert +document.counts == counts
        assert document.finished == sum(page.done for page in document.pages.values())
        assert 0 <= document.unwell <= document.finished <= len(document.pages)
        total += counts
        if any(page.status in LIVE for page in document.pages.values()):
            assert document.status == "running"
        for number, page in document.pages.items():
            assert page.number == number
            assert ((path, number) in state.live) == (page.status in LIVE)
            assert ((path, number) in state.decoding) == (page.status == "decode")
            assert page.touched.keys() <= page.units.keys()
            assert (page.markdown is None) or page.done
    assert +state.counts == total
    assert state.pages_left == sum(total[status] for status in UNFINISHED)
    assert +state.statuses == Counter(document.status for document in state.documents.values())
    waits = [d for d in state.documents.values() if d.status == "queued" and not d.pages]
    assert state.unopened == len(waits)
    assert state.documents_ended == sum(document.ended for document in state.documents.values())
    if state.reading is not None and state.decoding:
        assert state.reading in state.decoding
    assert len(state.log) <= LOG_LINES
    assert len(state.speeds) == len(state.speeds_at) <= SAMPLES
    assert 0 <= state.working_s() <= state.now


def anything(draw):
    """Some event, also one that makes no sense now."""
    path, page, unit = draw.choice("abc"), draw.randint(1, 9), draw.randint(0, 5)
    place = {"path": path, "page": page, "unit": unit}
    return draw.choice([
        lambda: DocumentQueued(path, draw.choice([None, (), tuple(draw.sample(range(1, 12), 4))])),
        lambda: DocumentStarted(path, draw.randint(0, 8)),
        lambda: BatchStarted(3, None),
        lambda: PageStarted(path, page),
        lambda: PageRouted(path, page, "model", "why"),
        lambda: LinesFound(path, page, ((0.0, 0.0, 1.0, 1.0),) * unit),
        lambda: RequestSubmitted("r", 9, **place),
        lambda: RequestSubmitted("r", 9),
        lambda: PrefillDone("r", 9, 0.1, **place),
        lambda: TextDelta(path, page, unit, "word "),
        lambda: TokensAccepted("r", 3, **place),
        lambda: TokensAccepted("r", 3),
        lambda: PageDone(path, page, draw.choice(STATUSES), "model", 0.1, 5, draw.choice(["", "# Text"])),
        lambda: DocumentDone(path, draw.choice(["ok", "partial", "failed", "interrupted"]), 1.0),
        lambda: DocumentFailed(path, "broken", "mend it", 4),
        lambda: DocumentSkipped(path, "ok", "done before"),
        lambda: DocumentCancelled(path),
        lambda: DocumentWritten(path, ("out.md",)),
        lambda: Exported(path, ("out.md",)),
        lambda: Note(draw.choice(["debug", "info", "warning", "error"]), "said", path, draw.choice([None, page])),
        lambda: PageImage(path, page, "file.png", 595.0, 842.0),
        lambda: PausedChanged(draw.random() < 0.5),
        lambda: Refused("no", "do this", draw.choice([None, path])),
        lambda: SessionEnded(draw.choice([None, "crashed"])),
        lambda: tick(now=draw.choice([0.0, 100.0])),
    ])()  # fmt: skip


def test_whatever_comes_the_counts_and_what_is_live_are_right():
    seed = random.SystemRandom().getrandbits(32)
    draw = random.Random(seed)
    for _ in range(30):
        state, at, said = AppState(), 0.0, []
        for _ in range(150):
            at += draw.choice([0.0, 0.01, 1.0])
            said.append((at, anything(draw)))
            apply(state, *said[-1])
            try:
                check(state)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, after {said[-6:]}") from error


def test_a_page_goes_from_status_to_status():
    state, seen = AppState(), []
    events = [
        DocumentQueued("a", (3,)), PageStarted("a", 3), RequestSubmitted("r", 9, "a", 3, 0),
        PrefillDone("r", 9, 0.1, "a", 3, 0), RequestSubmitted("s", 9, "a", 3, 1), TextDelta("a", 3, 0, "x"),
        PrefillDone("s", 9, 0.1, "a", 3, 1), PageDone("a", 3, "ok", "model", 1.0, 7, "x", 2.5),
        TextDelta("a", 3, 0, "late"),
    ]  # fmt: skip
    for event in events:
        apply(state, 1.0, event)
        seen.append(state.documents["a"].pages[3].status)
    assert seen == ["queued", "started", "waiting", "prefill", "prefill", "decode", "decode", "ok", "ok"]
    page = state.documents["a"].pages[3]
    assert (page.markdown, page.tokens_out, page.accept_length, page.seconds) == ("x", 7, 2.5, 1.0)


def test_text_of_lines_grows_in_its_place():
    texts = [(2, "th"), (0, "one"), (2, "ird")]
    state = after(*begun("a", 1, 3), *(TextDelta("a", 1, line, text) for line, text in texts))
    assert state.documents["a"].pages[1].units == {2: "third", 0: "one"}


def test_the_page_to_look_at_stays_until_it_is_done():
    state = after(DocumentStarted("a", 3), *begun("a", 1, 2), *begun("a", 2, 2), PageStarted("a", 3))
    assert state.reading == ("a", 1)
    apply(state, 0, TextDelta("a", 2, 0, "x"))  # what has text is more to look at
    apply(state, 0, TextDelta("a", 1, 0, "x"))
    apply(state, 0, PageStarted("a", 3))
    assert state.reading == ("a", 2)
    apply(state, 0, PageDone("a", 2, "ok", "model", 1.0, 1, "x"))
    assert state.reading == ("a", 1)
    apply(state, 0, PageDone("a", 1, "ok", "model", 1.0, 1, "x"))
    assert state.reading == ("a", 3)
    apply(state, 0, PageDone("a", 3, "failed", "model", 1.0, 1, ""))
    assert state.reading == ("a", 3), "the last page is still there to be looked at"


def test_pages_whose_numbers_were_not_told_take_the_places_of_guesses():
    state = after(DocumentStarted("a", 3))
    assert state.documents["a"].order == [1, 2, 3]
    for number in (7, 9, 2):
        apply(state, 0, PageStarted("a", number))
    assert state.documents["a"].order == [2, 7, 9]
    check(state)
    state = after(DocumentStarted("a", 3), DocumentQueued("a", (4, 5, 6)))
    assert state.documents["a"].order == [4, 5, 6]


def test_a_retried_page_begins_anew():
    state = after(
        DocumentQueued("a", (1, 2)), *begun("a", 1, 2), Note("error", "it broke", "a", 1),
        PageDone("a", 1, "failed", "model", 1.0, 0, ""), PageDone("a", 2, "ok", "model", 1.0, 9, "two"),
        DocumentDone("a", "partial", 2.0), DocumentQueued("a", (1,)),
    )  # fmt: skip
    document = state.documents["a"]
    first, second = document.pages.values()
    assert (document.status, first.status, first.error, first.boxes) == ("queued", "queued", None, ())
    assert (second.status, second.markdown) == ("ok", "two")


def test_an_engine_that_ends_leaves_nothing_live_and_may_come_back():
    state = after(DocumentQueued("b"), *begun("a", 1, 2), TextDelta("a", 1, 0, "x"), SessionEnded("crashed", "start"))
    assert (state.ended, state.live, state.decoding) == ("crashed", {}, {})
    assert [document.status for document in state.documents.values()] == ["queued", "interrupted"]
    assert (state.log[-1].message, state.log[-1].cure) == ("crashed", "start")
    apply(state, 1, DocumentQueued("a", (1,)))
    assert state.ended is None
    check(state)


def test_the_time_that_is_left_has_a_range_that_narrows_and_stands_still_in_a_pause():
    state = AppState()
    apply(state, 0.0, DocumentQueued("a", tuple(range(1, 101))))
    apply(state, 0.0, DocumentStarted("a", 100))
    assert eta(state) is None
    draw, widths = random.Random(5), []
    for page in range(1, 61):
        apply(state, state.now + draw.uniform(0.5, 1.5), PageDone("a", page, "ok", "text", 1.0, 0, "x"))
        left = eta(state)
        if left is not None:
            assert left.low <= left.seconds <= left.high
            widths.append((left.high - left.low) / left.seconds)
    assert 25 < left.seconds < 60
    assert left.low > 0.5 * left.seconds
    assert widths[-1] < max(widths)
    apply(state, state.now, PausedChanged(True))
    apply(state, state.now + 1000, tick())
    assert eta(state).seconds == pytest.approx(left.seconds)
    apply(state, state.now, PausedChanged(False))
    assert state.working_s() == pytest.approx(state.now - 1000)


def test_documents_that_are_not_opened_make_it_rough():
    session, state = FakeSession(), AppState()
    halfway(session)
    for at, event in session.drain():
        apply(state, at, event)
    check(state)
    assert eta(state).rough
    assert str(eta(state)).startswith("~")


def test_a_recorded_run_is_followed_to_its_end():
    """Of two documents, read by the model that ships with ocria."""
    state = AppState()
    for at, event in read_recording(RECORDED, MESSAGES):
        apply(state, at, event)
        check(state)
    assert {path: document.status for path, document in state.documents.items()} == {
        "examples/scan.png": "ok", "examples/report.pdf": "ok",
    }  # fmt: skip
    pages = [page for document in state.documents.values() for page in document.pages.values()]
    assert [page.status for page in pages] == ["ok"] * 3
    assert all(page.markdown and page.boxes and page.tokens_out and not page.units for page in pages)
    assert (state.live, state.pages_left, state.unopened, state.ended) == ({}, 0, 0, "finished")
    assert all(document.outputs for document in state.documents.values())
    assert state.tick is not None
    assert eta(state) is None


def test_events_cost_the_same_in_long_documents():
    """Counted in Python's own steps, not in seconds."""
    few, many = (_steps(pages) for pages in (20, 2000))
    assert many < 1.5 * few, (few, many)


def _steps(pages):
    """Lines of Python that a page in the middle takes from its beginning to its end."""


    session, state = FakeSession(), AppState()
    session.say(DocumentQueued("a", tuple(range(1, pages + 1))), DocumentStarted("a", pages))
    for page in range(1, pages // 2):
        whole_page(session, "a", page)
    for at, event in session.drain():
        apply(state, at, event)
    session.say(*begun("a", pages // 2, 30), *(TextDelta("a", pages // 2, line, "x") for line in range(30)))
    whole_page(session, "a", pages // 2)
    events, steps = session.drain(), 0

    def count(frame, what, value):
        nonlocal steps
        steps += what == "line"
        return count

    sys.settrace(count)
    try:
        for at, event in events:
            apply(state, at, event)
    finally:
        sys.settrace(None)
    return steps
