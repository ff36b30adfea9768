"""Image files as pages."""

import io
import warnings

import numpy as np
import pytest
from made import draw_lines
from PIL import Image

from ocria.document.source import open_source
from ocria.errors import InputError


def saved(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


@pytest.fixture
def printed():
    return Image.fromarray(draw_lines(["one line of print", "and a second one"], size=(620, 877), font_size=24))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF"])
def test_formats(printed, kind):
    source = open_source(saved(printed, kind))
    assert source.page_count == 1
    pixels = source.page(1).render(None)
    assert pixels.shape == (877, 620, 3)
    # JPEG and WebP are lossy.
    assert np.abs(pixels[..., 0].astype(int) - np.asarray(printed)).mean() < 3
    assert not source.page(1).look().blank


def test_a_photo_is_turned_by_its_exif_entry(printed):
    turned = printed.transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6  # turn 90 degrees clockwise to see it upright
    page = open_source(saved(turned, "JPEG", exif=exif, quality=95)).page(1)
    assert np.abs(page.render(None)[..., 0].astype(int) - np.asarray(printed)).mean() < 3
    facts = page.look()
    assert facts.height > facts.width


def test_every_frame_of_a_tiff_is_a_page():
    frames = [Image.fromarray(np.full((60 + i, 50), 250 - i, np.uint8)) for i in range(5)]
    source = open_source(saved(frames[0], "TIFF", save_all=True, append_images=frames[1:]))
    assert source.page_count == 5
    for number in (5, 2, 4):
        pixels = source.page(number).render(None)
        assert pixels.shape == (59 + number, 50, 3)
        assert pixels[0, 0, 0] == 251 - number


def test_transparent_paper_is_white():
    image = Image.new("RGBA", (90, 70), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (20, 20, 40, 40))
    pixels = open_source(saved(image, "PNG")).page(1).render(None)
    assert pixels[0, 0].tolist() == [255, 255, 255]
    assert pixels[30, 30].tolist() == [0, 0, 0]


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "CMYK", "I;16"])
def test_modes(mode, printed):
    kind = "JPEG" if mode == "CMYK" else "PNG"
    if mode == "I;16":
        image = Image.fromarray(np.asarray(printed).astype(np.uint16) * 257)
    elif mode == "CMYK":
        image = printed.convert("RGB").convert("CMYK")
    else:
        image = printed.convert(mode)
    pixels = open_source(saved(image, kind)).page(1).render(None)
    assert pixels.dtype == np.uint8
    # Dithering and JPEG move single pixels, never the paper or the print as a whole.
    assert np.abs(pixels.mean() - np.asarray(printed).mean()) < 4


def test_bilevel_fax_polarity(printed):
    pixels = open_source(saved(printed.convert("1"), "TIFF", compression="group4")).page(1).render(None)
    assert np.median(pixels) == 255


@pytest.mark.parametrize("dpi", [None, (1, 1), (72, 72), (200, 200), (30000, 30000)])
def test_pages_have_the_size_of_a_sheet(printed, dpi):
    options = {} if dpi is None else {"dpi": dpi}
    facts = open_source(saved(printed, "PNG", **options)).page(1).look()
    assert 200 < facts.height < 3600
    assert facts.height / facts.width == pytest.approx(877 / 620)
    if dpi == (200, 200):
        assert facts.height == pytest.approx(877 * 72 / 200, rel=1e-3)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x89PNG\r\n\x1a\n" + b"junk" * 20, b"GIF89a" + b"\0" * 40])
def test_what_is_no_document_is_refused(content):
    with pytest.raises(InputError):
        open_source(content)


def test_a_tiff_cut_off_between_its_pages_keeps_the_whole_ones_and_names_the_loss():
    frames = [Image.fromarray(np.full((60 + i, 50), 250 - i, np.uint8)) for i in range(4)]
    content = saved(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    # Pages are written one after the other, directory first: the third one lacks pixels, the fourth everything.
    with warnings.catch_warnings(action="ignore"):
        source = open_source(content[: len(content) * 5 // 8])
        assert source.page_count == 4
        for number in (3, 4):
            with pytest.raises(InputError, match=f"image {number} is corrupt"):
                source.page(number).render(None)
    for number in (1, 2):
        assert source.page(number).render(None).shape == (59 + number, 50, 3)
