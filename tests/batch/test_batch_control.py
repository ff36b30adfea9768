"""Batches that are paused, and of which pages or documents are cancelled."""

import os
import threading
import time

import pytest
from batch_made import Ran, SlowReader, command, files, kept_pages, pdf, scans

import ocria
from ocria.batch.inputs import find_inputs
from ocria.batch.options import BatchOptions
from ocria.batch.plan import plan
from ocria.batch.run import run_batch
from ocria.document.control import Control
from ocria.document.options import ParseOptions
from ocria.document.reader import Delta
from ocria.events import (
    BatchDone,
    DocumentDone,
    DocumentSkipped,
    DocumentStarted,
    DocumentWritten,
    PageDone,
    PageStarted,
)


@pytest.fixture
def source(tmp_path):
    """Three documents of empty pages, which cost nothing."""
    for name, pages in (("a", 3), ("b", 2), ("c", 1)):
        pdf(tmp_path / "in" / f"{name}.pdf", pages=pages, printed=0)
    return tmp_path / "in"


def cancelled(*places):
    """A control of which some pages (path, number) and documents (path) are cancelled."""
    control = Control()
    for place in places:
        if isinstance(place, tuple):
            control.cancel_page(str(place[0]), place[1])
        else:
            control.cancel_document(str(place))
    return control


class Stepping(SlowReader):
    """A page model that takes the pages in turn."""

    def __init__(self):
        super().__init__()
        self.steps = 0

    def stream(self, images, guesses=None):
        for _ in range(3):
            for index in range(len(images)):
                self.steps += 1
                yield Delta(index, ".")
        return (yield from super().stream(images, guesses))


def test_the_next_run_reads_a_page_that_was_cancelled(source, tmp_path):
    out = tmp_path / "out"
    first = Ran([source], out, cancel=cancelled((source / "a.pdf", 2)))
    assert first.code == 3
    assert [(event.page, event.status) for event in first.of(PageDone)][:3] == [
        (1, "blank"), (2, "cancelled"), (3, "blank")
    ]  # fmt: skip
    assert [event.status for event in first.of(DocumentDone)] == ["partial", "ok", "ok"]
    assert len(first.of(DocumentWritten)) == 3, "what was read is there"
    assert b"page 2 is missing (cancelled)" in files(out)["a.pdf.md"]
    assert [(f.pages, f.status, f.cure) for f in first.tally.failures] == [((2,), "cancelled", "The next run reads it")]
    assert first.events[-1].failed_pages == 1
    assert kept_pages(out) == 2, "those that were read"
    (planned, *rest) = plan(find_inputs([str(source)]).inputs, ParseOptions(mode="text"), BatchOptions(out))
    assert (planned.done, planned.kept, planned.pages) == (None, 2, 3)
    assert [one.done for one in rest] == ["ok", "ok"]
    again = Ran([source], out)
    assert again.read == [("a.pdf", 2)]
    assert again.code == 0
    assert b"cancelled" not in files(out)["a.pdf.md"]
    assert len(again.of(DocumentSkipped)) == 2
    assert Ran([source], out).read == []
    assert kept_pages(out) == 0


def test_a_page_may_be_cancelled_again_and_again(source, tmp_path):
    out = tmp_path / "out"
    for pages in ([1, 2, 3], [2], [2]):
        ran = Ran([source / "a.pdf"], out, cancel=cancelled((source / "a.pdf", 2)))
        assert (ran.read, ran.code) == ([("a.pdf", page) for page in pages], 3)
        assert ran.of(DocumentDone)[0].status == "partial"
        assert [page.status for page in ran.of(DocumentDone)[0].document.pages] == ["blank", "cancelled", "blank"]
    assert Ran([source / "a.pdf"], out, retry_failed=True).read == [("a.pdf", 2)]


def test_the_command_ends_as_partial_and_goes_on(source, tmp_path, monkeypatch):
    """As the app does it, which hands the command's run a control."""
    out = tmp_path / "out"
    control = cancelled((source / "b.pdf", 1), (source / "b.pdf", 2))
    monkeypatch.setattr("ocria.cli.parse_many.cancel_on_signals", lambda said: control)
    assert command(source, "--output-dir", out, "-q").returncode == 3
    monkeypatch.setattr("ocria.cli.parse_one.cancel_on_signals", lambda said: control)
    one = command(source / "b.pdf")
    assert one.returncode == 3
    assert one.stdout.count(b"(cancelled)") == 2
    monkeypatch.undo()
    assert command(source, "--output-dir", out, "-q").returncode == 0


def test_a_queued_document_is_not_begun_and_the_next_one_is(source, tmp_path):
    out = tmp_path / "out"
    ran = Ran([source], out, cancel=cancelled(source / "b.pdf"))
    assert [os.path.basename(event.path) for event in ran.of(DocumentStarted)] == ["a.pdf", "c.pdf"]
    done = ran.of(DocumentDone)
    assert [event.status for event in done] == ["ok", "interrupted", "ok"]
    assert (done[1].path, done[1].document.pages) == (str(source / "b.pdf"), [])
    assert sorted(files(out)) == ["a.pdf.md", "c.pdf.md"]
    assert ran.code == 130
    assert ran.events[-1].interrupted == 1
    assert Ran([source], out).read == [("b.pdf", 1), ("b.pdf", 2)]


def test_a_document_that_runs_is_broken_off_and_resumed(source, tmp_path):
    out, control, events = tmp_path / "out", Control(), []
    inputs = find_inputs([str(source)]).inputs
    options = ParseOptions(mode="text", jobs=0)
    for event in run_batch(inputs, options, BatchOptions(out), cancel=control):
        events.append(event)
        if isinstance(event, PageDone) and event.path.endswith("a.pdf") and event.page == 2:
            control.cancel_document(event.path)
    done = [event for event in events if isinstance(event, DocumentDone)]
    assert [event.status for event in done] == ["interrupted", "ok", "ok"]
    assert [page.index for page in done[0].document.pages] == [1, 2]
    assert events[-1].interrupted == 1
    assert sorted(files(out)) == ["b.pdf.md", "c.pdf.md"]
    assert Ran([source], out).read == [("a.pdf", 3)]


@pytest.mark.parametrize("moment", [PageStarted, Delta])
def test_the_model_lets_go_of_a_document_that_is_cancelled(tmp_path, moment):
    """A stop of the whole run waits for pages that are with the model; this does not."""
    for name in ("a", "b"):
        scans(tmp_path / "in" / f"{name}.pdf", 2)
    control, reader, events = Control(), Stepping(), []
    inputs = find_inputs([str(tmp_path / "in")]).inputs
    for event in run_batch(inputs, ParseOptions(mode="model", jobs=0), reader=reader, cancel=control):
        events.append(event)
        if event.to_dict().get("path", "").endswith("a.pdf") and (
            isinstance(event, moment) or (moment is Delta and reader.steps)
        ):
            control.cancel_document(event.path)
    assert [event.status for event in events if isinstance(event, DocumentDone)] == ["interrupted", "ok"]
    assert reader.asked == 2, "the pages of the other one"
    assert [event.page for event in events if isinstance(event, PageDone)] == [1, 2]


@pytest.mark.parametrize("kind", [DocumentStarted, PageDone, DocumentDone])
def test_a_batch_waits_between_documents_and_pages(source, tmp_path, kind):
    expected, control, events = Ran([source]), Control(), []
    held, hold = threading.Event(), Control.hold

    def watched(self):
        if self.paused:
            held.set()
        return hold(self)

    inputs = find_inputs([str(source)]).inputs

    def run():
        for event in run_batch(inputs, ParseOptions(mode="text", jobs=0), cancel=control):
            events.append(event)
            if isinstance(event, kind) and event.path.endswith("b.pdf"):
                control.pause()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Control, "hold", watched)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        assert held.wait(60)
        count = len(events)
        thread.join(0.1)
        assert len(events) == count
        assert thread.is_alive()
        # Several pauses: the event comes again for each page.
        while thread.is_alive():
            control.resume()
            thread.join(0.01)
    assert isinstance(events[-1], BatchDone)
    assert [type(event) for event in events] == [type(event) for event in expected.events]


def test_a_stop_in_a_pause_finishes_what_the_model_has(tmp_path):
    scans(tmp_path / "in" / "a.pdf", 6)
    control, reader, events = Control(), Stepping(), []
    inputs = find_inputs([str(tmp_path / "in")]).inputs

    def run():
        for event in run_batch(inputs, ParseOptions(mode="model", jobs=0), reader=reader, cancel=control):
            events.append(event)
            if reader.steps == 3:
                control.pause()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive() and not control.paused:
        time.sleep(0.01)
    control.set()
    thread.join(60)
    assert not control.paused
    assert [(event.page, event.status) for event in events if isinstance(event, PageDone)] == [
        (page, "ok") for page in (1, 2, 3, 4)
    ]
    assert [event.status for event in events if isinstance(event, DocumentDone)] == ["interrupted"]


def test_the_model_stops_when_the_time_of_a_document_is_over(tmp_path, monkeypatch):
    """Each document of a batch has the whole time, pauses not counted."""

    class Clock:
        at = 0.0

        def monotonic(self):
            return self.at

    clock = Clock()
    monkeypatch.setattr("ocria.document.control.time", clock)

    class Late(Stepping):
        def stream(self, images, guesses=None):
            for item in super().stream(images, guesses):
                clock.at += 10
                yield item
            raise AssertionError("time ran out before")

    for name in ("a", "b"):
        scans(tmp_path / "in" / f"{name}.pdf", 4)
    ran = Ran([tmp_path / "in"], reader=Late(), mode="model", timeout=35.0)
    assert [(event.status, event.seconds) for event in ran.of(DocumentDone)] == [("failed", 40.0)] * 2
    assert {event.status for event in ran.of(PageDone)} == {"timeout"}


def test_documents_in_python(source):
    paths = [source / f"{name}.pdf" for name in "abc"]
    control = cancelled((paths[0], 3), paths[1])
    documents = list(ocria.parse_many(paths, cancel=control, mode="text", jobs=0))
    assert [document.status for document in documents] == ["partial", "interrupted", "ok"]
    assert [document.path for document in documents] == [str(path) for path in paths]
    assert [page.status for page in documents[0].pages] == ["blank", "blank", "cancelled"]
    assert documents[1].pages == []
    flag = threading.Event()
    flag.set()
    assert list(ocria.parse_many(paths, cancel=flag, mode="text", jobs=0)) == []
