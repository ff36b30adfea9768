"""Searchable PDFs: words are found where they stand, and pages look as they did."""

import hashlib
import io

import numpy as np
import pymupdf
import pytest
from made import PARAGRAPH, FakeReader, draw_lines, scan_pdf
from made_files import epub
from PIL import Image, ImageOps
from random_documents import fresh

import ocria
from ocria.document.geometry import turn_back
from ocria.document.result import Block, Cell, Document, LineText, Page
from ocria.document.write import render
from ocria.errors import EncryptedError, InputError

WORDS = ("harbour", "Überfahrt", "cœur", "42.5", "文字认识", "Ελλάδα", "Москва", "😀", "naïve", "e\u0301te", "l’eau")


def document_of(content, *pages):
    return Document("a.pdf", len(pages), hashlib.sha256(content).hexdigest(), list(pages))


def page_of(index, width, height, lines=(), rotation=0, blocks=(), route="model"):
    return Page(index, "ok", width, height, rotation, route, "", list(blocks), list(lines))


def line(box, text):
    return LineText(box, text, 0.9, "ok")


def drawn(content, number=0, dpi=100, password=None):
    with pymupdf.open(stream=content, filetype="pdf") as pdf:
        if password:
            assert pdf.authenticate(password)
        pixels = pdf[number].get_pixmap(dpi=dpi)
        return pixels.width, pixels.height, pixels.samples


def words_shown(content, number=0):
    """Words with their boxes on the displayed page, through MuPDF's list of what it draws."""
    with pymupdf.open(stream=content, filetype="pdf") as pdf:
        textpage = pymupdf.TextPage(pdf[number].get_displaylist().get_textpage())
        return [(text, tuple(box)) for *box, text, _, _, _ in textpage.extractWORDS()]


def text_of(content, number=0):
    with pymupdf.open(stream=content, filetype="pdf") as pdf:
        return pdf[number].get_text()


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
@pytest.mark.parametrize("turned", [0, 90, 180, 270])
def test_words_stand_where_they_were_read_on_any_page(rotate, turned):
    rng = fresh()
    pdf = pymupdf.open()
    page = pdf.new_page(width=rng.randint(300, 700), height=rng.randint(300, 700))
    page.draw_rect(pymupdf.Rect(20, 30, 100, 90), fill=(rng.random(), 0.5, 0.2))
    left, bottom = rng.randint(-200, 200), rng.randint(-200, 200)
    corners = left, bottom, left + page.rect.width, bottom + page.rect.height
    cut = [rng.randint(0, 30) for _ in range(4)]
    crop = corners[0] + cut[0], corners[1] + cut[1], corners[2] - cut[2], corners[3] - cut[3]
    pdf.xref_set_key(page.xref, "MediaBox", "[{} {} {} {}]".format(*corners))
    pdf.xref_set_key(page.xref, "CropBox", "[{} {} {} {}]".format(*crop))
    pdf.xref_set_key(page.xref, "Rotate", str(rotate))
    pdf.xref_set_key(page.xref, "UserUnit", rng.choice(("1", "2.5")))
    content = pdf.tobytes()
    shown = pymupdf.open(stream=content)[0].rect
    long = shown.height if turned in (90, 270) else shown.width
    truth, lines = [], []
    for row in range(5):
        x, y = rng.uniform(5, long / 3), 20 + row * 40
        length, size = rng.uniform(long / 3, long / 2), rng.uniform(6, 25)
        text = " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 5)))
        box = turn_back((x, y, x + length, y + size), turned, shown.width, shown.height)
        lines.append(line(box, text))
        truth.append((text, box))
    result = render(document_of(content, page_of(1, shown.width, shown.height, lines, turned)), "pdf", source=content)
    assert drawn(result) == drawn(content)
    found = words_shown(result)
    for text, box in truth:
        inside = [(word, at) for word, at in found if box[0] - 1 < (at[0] + at[2]) / 2 < box[2] + 1 and
                  box[1] - 1 < (at[1] + at[3]) / 2 < box[3] + 1]  # fmt: skip
        assert " ".join(word for word, _ in inside) == text
        union = [pick(at[i] for _, at in inside) for i, pick in enumerate((min, min, max, max))]
        assert union == pytest.approx(box, abs=0.5)


def test_words_of_a_printed_line_are_found_near_their_print():
    rng = fresh()
    text = " ".join(rng.choice(("harbour", "ledger", "of", "the", "ship", "captain")) for _ in range(9))
    pdf = pymupdf.open()
    page = pdf.new_page()
    page.insert_text((72, 100), text, fontname="tiro", fontsize=12)
    truth = [(word, tuple(box)) for *box, word, _, _, _ in page.get_text("words")]
    pixels = page.get_pixmap(dpi=150)
    image = np.frombuffer(pixels.samples, np.uint8).reshape(pixels.height, pixels.width, 3)[..., 0]
    content = scan_pdf(image, dpi=150)
    box = (truth[0][1][0], truth[0][1][1], truth[-1][1][2], truth[-1][1][3])
    result = render(document_of(content, page_of(1, 595.2, 842.4, [line(box, text)])), "pdf", source=content)
    found = words_shown(result)
    assert [word for word, _ in found] == [word for word, _ in truth]
    for (_, at), (_, there) in zip(found, truth, strict=True):
        assert at == pytest.approx(there, abs=3)


def test_independent_readers_find_the_text():
    rng = fresh()
    texts = [" ".join(rng.sample(WORDS, 4)) for _ in range(6)]
    content = scan_pdf(draw_lines(["x"]))
    lines = [line((60, 60 + 40 * row, 400, 75 + 40 * row), text) for row, text in enumerate(texts)]
    result = render(document_of(content, page_of(1, 595.2, 841.92, lines)), "pdf", source=content)
    assert text_of(result).split("\n")[:-1] == texts
    pypdf = pytest.importorskip("pypdf")
    assert pypdf.PdfReader(io.BytesIO(result)).pages[0].extract_text().strip().split("\n") == texts
    miner = pytest.importorskip("pdfminer.high_level")
    assert [part for part in miner.extract_text(io.BytesIO(result)).split("\n") if part.strip()] == [
        " ".join(text.split()) for text in texts
    ]


def test_right_to_left_lines_are_read_in_their_order():
    texts = ["שלום עולם וברכה", "السلام عليكم"]
    content = scan_pdf(draw_lines(["x"]))
    lines = [line((60, 60 + 40 * row, 400, 75 + 40 * row), text) for row, text in enumerate(texts)]
    result = render(document_of(content, page_of(1, 595.2, 841.92, lines)), "pdf", source=content)
    assert text_of(result).split("\n")[:-1] == texts


def test_more_characters_than_one_byte_could_name():
    characters = [chr(c) for c in range(0x4E00, 0x4E00 + 700)]
    content = scan_pdf(draw_lines(["x"]))
    texts = ["".join(characters[at : at + 20]) for at in range(0, 700, 20)]
    lines = [line((60, 60 + 14 * row, 500, 70 + 14 * row), text) for row, text in enumerate(texts)]
    result = render(document_of(content, page_of(1, 595.2, 841.92, lines)), "pdf", source=content)
    assert "".join(text_of(result).split()) == "".join(characters)


def test_an_old_hidden_layer_is_replaced_and_visible_text_is_not_said_twice():
    with pymupdf.open(stream=scan_pdf(draw_lines(PARAGRAPH))) as pdf:
        pdf[0].insert_text((58, 70), "old wrong reading", render_mode=3)
        pdf[0].insert_text((58, 700), "stamped on it", fontsize=14)
        content = pdf.tobytes()
    read = ["first line", "second line", "third line", "stamped on it"]
    document = ocria.parse(content, mode="model", reader=FakeReader(read))
    result = render(document, "pdf", source=content)
    assert drawn(result) == drawn(content)
    text = text_of(result)
    assert "old" not in text
    assert [text.count(part) for part in read] == [1, 1, 1, 1]
    again = render(document, "pdf", source=content)
    assert again == result
    # What we wrote is such a layer too.
    document = ocria.parse(result, mode="model", reader=FakeReader(["fourth line"]))
    twice = text_of(render(document, "pdf", source=result))
    assert "first line" not in twice
    assert "fourth line" in twice


def test_pages_with_their_own_text_stay_as_they_are():
    with pymupdf.open() as pdf:
        for number in range(2):
            pdf.new_page().insert_text((72, 100), f"Page {number} has words of its own", fontsize=12)
        with pymupdf.open(stream=scan_pdf(draw_lines(PARAGRAPH))) as scan:
            pdf.insert_pdf(scan)
        pdf.set_toc([[1, "One", 1], [2, "Three", 3]])
        pdf.set_metadata({"title": "The Ledger", "author": "A. Harbour"})
        content = pdf.tobytes()
        streams = [pdf[number].read_contents() for number in range(3)]
    document = ocria.parse(content, pages="2-3", reader=FakeReader(["line of the scan"]))
    result = render(document, "pdf", source=content)
    with pymupdf.open(stream=result) as pdf:
        assert pdf.page_count == 3
        assert [pdf[number].read_contents() for number in range(2)] == streams[:2]
        assert pdf.get_toc() == [[1, "One", 1], [2, "Three", 3]]
        assert pdf.metadata["title"] == "The Ledger"
        assert [bool(pdf[number].get_fonts()) for number in range(3)] == [True, True, True]
        assert "line of the scan" in pdf[2].get_text()
    assert all(drawn(result, number) == drawn(content, number) for number in range(3))


def test_pages_that_share_resources_do_not_get_each_others_text():
    with pymupdf.open() as pdf:
        for _ in range(2):
            pdf.new_page(width=300, height=300).draw_circle((100, 100), 50, fill=(1, 0, 0))
        shared = pdf.get_new_xref()
        pdf.update_object(shared, "<<>>")
        contents = pdf[0].get_contents()[0]
        for page in pdf:
            pdf.xref_set_key(page.xref, "Resources", f"{shared} 0 R")
            pdf.xref_set_key(page.xref, "Contents", f"{contents} 0 R")
        content = pdf.tobytes()
    page = page_of(2, 300, 300, [line((20, 20, 100, 30), "only here")])
    result = render(document_of(content, page), "pdf", source=content)
    assert text_of(result, 0) == ""
    assert text_of(result, 1) == "only here\n"
    assert drawn(result, 1) == drawn(content, 1)
    with pymupdf.open(stream=result) as pdf:
        assert pdf[0].get_fonts() == []


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_jpeg_stays_as_it_is_and_stands_upright(orientation):
    rng = np.random.default_rng(orientation)
    image = Image.fromarray(rng.integers(0, 255, (20, 30, 3), dtype=np.uint8)).resize((120, 80))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stream = io.BytesIO()
    image.save(stream, "JPEG", exif=exif, quality=95, subsampling=0)
    content = stream.getvalue()
    upright = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(content))).convert("RGB")).astype(int)
    high, wide = upright.shape[:2]
    page = page_of(1, wide / 2, high / 2, [line((2, 2, 30, 10), "word")])
    result = render(document_of(content, page), "pdf", source=content)
    assert content[2:] in result
    width, height, samples = drawn(result, dpi=144)
    assert (width, height) == (wide, high)
    assert np.abs(np.frombuffer(samples, np.uint8).reshape(upright.shape) - upright).mean() < 3
    assert text_of(result) == "word\n"


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "BMP", "GIF", "WEBP", "gray", "black"])
def test_other_images_keep_every_pixel(kind):
    rng = np.random.default_rng(3)
    if kind in ("gray", "black"):
        gray = draw_lines(PARAGRAPH)
        pixels = np.where(gray > 128, 255, 0).astype(np.uint8) if kind == "black" else gray
    else:
        pixels = np.kron(rng.integers(0, 255, (40, 30, 3)), np.ones((8, 8, 1))).astype(np.uint8)
    stream = io.BytesIO()
    name = kind if kind.isupper() else "PNG"
    Image.fromarray(pixels).save(stream, name, **({"lossless": True} if name == "WEBP" else {}))
    content = stream.getvalue()
    before = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    document = ocria.parse(content, mode="model", reader=FakeReader(["words of it"]))
    result = render(document, "pdf", source=content)
    with pymupdf.open(stream=result) as pdf:
        (image,) = pdf[0].get_images()
        assert image[4] == (1 if kind == "black" else 8)
        kept = Image.open(io.BytesIO(pdf.extract_image(image[0])["image"])).convert("RGB")
        assert (np.asarray(kept) == before).all()
        assert pdf[0].rect.width == pytest.approx(document.pages[0].width, abs=0.01)
        assert pdf[0].rect.height == pytest.approx(document.pages[0].height, abs=0.01)


def test_every_frame_of_a_tiff_is_a_page():
    frames = [Image.fromarray(draw_lines([f"frame {n}"], size=(600 + n, 400))) for n in range(3)]
    stream = io.BytesIO()
    frames[0].save(stream, "TIFF", save_all=True, append_images=frames[1:], dpi=(100, 100))
    content = stream.getvalue()
    document = ocria.parse(content, pages="2", reader=FakeReader(["frame one"]))
    result = render(document, "pdf", source=content)
    with pymupdf.open(stream=result) as pdf:
        assert [round(page.rect.width / 0.72) for page in pdf] == [600, 601, 602]
        assert [page.get_text() for page in pdf] == ["", "frame one\n", ""]


def test_an_encrypted_file_needs_its_password_and_comes_out_open():
    with pymupdf.open(stream=scan_pdf(draw_lines(PARAGRAPH))) as pdf:
        content = pdf.tobytes(encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="secret", owner_pw="boss")
    document = ocria.parse(content, password="secret", reader=FakeReader(["a line"]))
    with pytest.raises(EncryptedError):
        render(document, "pdf", source=content)
    options = ocria.document.options.ParseOptions(password="secret")
    result = render(document, "pdf", options=options, source=content)
    assert "a line" in text_of(result)
    assert drawn(result) == drawn(content, password="secret")


def test_blocks_of_a_page_model_are_fitted_into_their_boxes():
    rng = fresh()
    content = scan_pdf(draw_lines(["x"]))
    paragraph = " ".join(rng.choice(("harbour", "ledger", "of", "the", "ship")) for _ in range(80))
    cells = [Cell(r, c, 1, 1, f"cell{r}{c}", False) for r in range(3) for c in range(2)]
    blocks = [
        Block("heading", (60, 50, 300, 70), "The Ledger", "# The Ledger", 0),
        Block("text", (60, 100, 300, 300), paragraph, paragraph, 1),
        Block("table", (320, 100, 500, 160), "cell00\tcell01\ncell10\tcell11\ncell20\tcell21", "", 2, cells=cells),
    ]
    result = render(document_of(content, page_of(1, 595.2, 841.92, blocks=blocks)), "pdf", source=content)
    assert text_of(result).split() == [word for block in blocks for word in block.text.split()]
    found = iter(words_shown(result))
    for block in blocks:
        for _ in block.text.split():
            _, at = next(found)
            assert block.box[0] - 1 <= at[0] <= at[2] <= block.box[2] + 1
            assert block.box[1] - 1 <= at[1] <= at[3] <= block.box[3] + 1


@pytest.mark.parametrize("turned", [0, 90, 180, 270])
def test_text_without_places_is_all_there(turned):
    rng = fresh()
    content = scan_pdf(draw_lines(["x"]))
    whole = (0.0, 0.0, 595.2, 841.92)
    texts = [" ".join(rng.choice(WORDS[:4]) for _ in range(rng.randint(1, 60))) for _ in range(9)]
    blocks = [Block("text", whole, text, text, order) for order, text in enumerate(texts)]
    page = page_of(1, 595.2, 841.92, rotation=turned, blocks=blocks)
    result = render(document_of(content, page), "pdf", source=content)
    assert text_of(result).split() == " ".join(texts).split()
    assert all(0 <= v <= 842 for _, at in words_shown(result) for v in at)


def test_rows_of_a_table_over_pages_stand_on_their_own_pages():
    content = scan_pdf(draw_lines(["x"]), draw_lines(["y"]))
    cells = [Cell(row, 0, 1, 1, f"row{row}", False) for row in range(3)]
    table = Block("table", (60, 600, 300, 700), "row0\nrow1\nrow2", "", 0, cells=cells, row_pages=[1, 1, 2])
    rest = Block("table", (60, 50, 300, 90), "", "", 0, continues=1)
    pages = [page_of(1, 595.2, 841.92, blocks=[table]), page_of(2, 595.2, 841.92, blocks=[rest])]
    result = render(document_of(content, *pages), "pdf", source=content)
    assert [text_of(result, number).split() for number in range(2)] == [["row0", "row1"], ["row2"]]


def test_a_book_becomes_the_pdf_that_was_read(tmp_path):
    path = tmp_path / "book.epub"
    path.write_bytes(epub("<p>A chapter about harbours.</p>"))
    document = ocria.parse(path, mode="text")
    assert "harbours" in text_of(render(document, "pdf"))


def test_damaged_files_give_a_pdf_or_say_why():
    rng = fresh()
    with pymupdf.open(stream=scan_pdf(draw_lines(["x"], size=(300, 400)))) as pdf:
        pdf[0].insert_text((30, 50), "old layer", render_mode=3)
        whole = pdf.tobytes()
    written = 0
    for _ in range(40):
        content = bytearray(whole)
        for _ in range(rng.choice((1, 3, 20))):
            content[rng.randrange(len(content))] = rng.randrange(256)
        content = bytes(content[: rng.choice((len(content), rng.randrange(100, len(content)))) ])
        document = document_of(content, page_of(1, 300, 400, [line((20, 20, 100, 30), "a line")]))
        try:
            result = render(document, "pdf", source=content)
        except InputError:
            continue
        with pymupdf.open(stream=result) as pdf:
            written += pdf.page_count
    assert written, "none was good enough"


def test_a_file_that_changed_or_went_is_an_error(tmp_path):
    path = tmp_path / "a.pdf"
    path.write_bytes(scan_pdf(draw_lines(PARAGRAPH)))
    document = ocria.parse(path, reader=FakeReader(["a line"]))
    assert "a line" in text_of(render(document, "pdf"))
    path.write_bytes(scan_pdf(draw_lines(PARAGRAPH[:1])))
    with pytest.raises(InputError, match="changed"):
        render(document, "pdf")
    path.unlink()
    with pytest.raises(InputError, match="read again"):
        render(document, "pdf")
