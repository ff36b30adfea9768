"""`ocria.parse_many`."""

import io
import os
import threading

import pytest
from batch_made import LINE, SlowReader, broken_page, pdf, scans

import ocria
from ocria.errors import EncryptedError, InputError, UsageError
from ocria.events import DocumentDone, DocumentFailed, PageDone

OPTIONS = {"mode": "text", "jobs": 0}


def test_documents_come_as_they_finish(tmp_path):
    good, bad = pdf(tmp_path / "a.pdf", "a"), tmp_path / "none.pdf"
    content = broken_page(tmp_path / "b.pdf").read_bytes()
    events = []
    asked = []

    def paths():
        for path in (good, bad, content, io.BytesIO(content), os.fspath(good)):
            asked.append(path)
            yield path

    documents = ocria.parse_many(paths(), on_event=events.append, **OPTIONS)
    first = next(documents)
    assert len(asked) == 1
    assert first.text.split() == LINE.format(1, "a").split()
    rest = list(documents)
    assert [document.status for document in rest] == ["failed", "partial", "partial", "ok"]
    assert isinstance(rest[0].error, InputError)
    assert rest[0].path == str(bad)
    assert rest[0].pages == []
    assert "no such file" in rest[0].markdown
    assert sum(isinstance(event, DocumentDone) for event in events) == 4
    assert [event.exit_code for event in events if isinstance(event, DocumentFailed)] == [4]


def test_options_are_checked_at_once(tmp_path):
    with pytest.raises(UsageError, match="nonsense"):
        ocria.parse_many([], nonsense=1)
    with pytest.raises(UsageError):
        ocria.parse_many([], mode="fast")
    with pytest.raises(UsageError, match="reversed"):
        ocria.parse_many([], pages="3-1")
    with pytest.raises(UsageError, match=r"ocria\.parse"):
        ocria.parse_many("a.pdf")
    assert list(ocria.parse_many([])) == []


def test_a_password_is_for_all(tmp_path):
    import pymupdf

    options = {"encryption": pymupdf.PDF_ENCRYPT_AES_256, "user_pw": "x", "owner_pw": "y", "printed": 0}
    paths = [pdf(tmp_path / f"{n}.pdf", **options) for n in range(2)]
    assert [type(d.error) for d in ocria.parse_many(paths, **OPTIONS)] == [EncryptedError, EncryptedError]
    assert [d.status for d in ocria.parse_many(paths, password="x", **OPTIONS)] == ["ok", "ok"]


def test_what_the_caller_raises_is_the_callers(tmp_path):
    def raising(event):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(ocria.parse_many([pdf(tmp_path / "a.pdf", printed=0)], on_event=raising, **OPTIONS))


def test_a_cancelled_run_ends_with_the_document_it_is_at(tmp_path):
    paths = [pdf(tmp_path / f"{n}.pdf", pages=5, printed=0) for n in range(3)]
    cancel = threading.Event()

    def on_event(event):
        if isinstance(event, PageDone) and event.path == str(paths[1]) and event.page == 2:
            cancel.set()

    documents = list(ocria.parse_many(paths, on_event=on_event, cancel=cancel, **OPTIONS))
    assert [document.status for document in documents] == ["ok", "interrupted"]
    assert len(documents[1].pages) == 2


def test_pages_that_are_with_the_model_are_finished(tmp_path):
    cancel = threading.Event()
    reader = SlowReader(cancel)
    path = scans(tmp_path / "a.pdf", 9)
    (document,) = ocria.parse_many([path, path], reader=reader, cancel=cancel, mode="model", jobs=0)
    assert document.status == "interrupted"
    assert 0 < len(document.pages) == reader.asked < 9
    assert all(page.text.startswith("read") for page in document.pages)


def test_one_reader_for_all(tmp_path):
    reader = SlowReader()
    paths = [scans(tmp_path / f"{n}.pdf", 2) for n in range(2)]
    documents = list(ocria.parse_many(paths, reader=reader, mode="model", jobs=0))
    assert [document.status for document in documents] == ["ok", "ok"]
    assert reader.asked == 4
    assert documents[1].model == SlowReader.model
