"""A live session: the engine's process reads what it is given, with the model that ships with ocria."""

import json
import os
import random
import time
from pathlib import Path

import pytest
from ocria_tui.live import LiveSession
from ocria_tui.messages import DocumentCancelled, DocumentQueued, Exported, PageImage, PausedChanged, Refused
from PIL import Image
from sessions_made import MANY, PATIENCE_S, Watched, below, pdf

from ocria.errors import UsageError
from ocria.events import (
    DocumentDone,
    DocumentFailed,
    DocumentStarted,
    DocumentWritten,
    Note,
    PageDone,
    TextDelta,
)

FORMATS = ("md", "html", "json", "jsonl", "text", "pdf")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("live")


@pytest.fixture(scope="module")
def session(folder):
    """One for all tests: its model is loaded once."""
    session = LiveSession([], {"mode": "model", "output_dir": folder / "out", "threads": 1})
    session.start()
    yield Watched(session)
    session.close()


def is_answer(kind, path):
    return lambda event: isinstance(event, kind) and event.path == path


def test_a_document_is_read_and_written_and_its_pages_are_there_when_it_is_opened_again(session, folder):
    path = pdf(folder / "a.pdf", 3)
    session.open([path])
    assert session.ended(path, 0).status == "ok"
    told = [e for e in session.events if getattr(e, "path", None) == path]
    assert told[:3] == [DocumentQueued(path), DocumentQueued(path, (1, 2, 3)), DocumentStarted(path, 3)]
    pages = {page.page: page.markdown for page in session.of(PageDone)}
    assert sorted(pages) == [1, 2, 3]
    for number, text in pages.items():
        streamed = "".join(e.text for e in session.of(TextDelta) if e.page == number)
        assert streamed.strip() == text.strip() != ""
    (written,) = session.of(DocumentWritten)
    (output,) = written.outputs
    assert output == str(folder / "out" / "a.pdf.md")
    assert all(text.strip() in Path(output).read_text() for text in pages.values())

    since, asked = session.mark(), session.asked()
    session.open([path])
    assert session.ended(path, since).status == "ok"
    assert {page.page: page.markdown for page in session.of(PageDone, since)} == pages
    assert session.asked() == asked, "what is kept is not read again"

    since = session.mark()
    session.retry(path, [2])
    assert session.ended(path, since).status == "ok"
    assert session.of(DocumentQueued, since) == [DocumentQueued(path, (2,))] * 2
    assert session.started(since) == [2]
    assert [page.page for page in session.of(PageDone, since)] == [2]
    assert session.asked(since) == 1

    since = session.mark()
    session.retry(path, options={"dpi": 150})
    assert session.ended(path, since).status == "ok"
    assert session.started(since) == [1, 2, 3]
    assert session.of(Note, since, None) is not None
    assert not [note for note in session.of(Note, since) if "loading" in note.message], "the same model serves"


def test_a_document_that_was_given_up_keeps_its_pages_and_can_be_exported(session, folder):
    path = pdf(folder / "long.pdf", MANY)
    since = session.mark()
    session.open([path])
    session.page_done(path, since)
    session.cancel(path)
    session.until(is_answer(DocumentCancelled, path), since)
    assert [done.status for done in session.of(DocumentDone, since, path)] == ["interrupted"]
    kept = {page.page: page.markdown for page in session.of(PageDone, since, path)}
    assert 0 < len(kept) < MANY
    assert not session.of(DocumentWritten, since, path)

    for kind in FORMATS:
        session.export(path, [kind], str(folder / "unfinished") + os.sep)
    for _ in FORMATS:
        session.until(is_answer(Exported, path), since)
        since += 1 + session.events[since:].index(next(e for e in session.events[since:] if isinstance(e, Exported)))
    files = below(folder / "unfinished")
    assert [os.path.basename(file) for file in files] == [
        f"long.pdf.{suffix}" for suffix in ("html", "json", "jsonl", "md", "pdf", "txt")
    ]
    data = json.loads(Path(folder / "unfinished" / "long.pdf.json").read_text())
    assert [page["index"] for page in data["pages"]] == sorted(kept)
    assert all(text.strip() in Path(folder / "unfinished" / "long.pdf.md").read_text() for text in kept.values())

    since = session.mark()
    session.open([path])
    assert session.ended(path, since).status == "ok"
    assert sorted(session.started(since)) == [number for number in range(1, MANY + 1) if number not in kept]
    assert {page.page for page in session.of(PageDone, since, path)} == set(range(1, MANY + 1))


def test_a_page_that_was_given_up_is_read_when_the_document_is_opened_again(session, folder):
    path = pdf(folder / "page.pdf", 2)
    since = session.mark()
    session.pause()
    session.open([path])
    session.until(is_answer(DocumentQueued, path), since)
    session.cancel(path, 2)
    session.until(lambda e: isinstance(e, Note) and (e.path, e.page) == (path, 2), since)
    session.resume()
    assert session.ended(path, since).status == "partial"
    assert {page.page: page.status for page in session.of(PageDone, since)} == {1: "ok", 2: "cancelled"}
    since = session.mark()
    session.open([path])
    assert session.ended(path, since).status == "ok"
    assert session.started(since) == [2]


def test_nothing_begins_while_it_is_paused(session, folder):
    first, second = pdf(folder / "first.pdf"), pdf(folder / "second.pdf")
    since = session.mark()
    session.pause()
    session.open([first, second])
    session.until(is_answer(DocumentQueued, second), since)
    session.cancel(first)
    session.until(is_answer(DocumentCancelled, first), since)
    session.draw(second, 1, 100)  # it is slower than the beginning of a document would be
    session.until(is_answer(PageImage, second), since)
    assert not session.of(DocumentStarted, since)
    session.resume()
    assert session.ended(second, since).status == "ok"
    assert [event.paused for event in session.of(PausedChanged, since)] == [True, False]
    assert not session.of(DocumentStarted, since, first)


def test_a_pause_in_the_middle_of_a_document_loses_nothing(session, folder):
    path = pdf(folder / "paused.pdf", MANY)
    since = session.mark()
    session.open([path])
    session.page_done(path, since)
    session.pause()
    session.until(lambda e: e == PausedChanged(True), since)
    end, quiet = time.monotonic() + PATIENCE_S, 0
    while quiet < 10:  # what is under way may end
        time.sleep(0.1)
        quiet = 0 if session.look() else quiet + 1
        assert time.monotonic() < end
    assert not session.of(DocumentDone, since)
    assert len(session.of(PageDone, since)) < MANY
    session.resume()
    assert session.ended(path, since).status == "ok"
    assert sorted(page.page for page in session.of(PageDone, since)) == list(range(1, MANY + 1))


def test_folders_patterns_and_what_is_in_the_queue_already(session, folder):
    inside = folder / "inside"
    inside.mkdir()
    for name in ("b.pdf", "a10.pdf", "a2.pdf"):
        pdf(inside / name)
    (inside / "notes.xyz").write_text("no document")
    since = session.mark()
    session.pause()
    session.open([str(inside)], {"mode": "text"})
    session.until(is_answer(DocumentQueued, str(inside / "b.pdf")), since)
    assert [e.path for e in session.of(DocumentQueued, since)] == [
        str(inside / name) for name in ("a2.pdf", "a10.pdf", "b.pdf")
    ]
    session.open([str(inside / "a*.pdf")])
    session.until(is_answer(Refused, str(inside / "a10.pdf")), since)
    session.cancel()
    session.until(is_answer(DocumentCancelled, str(inside / "b.pdf")), since)
    assert len(session.of(DocumentCancelled, since)) == 3
    session.cancel()
    session.until(is_answer(Refused, None), since)
    session.resume()


def test_pages_are_drawn(session, folder):
    path = pdf(folder / "drawn.pdf", 2)
    since = session.mark()
    session.draw(path, 2, 333)
    image = session.until(is_answer(PageImage, path), since)
    assert (image.page, image.width, image.height) == (2, 150, 80)
    with Image.open(image.file) as picture:
        assert picture.format == "PNG"
        assert picture.width == 333
        assert abs(picture.height - 333 * 80 / 150) <= 2, "pixels are rounded up when a page is drawn"
        assert picture.convert("L").getextrema() == (0, 255) or picture.convert("L").getextrema()[0] < 64
    scan = folder / "scan.png"
    Image.new("RGB", (640, 320), "white").save(scan)
    session.draw(str(scan), 1, 100)
    image = session.until(is_answer(PageImage, str(scan)), since)
    with Image.open(image.file) as picture:
        assert picture.size == (100, 50)


def test_what_stands_there_is_not_replaced(session, folder):
    path = pdf(folder / "safe.pdf")
    since = session.mark()
    session.open([path], {"mode": "text"})
    session.ended(path, since)
    target = folder / "mine.md"
    target.write_text("mine")
    session.export(path, ["md"], str(target))
    refused = session.until(is_answer(Refused, path), since)
    assert refused.cure
    assert target.read_text() == "mine"
    since = session.mark()
    free = folder / "free.md"
    for _ in range(2):  # its own it may replace
        session.export(path, ["md"], str(free))
        assert session.until(is_answer(Exported, path), since).outputs == (str(free),)
        since = session.mark()
    free.write_text(free.read_text() + "and mine")
    session.export(path, ["md"], str(free))
    session.until(is_answer(Refused, path), since)
    assert free.read_text().endswith("and mine")
    since = session.mark()
    session.export(path, ["pdf"], path)
    session.until(is_answer(Refused, path), since)


def test_what_cannot_be_done_is_refused_and_what_is_wrong_with_a_document_is_told(session, folder):
    gone, broken, path = str(folder / "gone.pdf"), str(folder / "broken.pdf"), pdf(folder / "c.pdf")
    Path(broken).write_bytes(b"%PDF-1.4 nothing")
    commands = [
        lambda: session.open([str(folder / "no*such.pdf")]),
        lambda: session.open([path], {"mode": "guess"}),
        lambda: session.open([path], {"colour": 1}),
        lambda: session.open(["-"]),
        lambda: session.set_options({"dpi": 7}),
        lambda: session.cancel(path),
        lambda: session.cancel(path, 1),
        lambda: session.retry(path),
        lambda: session.draw(gone, 1, 100),
        lambda: session.draw(path, 2, 100),
        lambda: session.export(path, ["md"], str(folder / "x.md")),
    ]
    for command in commands:
        since = session.mark()
        command()
        session.until(lambda e: isinstance(e, Refused), since)
    since = session.mark()
    session.open([gone, broken], {"mode": "text"})
    assert session.ended(broken, since)
    assert {e.path for e in session.of(DocumentFailed, since)} == {gone, broken}
    since = session.mark()
    session.open([path])
    session.ended(path, since)
    for pages in ([], [0], [2]):
        since = session.mark()
        session.retry(path, pages)
        session.until(is_answer(Refused, path), since)
    since = session.mark()
    session.export(path, ["docx"], str(folder / "x"))
    session.until(is_answer(Refused, path), since)


def test_a_model_that_is_not_there_fails_its_documents_alone(session, folder):
    path = pdf(folder / "other.pdf")
    since = session.mark()
    session.open([path], {"model": str(folder / "no-model")})
    failed = session.ended(path, since)
    assert isinstance(failed, DocumentFailed)
    assert failed.exit_code == 7
    since = session.mark()
    session.open([path])
    assert session.ended(path, since).status == "ok"
    assert [note for note in session.of(Note, since) if "is loaded" in note.message]


def test_options_hold_for_what_is_opened_later(session, folder):
    path = pdf(folder / "later.pdf")
    before = dict(session.options)
    since = session.mark()
    session.set_options({"formats": ["text", "html"], "mode": "text"})
    assert session.options == {**before, "formats": ["text", "html"], "mode": "text"}
    session.open([path])
    session.ended(path, since)
    (written,) = session.of(DocumentWritten, since)
    assert sorted(Path(name).suffix for name in written.outputs) == [".html", ".txt"]
    session.set_options({"formats": ["md"], "mode": "model"})


def test_commands_in_any_order_leave_nothing_half_done(session, folder):
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    paths = [pdf(folder / f"any{number}.pdf", rng.randrange(1, 4)) for number in range(3)]
    begin = session.mark()
    for _ in range(40):
        _any_command(session, rng, rng.choice(paths), rng.randrange(1, 5), folder)
        if rng.random() < 0.3:
            time.sleep(rng.random() / 2)
    session.resume()
    since = session.mark()
    last = pdf(folder / "last.pdf")
    session.open([last], {"mode": "text"})
    session.ended(last, since)
    queued, over = {}, {}
    for place, event in enumerate(session.events[begin:]):
        if isinstance(event, DocumentQueued):
            queued[event.path] = place
        elif isinstance(event, (DocumentDone, DocumentFailed, DocumentCancelled)):
            over[event.path] = place
    assert all(over[path] > queued[path] for path in queued), f"seed {seed}: {session.events[begin:]}"
    for path in paths:
        since = session.mark()
        session.open([path])
        assert session.ended(path, since).status == "ok", seed
        assert Path(folder / "out" / f"{Path(path).name}.md").is_file(), seed


def _any_command(session, rng, path, page, folder):
    match rng.randrange(10):
        case 0 | 1 | 2:
            session.open([path], {"mode": rng.choice(["text", "text", "model"])})
        case 3:
            session.pause()
        case 4:
            session.resume()
        case 5:
            session.cancel(path)
        case 6:
            session.cancel(path, page)
        case 7:
            session.retry(path, rng.choice([None, [page]]))
        case 8:
            session.export(path, ["md"], str(folder / f"any{page}.md"))
        case 9:
            session.cancel()


@pytest.mark.parametrize("options", [{"mode": "guess"}, {"nonsense": 1}, {"formats": ["docx"]}, {"formats": "md"}])
def test_options_that_cannot_be_met_start_no_process(options):
    with pytest.raises(UsageError):
        LiveSession([], options)
