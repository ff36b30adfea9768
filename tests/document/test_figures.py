"""Figures cut out of their pages."""

import io

import numpy as np
import pymupdf
import pytest
from made import FakeReader
from PIL import Image
from random_documents import fresh

import ocria
from ocria.document.figures import cut_figures, encode
from ocria.document.geometry import turn_back
from ocria.document.options import ParseOptions
from ocria.document.result import Block, Page
from ocria.document.write import figure_files, render
from ocria.events import Note

TEXT = "A paragraph of text that goes on and on so that the layout of the page is found. " * 6


def photo(rng, size):
    noise = np.random.default_rng(rng.randrange(1 << 32)).integers(0, 255, (9, 12, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)


def pdf_with(image, box, rotate=0):
    stream = io.BytesIO()
    image.save(stream, "PNG")
    with pymupdf.open() as pdf:
        page = pdf.new_page()
        page.insert_textbox((72, 72, 500, 200), TEXT, fontsize=11)
        page.insert_image(box, stream=stream.getvalue(), keep_proportion=False)
        page.insert_textbox((72, 500, 500, 700), TEXT, fontsize=11)
        page.set_rotation(rotate)
        return pdf.tobytes()


def pixels_of(picture):
    image = Image.open(io.BytesIO(picture.data))
    assert image.get_format_mimetype() == picture.media_type
    assert image.size == (picture.width, picture.height)
    return np.asarray(image.convert("RGB")).astype(int)


class Drawn:
    """A source with one page of these pixels."""

    path = "a.pdf"

    def __init__(self, pixels):
        self.pixels = pixels

    def page(self, number):
        return self

    def render(self, dpi):
        if isinstance(self.pixels, Exception):
            raise self.pixels
        return self.pixels


@pytest.mark.parametrize("images", ["embed", "extract"])
def test_a_figure_of_a_born_digital_page_shows_what_the_page_does(images):
    rng = fresh()
    image = photo(rng, (500, 400))
    content = pdf_with(image, (150, 250, 400, 450))
    document = ocria.parse(content, mode="text", images=images)
    (block,) = [block for block in document.blocks if block.type == "picture"]
    shown = np.asarray(image.resize((block.picture.width, block.picture.height))).astype(int)
    assert np.abs(pixels_of(block.picture) - shown).mean() < 8
    files = figure_files(document, "a")
    assert list(files.values()) == [block.picture.data]
    html = render(document, "html", options=ParseOptions(images=images))
    assert ("data:image/" in html) == (images == "embed")
    assert html.count("<img ") == 1


@pytest.mark.parametrize("images", ["none", "placeholder"])
def test_no_pixels_are_kept_unless_they_are_asked_for(images):
    content = pdf_with(photo(fresh(), (50, 40)), (150, 250, 400, 450))
    document = ocria.parse(content, mode="text", images=images)
    assert all(block.picture is None for block in document.blocks)
    assert figure_files(document, "a") == {}


@pytest.mark.parametrize("turned", [0, 90, 180, 270])
def test_a_figure_stands_upright_as_the_page_was_read(turned):
    rng = np.random.default_rng(turned)
    upright = np.full((300, 400, 3), 255, np.uint8)
    figure = rng.integers(0, 255, (60, 80, 3), dtype=np.uint8)
    upright[100:160, 200:280] = figure
    displayed = np.ascontiguousarray(np.rot90(upright, turned // 90))
    high, wide = displayed.shape[:2]
    box = turn_back((100.0, 50.0, 140.0, 80.0), turned, wide / 2, high / 2)
    page = Page(1, "ok", wide / 2, high / 2, turned, "text", "", [Block("picture", box, "", "", 0)])
    assert list(cut_figures(page, Drawn(displayed), ParseOptions(images="embed"))) == []
    assert page.blocks[0].picture.media_type == "image/png"
    assert (pixels_of(page.blocks[0].picture) == figure).all()


def test_a_figure_of_a_page_model_is_cut_out_of_an_image_file():
    rng = fresh()
    sheet = np.full((800, 600, 3), 255, np.uint8)
    sheet[200:400, 150:450] = np.asarray(photo(rng, (300, 200)))
    stream = io.BytesIO()
    Image.fromarray(sheet).save(stream, "PNG")
    answer = (
        '[{"bbox": [250, 250, 750, 500], "category": "figure"},'
        ' {"bbox": [100, 600, 900, 700], "category": "text", "text": "words"}]'
    )
    reader = FakeReader([answer], unit="page", dialect="json", box_scale=1000)
    document = ocria.parse(stream.getvalue(), mode="model", images="embed", reader=reader)
    (block,) = [block for block in document.blocks if block.type == "picture"]
    # The page was turned or not, which this reader cannot tell: its box says what was cut.
    turned = document.pages[0].rotation
    x0, y0, x1, y1 = (round(v * 800 / document.pages[0].height) for v in block.box)
    cut = np.rot90(sheet[y0:y1, x0:x1], -turned // 90)
    shown = pixels_of(block.picture)
    assert np.abs(np.array(shown.shape) - cut.shape).max() <= 2
    if shown.shape == cut.shape:
        assert np.abs(shown - cut).mean() < 8


def test_blocks_without_a_place_of_their_own_have_no_pixels():
    whole = (0.0, 0.0, 300.0, 400.0)
    blocks = [Block("text", whole, "a", "a", 0), Block("picture", whole, "", "![x](y)", 1)]
    page = Page(1, "ok", 300.0, 400.0, 0, "model", "", blocks)
    pixels = np.zeros((400, 300, 3), np.uint8)
    assert list(cut_figures(page, Drawn(pixels), ParseOptions(images="embed"))) == []
    assert blocks[1].picture is None
    alone = Page(1, "ok", 300.0, 400.0, 0, "model", "", [Block("picture", whole, "", "", 0)])
    list(cut_figures(alone, Drawn(pixels), ParseOptions(images="embed")))
    assert alone.blocks[0].picture is not None


@pytest.mark.parametrize("box", [(5.0, 5.0, 5.0, 90.0), (50.0, 50.0, 51.0, 300.0), (-9.0, -9.0, 999.0, 999.0)])
def test_odd_boxes(box):
    page = Page(1, "ok", 300.0, 400.0, 0, "text", "", [Block("picture", box, "", "", 0)])
    list(cut_figures(page, Drawn(np.zeros((400, 300, 3), np.uint8)), ParseOptions(images="embed")))
    picture = page.blocks[0].picture
    assert picture is None or (picture.width, picture.height) == (300, 400)
    assert (picture is None) == (box[0] >= 0)


def test_a_page_that_cannot_be_drawn_keeps_its_blocks():
    page = Page(7, "ok", 300.0, 400.0, 0, "text", "", [Block("picture", (1.0, 1.0, 90.0, 90.0), "", "", 0)])
    (note,) = cut_figures(page, Drawn(RuntimeError("broken")), ParseOptions(images="embed"))
    assert isinstance(note, Note)
    assert (note.level, note.page) == ("warning", 7)
    assert "broken" in note.message
    assert page.blocks[0].picture is None


def test_photos_are_jpeg_and_drawings_png_and_neither_is_too_large():
    rng = fresh()
    big = encode(np.asarray(photo(rng, (3000, 2000))))
    assert big.media_type == "image/jpeg"
    assert 3_900_000 < big.width * big.height <= 4_000_000
    assert big.width / big.height == pytest.approx(1.5, abs=0.01)
    drawing = np.full((300, 400, 3), 255, np.uint8)
    drawing[100:110, 20:380] = (200, 0, 0)
    line = encode(drawing)
    assert line.media_type == "image/png"
    assert (pixels_of(line) == drawing).all()
    gray = encode(np.repeat(drawing[..., :1], 3, axis=2))
    assert Image.open(io.BytesIO(gray.data)).mode == "L"
