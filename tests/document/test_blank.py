"""Pages without print are blank and pages with the least of it are not, whatever else is on them."""


import numpy as np
import pymupdf
import pytest
from made import scan_pdf
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from ocria.document.ink import is_blank
from ocria.document.look_pixels import look_at_pixels
from ocria.document.pdf import PdfSource

DPI = 130
WORDS = ["harbour", "ledger", "lantern", "meadow", "copper", "violet", "thunder", "orchard", "gravel", "saddle"]


def sheet(rng, paper=None):
    paper = rng.randint(225, 255) if paper is None else paper
    return Image.new("RGB", (round(8.27 * DPI), round(11.69 * DPI)), (paper,) * 3)


def text(image, at, words, points, color):
    ImageDraw.Draw(image).text(at, words, font=ImageFont.load_default(points * DPI / 72), fill=color)


def looks_blank(image):
    """As a scan in a PDF and as an image file; both must agree."""
    pdf = scan_pdf(np.asarray(image), dpi=DPI)
    answers = {PdfSource("scan", pdf, "").page(1).look().blank, look_at_pixels(image, DPI).blank}
    assert len(answers) == 1
    return answers.pop()


def ghost(rng):
    """The other side of the sheet, mirrored, faint and blurred."""
    image = sheet(rng, 255)
    for row in range(25):
        text(image, (90, 90 + 45 * row), " ".join(rng.choices(WORDS, k=8)), rng.uniform(9, 14), (0, 0, 0))
    mirrored = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).filter(ImageFilter.GaussianBlur(rng.uniform(1, 3)))
    strength = rng.uniform(0.04, 0.15)
    return Image.fromarray((255 - strength * (255 - np.asarray(mirrored, float))).astype(np.uint8))


def noise(rng):
    image = np.asarray(sheet(rng), float)
    grain = np.random.default_rng(rng.randrange(2**32)).normal(0, rng.uniform(2, 20), image.shape[:2])
    return Image.fromarray((image + grain[..., None]).clip(0, 255).astype(np.uint8))


def dust(rng):
    image = sheet(rng)
    draw = ImageDraw.Draw(image)
    for _ in range(rng.randint(1, 60)):
        x, y, size = rng.uniform(0, image.width), rng.uniform(0, image.height), rng.uniform(0.1, 0.5) * DPI / 25.4
        draw.ellipse((x, y, x + size, y + size), fill=(rng.randint(0, 90),) * 3)
    return image


def holes(rng):
    image = sheet(rng)
    draw = ImageDraw.Draw(image)
    size, from_edge = rng.uniform(5.0, 8.0) * DPI / 25.4, rng.uniform(7, 14) * DPI / 25.4
    count = rng.choice([2, 4])
    for i in range(count):
        y = image.height * (i + 1) / (count + 1)
        draw.ellipse((from_edge, y, from_edge + size, y + size), fill=(rng.randint(0, 70),) * 3)
    return image


def borders(rng):
    image = sheet(rng)
    draw = ImageDraw.Draw(image)
    for edge in rng.sample(range(4), rng.randint(1, 4)):
        wide = rng.uniform(0.01, 0.06) * image.width
        box = [(0, 0, wide, image.height), (image.width - wide, 0, image.width, image.height),
               (0, 0, image.width, wide), (0, image.height - wide, image.width, image.height)][edge]  # fmt: skip
        draw.rectangle(box, fill=(rng.randint(0, 60),) * 3)
    return image


def frame(rng):
    image = sheet(rng)
    inset = rng.uniform(0.03, 0.15) * image.width
    box = (inset, inset, image.width - inset, image.height - inset)
    ImageDraw.Draw(image).rectangle(box, outline=(rng.randint(0, 90),) * 3, width=rng.randint(1, 8))
    return image


def gradient(rng):
    down, across = np.mgrid[0:1520, 0:1075]
    light = 250 - rng.uniform(40, 200) * (down / 1520) ** rng.uniform(0.5, 2) * (across / 1075)
    return Image.fromarray(np.repeat(light.clip(0, 255).astype(np.uint8)[..., None], 3, axis=2))


def plain(rng):
    return sheet(rng, rng.choice([0, 255, rng.randint(0, 255)]))


@pytest.mark.parametrize("draw", [ghost, noise, dust, holes, borders, frame, gradient, plain], ids=lambda f: f.__name__)
def test_pages_without_print(rng, draw):
    assert looks_blank(draw(rng))


def faint_line(rng):
    image = sheet(rng, 255)
    line, grey = " ".join(rng.sample(WORDS, 4)), (rng.randint(60, 175),) * 3
    text(image, (120, rng.randint(120, 1300)), line, rng.uniform(9, 13), grey)
    return image


def page_number(rng):
    image = sheet(rng)
    text(image, (rng.randint(450, 600), 1420), str(rng.randint(1, 99)), rng.uniform(8, 11), (rng.randint(0, 60),) * 3)
    return image


def large_letter(rng):
    image = sheet(rng)
    text(image, (200, 250), rng.choice("ABEGKMRSZ8"), rng.uniform(72, 400), (0, 0, 0))
    return image


def yellow(rng):
    image = sheet(rng, 255)
    color = rng.choice([(255, 255, 0), (255, 230, 0), (0, 255, 255), (255, 170, 190)])
    text(image, (120, 400), " ".join(rng.sample(WORDS, 4)), rng.uniform(11, 16), color)
    return image


def pencil(rng):
    """Thin grey strokes."""
    image = sheet(rng, 255)
    draw = ImageDraw.Draw(image)
    for _ in range(12):
        x, y = rng.uniform(120, 800), rng.uniform(200, 1200)
        draw.arc((x, y, x + 26, y + 33), 20, 330, fill=(rng.randint(80, 150),) * 3, width=2)
    return image


def over_a_ghost(rng):
    image = ghost(rng)
    text(image, (120, 1300), rng.choice(WORDS), rng.uniform(9, 12), (40, 40, 40))
    return image


def in_dust_and_borders(rng):
    image = borders(rng)
    draw = ImageDraw.Draw(image)
    for _ in range(20):
        x, y = rng.uniform(0, image.width), rng.uniform(0, image.height)
        draw.ellipse((x, y, x + 2, y + 2), fill=(0, 0, 0))
    text(image, (320, 650), f"{rng.choice(WORDS)} {rng.randint(10, 99)}", rng.uniform(8, 12), (0, 0, 0))
    return image


def picture(rng):
    light = np.random.default_rng(rng.randrange(2**32)).uniform(0, 255, (12, 9, 3)).astype(np.uint8)
    return Image.fromarray(light).resize((1075, 1520), Image.Resampling.BICUBIC)


PRINT = [faint_line, page_number, large_letter, yellow, pencil, over_a_ghost, in_dust_and_borders, picture]


@pytest.mark.parametrize("draw", PRINT, ids=lambda f: f.__name__)
def test_pages_with_little_print(rng, draw):
    assert not looks_blank(draw(rng))


def test_born_digital_pages(rng):
    pdf = pymupdf.open()
    for color in ((1, 1, 0), (0.7, 0.7, 0.7), (0, 0, 0)):
        pdf.new_page().insert_text((300, 800), str(rng.randint(2, 9)), fontsize=9, color=color)
    pdf.new_page().draw_rect((20, 20, 575, 822), width=0.7)
    source = PdfSource("made", pdf.tobytes(), "")
    assert [source.page(n).look().blank for n in (1, 2, 3, 4)] == [False, False, False, True]


def test_odd_sizes():
    for size in ((1, 1), (2, 700), (900, 3), (1, 1, 3), (5, 5, 3)):
        assert is_blank(np.full(size, 255, np.uint8), 200)
