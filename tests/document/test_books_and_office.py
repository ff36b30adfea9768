"""Documents that MuPDF lays out, archives of images, and what cannot be read at all."""

import io
import re

import numpy as np
import pytest
from made import FakeReader, draw_lines
from made_files import docx, epub, pptx, xlsx, zipped
from PIL import Image

import ocria
from ocria.document import kind as kinds
from ocria.document.source import open_source
from ocria.errors import EncryptedError, InputError

LINE = "A line of plain words that is long enough to be one."


def image_file(text="one line of print", kind="PNG"):
    stream = io.BytesIO()
    Image.fromarray(draw_lines([text], size=(620, 300), font_size=30)).save(stream, kind)
    return stream.getvalue()


SVG = f'<svg xmlns="http://www.w3.org/2000/svg" width="600" height="90"><text x="9" y="50">{LINE}</text></svg>'
FB2 = (
    '<?xml version="1.0" encoding="utf-8"?>\n<FictionBook xmlns="http://www.gribuser.ru/xml/fictionbook/2.0"><body>'
    f"<section><p>{LINE}</p></section></body></FictionBook>"
)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.epub", epub(f"<h1>Head of it</h1><p>{LINE}</p>")),
        ("a.docx", docx("Head of it", LINE)),
        ("a.xlsx", xlsx("Head of it", LINE)),
        ("a.pptx", pptx(LINE)),
        ("a.svg", SVG.encode()),
        ("a.fb2", FB2.encode()),
        ("a.html", f"<!DOCTYPE html><title>no</title><p>{LINE}</p>".encode()),
        ("a.txt", f"Head of it\n\n{LINE}\n".encode()),
        ("a.md", f"# Head of it\n\n{LINE}\n".encode()),
    ],
)
def test_kinds(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    document = ocria.parse(tmp_path / name)
    assert document.status == "ok"
    assert LINE in " ".join(document.text.split())
    if name.endswith((".txt", ".md")):
        return  # known by their names alone
    assert LINE in " ".join(ocria.parse(content).text.split())


def test_xps():
    page = (
        '<FixedPage xmlns="http://schemas.microsoft.com/xps/2005/06" Width="816" Height="1056" xml:lang="en">'
        '<Path Fill="#FF000000" Data="M 100,100 L 700,100 700,160 100,160 Z"/></FixedPage>'
    )
    rels = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'
    content = zipped({
        "_rels/.rels": rels.format('<Relationship Type="http://schemas.microsoft.com/xps/2005/06/fixedrepresentation" '
                                   'Target="/s.fdseq" Id="r"/>'),
        "s.fdseq": '<FixedDocumentSequence xmlns="http://schemas.microsoft.com/xps/2005/06"><DocumentReference '
                   'Source="d.fdoc"/></FixedDocumentSequence>',
        "d.fdoc": '<FixedDocument xmlns="http://schemas.microsoft.com/xps/2005/06"><PageContent Source="1.fpage"/>'
                  '<PageContent Source="2.fpage"/></FixedDocument>',
        "1.fpage": page,
        "2.fpage": page,
    })  # fmt: skip
    source = open_source(content)
    assert source.page_count == 2
    facts = source.page(2).look()
    assert (facts.width, facts.height) == (612, 792)
    assert not facts.blank


def test_a_book_has_pages_and_they_can_be_chosen():
    chapters = [f"<h1>Chapter {n}</h1>" + f"<p>{LINE} It is in chapter {n}.</p>" * 40 for n in (1, 2, 3)]
    document = ocria.parse(epub(*chapters))
    assert document.page_count > 3
    assert [page.index for page in document.pages] == list(range(1, document.page_count + 1))
    for n in (1, 2, 3):
        assert " ".join(document.text.split()).count(f"in chapter {n}.") == 40
    last = ocria.parse(epub(*chapters), pages=[document.page_count])
    assert "in chapter 3." in last.text
    assert "in chapter 1." not in last.text


def test_the_pixels_of_a_book_can_be_read():
    reader = FakeReader(["a line"])
    document = ocria.parse(docx(LINE, LINE), mode="model", reader=reader)
    assert document.status == "ok"
    assert [page.route for page in document.pages] == ["model"]
    assert reader.seen


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings_of_plain_text(encoding, tmp_path):
    (tmp_path / "a.TXT").write_bytes("Über “naïve” façades there is enough to say.\r\n".encode(encoding))
    assert "Über “naïve” façades there is" in ocria.parse(tmp_path / "a.TXT").text


def test_text_that_speaks_of_pdf_is_text(tmp_path):
    (tmp_path / "a.txt").write_text("The magic bytes %PDF begin a file and %%EOF ends it, they say.")
    assert "begin a file" in ocria.parse(tmp_path / "a.txt").text


@pytest.mark.parametrize("name", ["a.pdf", "a.png", "a.docx"])
def test_a_web_page_under_the_name_of_a_document_is_refused(name, tmp_path):
    (tmp_path / name).write_text("<!DOCTYPE html><html><body>Please log in to read the document</body></html>")
    with pytest.raises(InputError, match="a web page"):
        ocria.parse(tmp_path / name)


def test_what_is_no_text_in_spite_of_its_name(tmp_path):
    (tmp_path / "a.txt").write_bytes(bytes(100) + b"junk")
    with pytest.raises(InputError, match="not a text file"):
        ocria.parse(tmp_path / "a.txt")


def test_a_comic_has_its_pages_in_the_order_of_their_numbers():
    names = {f"p/page{n}.png": image_file(f"page number {n}") for n in (1, 2, 10, 9)}
    source = open_source(zipped({**names, "__MACOSX/p/._page1.png": b"junk", "info.xml": "<x/>"}))
    assert source.page_count == 4
    for number, text in enumerate(["page number 1", "page number 2", "page number 9", "page number 10"], 1):
        page = source.page(number)
        assert page.number == number
        expected = draw_lines([text], size=(620, 300), font_size=30)
        assert (page.render(None)[..., 0] == expected).all()


def test_a_broken_image_of_a_comic_is_a_failed_page():
    reader = FakeReader(["read"])
    document = ocria.parse(zipped({"1.png": image_file(), "2.jpg": b"junk", "3.png": image_file()}), reader=reader)
    assert [(page.index, page.status) for page in document.pages] == [(1, "ok"), (2, "failed"), (3, "ok")]
    assert document.status == "partial"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2000), "old kind.*soffice"),
        (b"{\\rtf1 hello}", "RTF.*soffice"),
        (b"%!PS-Adobe-3.0\n", "PostScript.*ps2pdf"),
        (b"AT&TFORM\0\0\0\1DJVM", "DjVu.*ddjvu"),
        (b"\x1f\x8b\x08" + bytes(30), "gzip.*Unpack"),
        (zipped({"mimetype": "application/vnd.oasis.opendocument.text", "a.xml": "<x/>"}), "OpenDocument.*soffice"),
        (zipped({"notes.bin": "x"}), "archive without pages"),
        (xlsx("words", in_place=True), "texts in its cells.*soffice"),
        (docx("words")[:-40], "corrupt.*archive"),
        (b"PK\x03\x04" + b"junk" * 30, "corrupt.*archive"),
        (zipped({"word/document.xml": "<x", "[Content_Types].xml": "<x"}), "not a readable docx"),
    ],
)
def test_what_cannot_be_read_says_what_helps(content, says):
    with pytest.raises(InputError) as caught:
        open_source(content)
    assert caught.value.exit_code == 4
    assert re.search(says, str(caught.value))


def test_an_entry_of_an_archive_without_a_name():
    content = bytearray(zipped({"q": "x"}))
    # The letter of the name becomes one of the extra field behind it.
    for name_length in (26, content.index(b"PK\x01\x02") + 28):
        content[name_length : name_length + 4] = b"\0\0\1\0"
    with pytest.raises(InputError, match=r"archive"):
        open_source(bytes(content))


def test_an_office_file_with_a_password_is_encrypted():
    content = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600) + "EncryptedPackage".encode("utf-16-le") + bytes(99)
    with pytest.raises(EncryptedError, match="without a password"):
        open_source(content)


def test_an_archive_that_unpacks_to_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(kinds, "_MOST_UNPACKED", 100_000)
    with pytest.raises(InputError, match="unpacks to more"):
        open_source(docx(*["x" * 1000] * 101))
    assert ocria.parse(docx(LINE)).status == "ok"
    images = {f"{n}.bmp": image_file(kind="BMP") for n in range(2)}
    with pytest.raises(InputError, match="unpacks to more"):
        open_source(zipped(images))
    monkeypatch.setattr(kinds, "_MOST_UNPACKED", 300_000)
    assert open_source(zipped(images)).page_count == 2


@pytest.mark.parametrize("make", [lambda: epub(f"<p>{LINE}</p>"), lambda: docx(LINE), lambda: xlsx(LINE), SVG.encode])
def test_damage_anywhere_is_no_other_error(make):
    content = make()
    rng = np.random.default_rng(7)
    for _ in range(15):
        damaged = np.frombuffer(content, np.uint8).copy()
        damaged[rng.integers(0, len(content), 6)] = rng.integers(0, 256, 6)
        try:
            source = open_source(damaged.tobytes())
        except InputError:
            continue
        source.page(1).look()


def test_an_encrypted_archive():
    content = bytearray(docx(LINE))
    # The flag of encryption, in the table at the end and before every file.
    for mark, at in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        place = content.find(mark)
        while place >= 0:
            content[place + at] |= 1
            place = content.find(mark, place + 4)
    with pytest.raises(InputError):
        open_source(bytes(content))
