"""Blank is decided from pixels."""

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from ocria.document.ink import ink_mask, is_blank

SIZE = (792, 612)


@pytest.fixture
def rng():
    return np.random.default_rng()


def test_plain_pages_are_blank():
    for level in (0, 90, 200, 255):
        assert is_blank(np.full(SIZE, level, np.uint8))


def test_noise_is_blank(rng):
    for spread in (5, 20, 35):
        noise = 235 + spread * rng.standard_normal(SIZE)
        assert is_blank(noise.clip(0, 255).astype(np.uint8))


def test_uneven_light_is_blank(rng):
    down, across = np.mgrid[0 : SIZE[0], 0 : SIZE[1]]
    light = 250 - 120 * (down / SIZE[0]) * (across / SIZE[1]) + rng.normal(0, 4, SIZE)
    assert is_blank(light.clip(0, 255).astype(np.uint8))


def test_a_ghost_of_the_other_side_is_blank():
    image = Image.new("L", SIZE[::-1], 255)
    draw = ImageDraw.Draw(image)
    for row in range(20):
        draw.text((60, 60 + 30 * row), "words printed on the other side", font=ImageFont.load_default(14), fill=224)
    assert is_blank(np.asarray(image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)))


@pytest.mark.parametrize("paper", [255, 215])
@pytest.mark.parametrize("text", ["7", "12", "iv"])
def test_a_page_number_alone_is_not_blank(paper, text):
    # Drawn large and averaged down, as a renderer would.
    image = Image.new("L", (SIZE[1] * 4, SIZE[0] * 4), paper)
    ImageDraw.Draw(image).text((1200, 3000), text, font=ImageFont.load_default(4 * 10), fill=20)
    assert not is_blank(np.asarray(image.resize(SIZE[::-1], Image.Resampling.BOX)))


def test_grey_print_is_not_blank():
    image = Image.new("L", SIZE[::-1], 255)
    ImageDraw.Draw(image).text((60, 60), "faint but real print", font=ImageFont.load_default(16), fill=130)
    assert not is_blank(np.asarray(image))


def test_the_mask_covers_the_print_only(rng):
    gray = np.full((101, 137), 230, np.uint8)
    gray[40:50, 30:90] = 20
    mask = ink_mask(gray)
    assert mask[42:48, 32:88].all()
    assert not mask[:38].any()
    assert not mask[52:].any()


@pytest.mark.parametrize("size", [(1, 1), (3, 500), (17, 5)])
def test_odd_sizes(size):
    assert is_blank(np.full(size, 255, np.uint8))


def test_light_print_on_a_dark_page_is_not_blank():
    image = Image.new("L", SIZE[::-1], 0)
    draw = ImageDraw.Draw(image)
    for row in range(10):
        draw.text((60, 60 + 40 * row), "white letters on black paper", font=ImageFont.load_default(18), fill=255)
    assert not is_blank(np.asarray(image.filter(ImageFilter.GaussianBlur(0.5))))
