"""Runs over several documents in this process: what is skipped, redone, refused and counted."""

import io
import json
import os
import random
import sys
import threading

import pymupdf
import pytest
from batch_made import LINE, Ran, SlowReader, broken_page, debris, files, kept_pages, pdf, scans

from ocria.batch import outputs as outputs_module
from ocria.errors import EngineError, OutputError, UsageError
from ocria.events import (
    BatchDone,
    BatchStarted,
    DocumentDone,
    DocumentFailed,
    DocumentSkipped,
    DocumentStarted,
    DocumentWritten,
    Note,
    PageDone,
)


@pytest.fixture
def folder(tmp_path):
    """Two good documents, a damaged one and a locked one."""
    pdf(tmp_path / "in" / "a.pdf", "a", pages=3)
    pdf(tmp_path / "in" / "sub" / "b.pdf", "b")
    (tmp_path / "in" / "bad.pdf").write_bytes(b"no PDF at all")
    encryption = {"encryption": pymupdf.PDF_ENCRYPT_AES_256, "user_pw": "se cret", "owner_pw": "o"}
    pdf(tmp_path / "in" / "locked.pdf", "c", **encryption)
    return tmp_path


def test_bad_files_among_good_ones(folder):
    ran = Ran([folder / "in"], folder / "out", formats=("md", "json"))
    assert ran.code == 1
    assert isinstance(ran.events[0], BatchStarted)
    assert ran.events[0].documents == 4
    assert [(event.position, event.documents) for event in ran.of(DocumentStarted)] == [(1, 4), (4, 4)]
    failed = {os.path.basename(event.path): event.exit_code for event in ran.of(DocumentFailed)}
    assert failed == {"bad.pdf": 4, "locked.pdf": 5}
    written = files(folder / "out")
    assert sorted(written) == ["a.pdf.json", "a.pdf.md", "sub/b.pdf.json", "sub/b.pdf.md"]
    assert written["sub/b.pdf.md"].decode().split() == LINE.format(1, "b").split()
    assert [len(event.outputs) for event in ran.of(DocumentWritten)] == [2, 2]
    done = ran.events[-1]
    assert isinstance(done, BatchDone)
    assert (done.ok, done.partial, done.failed, done.skipped, done.interrupted) == (2, 0, 2, 0, 0)
    assert (done.pages, done.failed_pages) == (4, 0)
    assert kept_pages(folder / "out") == 0
    assert not debris(folder)
    # What another password may cure is tried again, the rest is reported again.
    again = Ran([folder / "in"], folder / "out", formats=("md", "json"))
    assert (again.code, again.read) == (1, [])
    assert {os.path.basename(event.path): event.status for event in again.of(DocumentSkipped)} == {
        "a.pdf": "ok", "b.pdf": "ok", "bad.pdf": "failed"
    }  # fmt: skip
    assert len(again.tally.failures) == 2
    opened = Ran([folder / "in"], folder / "out", formats=("md", "json"), password="se cret")
    assert opened.read == [("locked.pdf", 1)]
    assert files(folder / "out").keys() >= {"locked.pdf.md"}


def test_what_has_changed_is_redone_and_nothing_else(tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    pdf(source / "a.pdf", pages=3, printed=0)
    pdf(source / "sub" / "b.pdf", printed=0)
    (source / "bad.pdf").write_bytes(b"no PDF at all")
    assert len(Ran([source], out).read) == 4
    assert Ran([source], out).read == []
    content = (source / "a.pdf").read_bytes()
    (source / "a.pdf").write_bytes(content)  # the same once more: only its time stamps have changed
    assert Ran([source], out).read == []
    pdf(source / "a.pdf", "new", pages=2)
    assert Ran([source], out).read == [("a.pdf", 1), ("a.pdf", 2)]
    assert b"new" in files(out)["a.pdf.md"]
    (out / "sub" / "b.pdf.md").unlink()
    assert Ran([source], out).read == [("b.pdf", 1)]
    assert Ran([source], out, page_markers=True).read == [("a.pdf", 1), ("a.pdf", 2), ("b.pdf", 1)]
    assert Ran([source], out, page_markers=True, draft="none", timeout=99.0, threads=1).read == []
    assert len(Ran([source], out, page_markers=True, pages="1").read) == 2
    assert len(Ran([source], out, formats=("json",), pages="1", page_markers=True).read) == 2
    assert len(Ran([source], out, resume=False).read) == 3
    pdf(source / "0.pdf", printed=0)
    assert Ran([source], out).read == [("0.pdf", 1)]


def test_another_model_reads_again(tmp_path):
    class Reader:
        unit, dialect, box_scale = "line", "text", None

        def __init__(self, version):
            from ocria.document.result import ModelInfo

            self.model = ModelInfo("some", version)

        def stream(self, images, guesses=None):
            raise AssertionError("no page needs it")
            yield

    pdf(tmp_path / "a.pdf", printed=0)
    first, second = Reader("1"), Reader("2")
    run = [tmp_path / "a.pdf"], tmp_path / "out"
    assert Ran(*run, reader=first, mode="auto").read == [("a.pdf", 1)]
    assert Ran(*run, reader=first, mode="auto").read == []
    assert Ran(*run, reader=second, mode="auto").read == [("a.pdf", 1)]


def test_files_that_ocria_did_not_write_are_left_alone(folder):
    source, out = folder / "in", folder / "out"
    (out / "sub").mkdir(parents=True)
    (out / "sub" / "b.pdf.md").write_bytes(b"mine")
    ran = Ran([source], out)
    (refused,) = [event for event in ran.of(DocumentFailed) if event.exit_code == 6]
    assert refused.path.endswith("b.pdf")
    assert "--overwrite" in refused.cure
    assert files(out)["sub/b.pdf.md"] == b"mine"
    assert "a.pdf.md" in files(out)
    assert ("b.pdf", 1) not in ran.read  # refused before the work, not after it
    (out / "a.pdf.md").write_bytes(b"edited")
    ran = Ran([source], out)
    assert len([event for event in ran.of(DocumentFailed) if event.exit_code == 6]) == 2
    assert files(out)["a.pdf.md"] == b"edited"
    assert Ran([source], out, fail_on="never").code == 6
    ran = Ran([source], out, overwrite=True)
    assert len(ran.of(DocumentWritten)) == 2
    assert LINE.format(1, "b").split()[0].encode() in files(out)["sub/b.pdf.md"]


def test_failed_pages_are_kept_apart_and_retried(tmp_path, monkeypatch):
    broken_page(tmp_path / "in" / "a.pdf", pages=4, broken=2)
    (tmp_path / "in" / "bad.pdf").write_bytes(b"no PDF")
    run = [tmp_path / "in"], tmp_path / "out"
    first = Ran(*run)
    assert first.code == 1
    assert (first.events[-1].partial, first.events[-1].failed_pages) == (1, 1)
    assert kept_pages(tmp_path / "out") == 4
    before = files(tmp_path / "out")
    plain = Ran(*run)
    assert (plain.code, plain.read) == (1, [])
    assert any("page 2" in failure.why and "earlier" in failure.why for failure in plain.tally.failures)
    retried = Ran(*run, retry_failed=True)
    assert (retried.code, retried.read) == (1, [("a.pdf", 2)])
    assert files(tmp_path / "out") == before
    # What was only a passing fault is cured: the file stays as it is, and the page can be read now.
    from ocria.document import assemble

    monkeypatch.setattr(assemble, "_blank", lambda page, facts: setattr(page, "status", "blank"))
    cured = Ran(*run, retry_failed=True)
    assert cured.read == [("a.pdf", 2)]
    (document,) = [event.document for event in cured.of(DocumentDone)]
    assert [page.status for page in document.pages][1] == "blank"
    assert [page.index for page in document.pages] == [1, 2, 3, 4]
    assert kept_pages(tmp_path / "out") == 0
    assert {event.status for event in Ran(*run, retry_failed=True).of(DocumentSkipped)} == {"ok"}


@pytest.mark.parametrize(("fail_on", "code"), [("partial", 3), ("failure", 0), ("never", 0)])
def test_what_a_partial_document_gives(tmp_path, fail_on, code):
    broken_page(tmp_path / "in" / "a.pdf")
    pdf(tmp_path / "in" / "b.pdf", printed=0)
    assert Ran([tmp_path / "in"], tmp_path / "out", fail_on=fail_on).code == code
    (tmp_path / "in" / "c.pdf").write_bytes(b"no PDF")
    assert Ran([tmp_path / "in"], tmp_path / "out", fail_on=fail_on).code == (0 if fail_on == "never" else 1)


def test_one_document_gives_its_own_code(tmp_path):
    assert Ran([tmp_path / "none.pdf"], tmp_path / "out").code == 4
    broken_page(tmp_path / "a.pdf")
    assert Ran([tmp_path / "a.pdf"], tmp_path / "out").code == 3
    assert Ran([tmp_path / "a.pdf"], tmp_path / "out").code == 3
    assert Ran([tmp_path / "a.pdf"], tmp_path / "out", pages="9").code == 2


def test_pages_that_one_document_has_not(folder):
    ran = Ran([folder / "in"], folder / "out", pages="2-3", password="se cret")
    assert {os.path.basename(event.path): event.exit_code for event in ran.of(DocumentFailed)} == {
        "bad.pdf": 4, "locked.pdf": 2, "b.pdf": 2
    }  # fmt: skip
    assert ran.read == [("a.pdf", 2), ("a.pdf", 3)]


def test_documents_that_were_moved_together_are_still_done(tmp_path):
    pdf(tmp_path / "one" / "in" / "a.pdf", printed=0)
    Ran([tmp_path / "one" / "in"], tmp_path / "one" / "out")
    (tmp_path / "one").rename(tmp_path / "two")
    assert Ran([tmp_path / "two" / "in"], tmp_path / "two" / "out").read == []


def test_outputs_beside_the_inputs(tmp_path):
    pdf(tmp_path / "a.pdf", printed=0)
    assert Ran([tmp_path], tmp_path).read == [("a.pdf", 1)]
    again = Ran([tmp_path], tmp_path)
    assert [os.path.basename(event.path) for event in again.of(DocumentSkipped)] == ["a.pdf"]
    assert len(again.events) == 3
    elsewhere = Ran([tmp_path], tmp_path / "other")
    assert elsewhere.read == [("a.pdf", 1)]


def test_names_that_differ_in_case_alone_keep_their_outputs_apart(tmp_path):
    pdf(tmp_path / "in" / "a.pdf", "small")
    Ran([tmp_path / "in"], tmp_path / "out")
    pdf(tmp_path / "in" / "A.pdf", "large")
    if len(list((tmp_path / "in").iterdir())) < 2:
        pytest.skip("this disk is blind to case")
    ran = Ran([tmp_path / "in"], tmp_path / "out")
    assert ran.read == [("A.pdf", 1)]
    written = files(tmp_path / "out")
    assert b"small" in written.pop("a.pdf.md")
    ((name, content),) = written.items()
    assert name.startswith("A~")
    assert b"large" in content
    assert Ran([tmp_path / "in"], tmp_path / "out").read == []


def test_weird_and_long_names(tmp_path):
    names = [b"a\nb.pdf", b"caf\xe9.pdf", b"q'\"`$(x) #1?.pdf", b"x" * 240 + b".PDF", "文".encode() * 80 + b".pdf"]
    content = pdf(tmp_path / "plain.pdf", printed=0).read_bytes()
    (tmp_path / "in").mkdir()
    for name in names:
        with open(os.path.join(os.fsencode(tmp_path / "in"), name), "wb") as file:
            file.write(content)
    ran = Ran([tmp_path / "in"], tmp_path / "out", formats=("md", "json"))
    assert ran.code == 0
    assert len(files(tmp_path / "out")) == 2 * len(names)
    assert os.path.exists(os.path.join(os.fsencode(tmp_path / "out"), b"caf\xe9.pdf.md"))
    assert Ran([tmp_path / "in"], tmp_path / "out", formats=("md", "json")).read == []


def test_a_half_done_document_goes_on_where_it_was(tmp_path):
    """Cancelled at a random page, then continued: what comes is what an uninterrupted run gives."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    with pymupdf.open() as document:
        for number in range(1, 5):
            page = document.new_page(width=300, height=300)
            page.insert_text((20, 40), f"Heading {number}", fontsize=22 - 4 * (number % 2), fontname="hebo")
            page.insert_text((20, 90), LINE.format(number, "h"), fontsize=9)
        document.save(tmp_path / "a.pdf")
    Ran([tmp_path / "a.pdf"], tmp_path / "whole", formats=("md", "json"))
    last = random.Random(seed).randint(1, 3)
    cancel = threading.Event()

    from ocria.batch.inputs import find_inputs
    from ocria.batch.options import BatchOptions
    from ocria.batch.run import run_batch
    from ocria.batch.tally import Tally
    from ocria.document.options import ParseOptions

    tally = Tally(1)
    options = ParseOptions(mode="text", jobs=0), BatchOptions(tmp_path / "out", formats=("md", "json"))
    for event in run_batch(find_inputs([str(tmp_path / "a.pdf")]).inputs, *options, cancel=cancel, tally=tally):
        if isinstance(event, PageDone) and event.page == last:
            cancel.set()
    assert tally.exit_code() == 130
    assert event.interrupted == 1
    assert files(tmp_path / "out") == {}
    assert kept_pages(tmp_path / "out") == last
    ran = Ran([tmp_path / "a.pdf"], tmp_path / "out", formats=("md", "json"))
    assert ran.read == [("a.pdf", number) for number in range(last + 1, 5)]
    assert any("kept from an earlier run" in event.message for event in ran.of(Note))
    assert kept_pages(tmp_path / "out") == 0
    assert files(tmp_path / "out")["a.pdf.md"] == files(tmp_path / "whole")["a.pdf.md"]
    one, other = (json.loads(files(tmp_path / name)["a.pdf.json"]) for name in ("whole", "out"))
    for data in (one, other):
        data.pop("seconds")
        for page in data["pages"]:
            page.pop("seconds")
    assert one == other


def test_pages_that_a_model_read_are_not_read_again(tmp_path):
    path = scans(tmp_path / "a.pdf", 6)
    cancel = threading.Event()
    options = {"mode": "model", "formats": ("json",)}
    first = Ran([path], tmp_path / "out", reader=(reader := SlowReader(cancel)), cancel=cancel, **options)
    assert first.code == 130
    assert 0 < reader.asked < 6
    assert kept_pages(tmp_path / "out") == reader.asked  # those that were with the model were finished and kept
    again = Ran([path], tmp_path / "out", reader=(second := SlowReader()), **options)
    assert again.code == 0
    assert reader.asked + second.asked == 6
    document = json.loads(files(tmp_path / "out")["a.pdf.json"])
    assert document["model"] == {"name": "slow", "version": "1"}
    assert [page["index"] for page in document["pages"]] == [1, 2, 3, 4, 5, 6]
    assert all("read" in page["blocks"][0]["text"] for page in document["pages"])


def test_pages_of_another_state_of_the_file_are_forgotten(tmp_path):
    broken_page(tmp_path / "a.pdf", pages=3)
    Ran([tmp_path / "a.pdf"], tmp_path / "out")
    assert kept_pages(tmp_path / "out") == 3
    broken_page(tmp_path / "a.pdf", pages=5)
    assert len(Ran([tmp_path / "a.pdf"], tmp_path / "out").read) == 5
    assert kept_pages(tmp_path / "out") == 5
    pdf(tmp_path / "a.pdf", printed=0)
    assert len(Ran([tmp_path / "a.pdf"], tmp_path / "out").read) == 1
    assert kept_pages(tmp_path / "out") == 0


def test_a_folder_that_cannot_be_written(tmp_path):
    pdf(tmp_path / "a.pdf", printed=0)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match="cannot be written"):
        Ran([tmp_path / "a.pdf"], tmp_path / "file" / "out")


def test_an_output_in_whose_way_a_folder_stands_fails_alone(tmp_path):
    pdf(tmp_path / "in" / "a.pdf", printed=0)
    pdf(tmp_path / "in" / "b.pdf", printed=0)
    (tmp_path / "out" / "a.pdf.md").mkdir(parents=True)
    ran = Ran([tmp_path / "in"], tmp_path / "out", overwrite=True)
    (failed,) = ran.of(DocumentFailed)
    assert failed.exit_code == 6
    assert list(files(tmp_path / "out")) == ["b.pdf.md"]


def test_a_full_disk_ends_the_run_and_loses_nothing(tmp_path, monkeypatch):
    for name in ("a", "b", "c"):
        pdf(tmp_path / "in" / f"{name}.pdf", printed=0)
    from ocria.document import write

    real, calls = write.write_atomically, []

    def full(path, content):
        calls.append(path)
        if len(calls) > 1:
            raise OutputError("cannot be written", path=path) from OSError(28, "No space left on device")
        real(path, content)

    monkeypatch.setattr(write, "write_atomically", full)
    with pytest.raises(OutputError) as caught:
        Ran([tmp_path / "in"], tmp_path / "out")
    assert caught.value.exit_code == 6
    assert list(files(tmp_path / "out")) == ["a.pdf.md"]
    monkeypatch.undo()
    ran = Ran([tmp_path / "in"], tmp_path / "out")
    assert ran.read == [("c.pdf", 1)]  # the page of b was kept
    assert len(files(tmp_path / "out")) == 3


def test_debris_of_a_killed_run_is_swept(tmp_path):
    pdf(tmp_path / "in" / "sub" / "a.pdf", printed=0)
    Ran([tmp_path / "in"], tmp_path / "out")
    from ocria.batch.manifest import Manifest

    manifest = Manifest(tmp_path / "out")
    manifest.announce("../in/sub/a.pdf", {"sub/a.pdf.md": "0" * 64})
    manifest.close()
    left = tmp_path / "out" / "sub" / ".ocria-abc.tmp"
    left.write_bytes(b"half")
    other = tmp_path / "out" / "mine.tmp"
    other.write_bytes(b"whole")
    assert Ran([tmp_path / "in"], tmp_path / "out").code == 0
    assert not left.exists()
    assert other.exists()


def test_errors_of_the_engine_end_the_run(tmp_path, monkeypatch):
    pdf(tmp_path / "in" / "a.pdf")
    pdf(tmp_path / "in" / "b.pdf")
    with pytest.raises(EngineError):
        Ran([tmp_path / "in"], tmp_path / "out", mode="model", model=str(tmp_path / "none"))
    assert files(tmp_path / "out") == {}


def test_a_fault_of_ours_over_one_file_ends_that_file(tmp_path, monkeypatch):
    pdf(tmp_path / "in" / "a.pdf", printed=0)
    pdf(tmp_path / "in" / "b.pdf", printed=0)
    from ocria.document import source

    real = source.open_source

    def open_source(data, *arguments, **options):
        if str(data).endswith("a.pdf"):
            raise ZeroDivisionError("oh")
        return real(data, *arguments, **options)

    monkeypatch.setattr(source, "open_source", open_source)
    ran = Ran([tmp_path / "in"], tmp_path / "out")
    (failed,) = ran.of(DocumentFailed)
    assert failed.message == "unexpected ZeroDivisionError: oh"
    assert list(files(tmp_path / "out")) == ["b.pdf.md"]


def test_standard_input_into_a_folder(tmp_path, monkeypatch):
    content = pdf(tmp_path / "a.pdf", "in").read_bytes()
    for _ in range(2):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert Ran(["-"], tmp_path / "out").code == 0
    assert list(files(tmp_path / "out")) == ["stdin.md"]


def test_options_that_exclude_each_other(tmp_path):
    pdf(tmp_path / "a.pdf", printed=0)
    for options in ({"formats": ("odt",)}, {"retry_failed": True, "resume": False}):
        with pytest.raises(UsageError):
            Ran([tmp_path / "a.pdf"], tmp_path / "out", **options)
    with pytest.raises(UsageError):
        Ran([tmp_path / "a.pdf"], None, retry_failed=True)
    assert not (tmp_path / "out").exists()


def test_an_output_that_appears_meanwhile_is_not_replaced(tmp_path, monkeypatch):
    pdf(tmp_path / "a.pdf", printed=0)
    real = outputs_module.contents

    def contents(*arguments):
        (tmp_path / "out" / "a.pdf.md").write_bytes(b"mine")
        return real(*arguments)

    from ocria.batch import folder

    monkeypatch.setattr(folder, "contents", contents)
    ran = Ran([tmp_path / "a.pdf"], tmp_path / "out")
    assert [event.exit_code for event in ran.of(DocumentFailed)] == [6]
    assert files(tmp_path / "out") == {"a.pdf.md": b"mine"}
