"""What a document becomes in a folder."""

import hashlib

import pytest

from ocria.batch.manifest import FOLDER, Manifest
from ocria.batch.options import BatchOptions
from ocria.batch.outputs import contents, write_all
from ocria.batch.summary import failure_table, summary_line
from ocria.batch.tally import Failure, worst_code
from ocria.document.options import ParseOptions
from ocria.document.result import Block, Document, Page, Picture
from ocria.errors import OutputError
from ocria.events import BatchDone


@pytest.fixture
def document():
    figure = Block("picture", (0.0, 0.0, 9.0, 9.0), "", "", 0, picture=Picture(b"pixels", "image/png", 1, 1))
    page = Page(3, "ok", 100.0, 100.0, 0, "model", "mode model", blocks=[figure])
    return Document("in/a (1).pdf", 3, "0" * 64, [page])


def test_figures_lie_beside_their_document(document, tmp_path):
    options, batch = ParseOptions(images="extract"), BatchOptions(tmp_path, formats=("md", "html"))
    files = contents(document, "sub/a (1).pdf", options, batch, None)
    assert list(files) == ["sub/a (1).pdf.images/p3-1.png", "sub/a (1).pdf.md", "sub/a (1).pdf.html"]
    assert "a%20%281%29.pdf.images/p3-1.png" in files["sub/a (1).pdf.md"]
    (tmp_path / FOLDER).mkdir()
    manifest = Manifest(tmp_path)
    digests = write_all(files, "name", manifest, overwrite=False)
    assert digests["sub/a (1).pdf.images/p3-1.png"] == hashlib.sha256(b"pixels").hexdigest()
    assert (tmp_path / "sub" / "a (1).pdf.images" / "p3-1.png").read_bytes() == b"pixels"
    write_all(files, "name", manifest, overwrite=False)  # its own outputs may be replaced
    (tmp_path / "sub" / "a (1).pdf.images" / "p3-1.png").write_bytes(b"mine")
    with pytest.raises(OutputError, match="--overwrite"):
        write_all(files, "name", manifest, overwrite=False)
    write_all(files, "name", manifest, overwrite=True)
    manifest.close()


def test_a_pdf_is_written_from_its_source(tmp_path):
    import pymupdf

    with pymupdf.open() as pdf:
        pdf.new_page()
        source = pdf.tobytes()
    page = Page(1, "blank", 612.0, 792.0, 0, "blank", "no print")
    document = Document("<stdin>", 1, hashlib.sha256(source).hexdigest(), [page])
    files = contents(document, "stdin", ParseOptions(), BatchOptions(tmp_path, formats=("pdf",)), source)
    assert files["stdin.pdf"].startswith(b"%PDF")


@pytest.mark.parametrize(
    ("codes", "fail_on", "code"),
    [
        ([0, 0], "partial", 0), ([0, 3], "partial", 3), ([3, 4], "partial", 1), ([8, 0], "partial", 1),
        ([], "partial", 0), ([4], "partial", 4), ([8], "failure", 8), ([0, 3], "failure", 0),
        ([3, 5, 0], "failure", 1), ([3], "failure", 0), ([1, 3], "never", 0), ([6, 0], "never", 6), ([5], "never", 0),
    ],
)  # fmt: skip
def test_exit_codes(codes, fail_on, code):
    assert worst_code(codes, fail_on) == code


def test_words_at_the_end():
    done = BatchDone(2, 1, 0, 3, 0, 10, 1, 500, 4.0)
    assert summary_line(done) == (
        "6 documents: 2 ok, 1 partial, 3 skipped; 10 pages, 1 of them failed, in 4.0 s (2.5 pages/s), 500 tokens"
    )
    assert summary_line(BatchDone(0, 0, 1, 0, 0, 0, 0, 0, 0.0)) == "1 document: 1 failed; 0 pages in 0.0 s"
    assert failure_table([]) == []
    long = Failure("x" * 90, tuple(range(1, 20)), "failed", "why", "do so")
    table = failure_table([long, Failure("b", (), "f", "no")])
    assert len(table) == 3
    assert "…" + "x" * 47 in table[1]
    assert "1, 2, 3, 4, 5, 6, 7, 8, …" in table[1]
    assert table[1].endswith("why  (do so)")
    assert len(failure_table([Failure("b", (), "f", "no")] * 500)) < 110
