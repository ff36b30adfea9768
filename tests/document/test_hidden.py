"""Only text that a person can see comes out of a page."""

import io
import random

import numpy as np
import pymupdf
import pytest
from PIL import Image

from ocria.document.hidden import hidden_text, text_layer, without_hidden_text
from ocria.document.layout import lay_out
from ocria.document.page_copy import copy_page
from ocria.document.pdf import PdfSource

WORDS = ["harbour", "ledger", "lantern", "meadow", "copper", "violet", "thunder", "orchard", "gravel", "saddle"]


@pytest.fixture
def rng():
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture
def page(rng):
    """A page with three plain lines, which must always come out."""
    pdf = pymupdf.open()
    page = pdf.new_page(width=rng.randint(400, 700), height=rng.randint(500, 800))
    for row in range(3):
        page.insert_text((60, 60 + 18 * row), f"plain{row} words of this page that everybody can read", fontsize=11)
    return page


def words(rng):
    return " ".join(rng.sample(WORDS, 3))


def shown(page):
    """What the layout gets of the page, spaces folded, and the page's facts."""
    pdf = pymupdf.open(stream=page.parent.tobytes())
    out = without_hidden_text(copy_page(pdf, 0)[0])[0].get_text()
    return " ".join(out.split()), PdfSource("page", pdf.tobytes(), "").page(1).look()


def box_of(page, text):
    return page.search_for(text)[0]


def picture(rng, width=60, height=20):
    pixels = np.random.default_rng(rng.randrange(2**32)).integers(0, 255, (height, width, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def white(page, at, text, rng):
    page.insert_text(at, text, color=(1, 1, 1))


def nearly_white(page, at, text, rng):
    page.insert_text(at, text, color=(0.985,) * 3)


def like_its_panel(page, at, text, rng):
    color = tuple(rng.random() for _ in range(3))
    page.draw_rect((at[0] - 20, at[1] - 20, at[0] + 300, at[1] + 10), color=color, fill=color)
    page.insert_text(at, text, color=color)


def invisible(page, at, text, rng):
    page.insert_text(at, text, render_mode=3)


def transparent(page, at, text, rng):
    page.insert_text(at, text, fill_opacity=0)


def tiny(page, at, text, rng):
    page.insert_text(at, text, fontsize=rng.uniform(0.2, 0.9))


def outside(page, at, text, rng):
    x, y = rng.choice([(-200, at[1]), (page.rect.width + 5, at[1]), (at[0], -10), (at[0], page.rect.height + 30)])
    page.insert_text((x, y), text)


def under_a_rectangle(page, at, text, rng):
    page.insert_text(at, text)
    grey = rng.random()
    page.draw_rect((at[0] - 5, at[1] - 15, at[0] + 300, at[1] + 6), color=None, fill=(grey,) * 3)


def under_a_picture(page, at, text, rng):
    page.insert_text(at, text)
    page.insert_image((at[0] - 5, at[1] - 15, at[0] + 300, at[1] + 6), stream=picture(rng), keep_proportion=False)


def clipped(page, at, text, rng):
    page.insert_font("helv", "helv")
    xref = page.get_contents()[-1]
    x, y = at[0], page.rect.height - at[1]
    drawn = f"\nq {x} {y + 40} 200 10 re W n BT /helv 11 Tf 1 0 0 1 {x} {y} Tm ({text}) Tj ET Q\n"
    page.parent.update_stream(xref, page.parent.xref_stream(xref) + drawn.encode())


def layer_off(page, at, text, rng):
    page.insert_text(at, text, oc=page.parent.add_ocg("draft", on=False))


HIDDEN = [
    white, nearly_white, like_its_panel, invisible, transparent, tiny, outside, under_a_rectangle, under_a_picture,
    clipped, layer_off,
]  # fmt: skip


@pytest.mark.parametrize("rotation", [0, 90])
@pytest.mark.parametrize("hide", HIDDEN, ids=lambda hide: hide.__name__)
def test_hidden_words_do_not_come_out(page, rng, hide, rotation):
    text = words(rng)
    hide(page, (rng.randint(60, 90), rng.randint(200, 400)), text, rng)
    page.set_rotation(rotation)
    out, facts = shown(page)
    assert not any(word in out for word in text.split()), out
    assert all(f"plain{row} words of this page that everybody can read" in out for row in range(3))
    assert facts.letters == 3 * len("plain0wordsofthispagethateverybodycanread")
    if hide is not layer_off:
        assert facts.hidden_letters == len(text.replace(" ", ""))


def grey(page, at, text, rng):
    level = rng.uniform(0, 0.87)
    page.insert_text(at, text, color=(level,) * 3)


def coloured(page, at, text, rng):
    page.insert_text(at, text, color=rng.choice([(1, 1, 0), (0, 1, 1), (0, 1, 0), (1, 0.8, 0.8), (0.2, 0.1, 1)]))


def white_on_colour(page, at, text, rng):
    page.draw_rect((at[0] - 5, at[1] - 15, at[0] + 300, at[1] + 6), color=None, fill=(0, rng.random() / 2, 0.5))
    page.insert_text(at, text, color=(1, 1, 1))


def on_a_picture(page, at, text, rng):
    page.insert_image((at[0] - 5, at[1] - 15, at[0] + 300, at[1] + 6), stream=picture(rng), keep_proportion=False)
    page.insert_text(at, text, color=(1, 0, 0))


def highlighted(page, at, text, rng):
    page.insert_text(at, text)
    page.add_highlight_annot(box_of(page, text))


def half_transparent(page, at, text, rng):
    page.insert_text(at, text, fill_opacity=rng.uniform(0.15, 0.9))


def under_glass(page, at, text, rng):
    page.insert_text(at, text)
    page.draw_rect((at[0] - 5, at[1] - 15, at[0] + 300, at[1] + 6), color=None, fill=(0, 0, 1), fill_opacity=0.3)


def outlined(page, at, text, rng):
    page.insert_text(at, text, render_mode=rng.choice([1, 2]))


def over_replaced_words(page, at, text, rng):
    page.insert_text(at, "obsolete statement beneath")
    page.draw_rect((at[0] - 5, at[1] - 15, at[0] + 300, at[1] + 6), color=None, fill=(1, 1, 1))
    page.insert_text(at, text)


def layer_on(page, at, text, rng):
    page.parent.add_ocg("off", on=False)
    page.insert_text(at, text, oc=page.parent.add_ocg("on", on=True))


def small(page, at, text, rng):
    page.insert_text(at, text, fontsize=rng.uniform(4, 6))


VISIBLE = [
    grey, coloured, white_on_colour, on_a_picture, highlighted, half_transparent, under_glass, outlined,
    over_replaced_words, layer_on, small,
]  # fmt: skip


@pytest.mark.parametrize("rotation", [0, 270])
@pytest.mark.parametrize("draw", VISIBLE, ids=lambda draw: draw.__name__)
def test_visible_words_come_out(page, rng, draw, rotation):
    text = words(rng)
    draw(page, (rng.randint(60, 90), rng.randint(200, 400)), text, rng)
    page.set_rotation(rotation)
    out, _ = shown(page)
    assert text in out
    assert "obsolete" not in out


def test_a_black_bar_hides_just_the_words_under_it(page, rng):
    text = words(rng)
    page.insert_text((60, 300), f"The witness {text} signed it.", fontsize=12)
    bar = box_of(page, text)
    page.draw_rect((bar.x0 - 1, bar.y0, bar.x1 + 1, bar.y1), color=(0, 0, 0), fill=(0, 0, 0))
    out, _ = shown(page)
    assert "The witness" in out
    assert "signed it." in out
    assert not any(word in out for word in text.split())


def test_letters_drawn_twice_come_out_once(page, rng):
    text = words(rng).upper() + " 1,100.00 ill"
    size = rng.uniform(7, 13)
    x, y = rng.uniform(-0.12, 0.12) * size, rng.uniform(-0.1, 0.1) * size
    page.insert_text((60, 300), text, fontsize=size, color=(0.6, 0.6, 0.6))
    page.insert_text((60 + x, 300 + y), text, fontsize=size)
    out, _ = shown(page)
    assert out.count("ill") == 1
    assert text in out


def test_real_repeats_stay(page, rng):
    text = rng.choice(["ill will fill all", "1111 0000 1111", "zoo book moon", "aa aa aa", "lll iii ..."])
    size = rng.uniform(6, 20)
    for i, letter in enumerate(text):
        # Every letter placed alone, as some producers do.
        page.insert_text((60 + pymupdf.get_text_length(text[:i], fontsize=size), 300), letter, fontsize=size)
    assert hidden_text(page) == []


def test_the_layout_has_what_shows_alone(page, rng):
    secret, text = rng.sample(WORDS, 3), words(rng)
    for hide, word in zip(rng.sample(HIDDEN, 3), secret, strict=True):
        hide(page, (60, 200 + 40 * secret.index(word)), word, rng)
    page.insert_text((60, 400), f"Shown: {text}.")
    out = " ".join(block.text for block in lay_out(page.parent, 0).blocks)
    assert f"Shown: {text}." in out
    assert not any(word in out.replace(text, "") for word in secret)


def test_the_page_is_left_as_it_is(page, rng):
    white(page, (60, 200), words(rng), rng)
    before = page.read_contents(), page.get_text(), page.rotation
    text_layer(page)
    lay_out(page.parent, 0)
    assert (page.read_contents(), page.get_text(), page.rotation) == before


def test_hidden_words_still_help_the_model(page, rng):
    text = words(rng)
    invisible(page, (60, 300), text, rng)
    words_of = PdfSource("page", page.parent.tobytes(), "").page(1).words()
    assert set(text.split()) <= {word.text for word in words_of}


def test_a_page_without_text(rng):
    page = pymupdf.open().new_page()
    assert hidden_text(page) == []
    page.draw_circle((100, 100), 50, fill=(0, 0, 0))
    assert hidden_text(page) == []


def test_the_reading_of_a_scan_is_laid_out_where_there_is_nothing_else(rng):
    pdf = pymupdf.open()
    page = pdf.new_page(width=400, height=300)
    page.insert_image(page.rect, stream=picture(rng, 40, 30), keep_proportion=False)
    text = words(rng)
    invisible(page, (60, 100), text, rng)
    page.insert_text((180, 290), "7", fontsize=9)
    assert shown(page)[1].hidden_letters == len(text.replace(" ", ""))
    assert text in shown(page)[0]
