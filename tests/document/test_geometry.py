"""Boxes stand where a page shows its text, whatever the page says of boxes, rotation and units."""


import numpy as np
import pymupdf
import pytest
from made import FakeReader

import ocria
from ocria.document.pdf import PdfSource

LINES = ["Harbour ledgers and lanterns", "over copper meadows at night", "with kettles of violet marble"]


def odd_page(rng, image=False):
    """A PDF whose page shows three lines, some degrees turned; the lines stand wholly inside of what is displayed."""
    width, height = rng.randint(320, 700), rng.randint(320, 800)
    unit = rng.choice([1, 1, 0.75, 2])
    size = rng.uniform(9, 14)
    origin = rng.choice([0, -120, 45.5]), rng.choice([0, -33, 250])
    media = (*origin, origin[0] + width, origin[1] + height)
    inside = (media[0] + 17, media[1] + 29, media[2] - 11, media[3] - 5)
    beyond = (media[0] - 40, media[1] + 8, media[2] + 9, media[3] + 60)
    crop = rng.choice([None, inside, beyond])
    shown = media if crop is None else (*map(max, media[:2], crop[:2]), *map(min, media[2:], crop[2:]))
    direction = rng.choice([0, 90, 180, 270])
    font = pymupdf.Font("helv")
    long = max(font.text_length(line, size) for line in LINES) + 4
    room = (shown[2] - shown[0], shown[3] - shown[1])
    wide, high = (long, 60) if direction in (0, 180) else (60, long)
    x, y = shown[0] + rng.uniform(20, room[0] - wide - 20), shown[1] + rng.uniform(20, room[1] - high - 20)
    cos, sin = {0: (1, 0), 90: (0, 1), 180: (-1, 0), 270: (0, -1)}[direction]
    content = f"BT /helv {size:.3f} Tf\n"
    for row, line in enumerate(LINES):
        down = 16 * (2 - row) + 8
        # The foot of the line, its block's corner being at (x, y) whichever way it runs.
        foot = {
            0: (x, y + down), 90: (x + 60 - down, y), 180: (x + wide, y + 60 - down), 270: (x + down, y + high),
        }[direction]  # fmt: skip
        content += f"{cos} {sin} {-sin} {cos} {foot[0]:.3f} {foot[1]:.3f} Tm ({line}) Tj\n"
    pdf = pymupdf.open()
    page = pdf.new_page(width=width, height=height)
    pdf.update_stream(page_contents(pdf, page), (content + "ET").encode())
    pdf.xref_set_key(page.xref, "MediaBox", _box(media))
    if crop is not None:
        pdf.xref_set_key(page.xref, "CropBox", _box(crop))
    pdf.xref_set_key(page.xref, "UserUnit", f"{unit:g}")
    pdf.xref_set_key(page.xref, "Rotate", str(rng.choice([0, 90, 180, 270])))
    data = pdf.tobytes()
    return data, (room[0] * unit, room[1] * unit), size * unit


def _box(values):
    return f"[{' '.join(f'{v:g}' for v in values)}]"


def page_contents(pdf, page):
    """The stream of the content of a page that knows the font `helv`."""
    page.insert_text((10, 10), "x")
    return page.get_contents()[0]


def ink_of(data):
    """Where the displayed page is dark, in its points."""
    page = pymupdf.open(stream=data)[0]
    pixels = page.get_pixmap(dpi=288, colorspace=pymupdf.csGRAY)
    dark = np.frombuffer(pixels.samples, np.uint8).reshape(pixels.height, pixels.stride)[:, : pixels.width] < 128
    rows, columns = np.flatnonzero(dark.any(axis=1)), np.flatnonzero(dark.any(axis=0))
    return tuple(v / 4 for v in (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1))


def around(boxes):
    x0, y0, x1, y1 = zip(*boxes, strict=True)
    return min(x0), min(y0), max(x1), max(y1)


def check(box, ink, size):
    """Along the lines the box is as long as the ink; across them it has room for the font's ascenders."""
    across = 0 if ink[2] - ink[0] > ink[3] - ink[1] else 1
    for end in (across, across + 2):
        assert box[end] == pytest.approx(ink[end], abs=2), (box, ink)
    for end in (1 - across, 3 - across):
        assert box[end] == pytest.approx(ink[end], abs=max(2, 0.8 * size)), (box, ink)


@pytest.mark.parametrize("time", range(3))
def test_text_layers(rng, time):
    data, size, font_size = odd_page(rng)
    ink = ink_of(data)
    page = PdfSource("odd", data, "").page(1)
    facts = page.look()
    assert sorted((facts.width, facts.height)) == pytest.approx(sorted(size), abs=0.1)
    layout = page.lay_out()
    assert " ".join(" ".join(block.text for block in layout.blocks).split()) == " ".join(LINES)
    check(around([block.box for block in layout.blocks]), ink, font_size)
    check(around([word.box for word in page.words()]), ink, font_size)
    pixels = page.render(144)
    assert pixels.shape[:2] == pytest.approx((facts.height * 2, facts.width * 2), abs=2)


@pytest.mark.parametrize("time", range(3))
def test_pixels(rng, time):
    data, size, font_size = odd_page(rng)
    ink = ink_of(data)
    events = []
    document = ocria.parse(data, reader=FakeReader(LINES), mode="model", on_event=events.append)
    page = document.pages[0]
    assert sorted((page.width, page.height)) == pytest.approx(sorted(size), abs=0.1)
    assert " ".join(page.text.split()) == " ".join(LINES)
    check(around([line.box for line in page.lines]), ink, font_size)
    check(around([block.box for block in page.blocks]), ink, font_size)
    (found,) = (event for event in events if isinstance(event, ocria.events.LinesFound))
    check(around(found.boxes), ink, font_size)


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_text_at_the_very_edge_is_kept(rng, rotation):
    pdf = pymupdf.open()
    page = pdf.new_page(width=400, height=500)
    page.insert_text((100, 250), "words in the middle of the page", fontsize=11)
    for at, word in (((2, 250), "LEFT"), ((100, 9), "TOP"), ((100, 497), "BOTTOM")):
        page.insert_text(at, word, fontsize=9)
    page.insert_text((398 - pymupdf.get_text_length("RIGHT", fontsize=9), 250), "RIGHT", fontsize=9)
    page.set_rotation(rotation)
    out = " ".join(block.text for block in PdfSource("edge", pdf.tobytes(), "").page(1).lay_out().blocks)
    assert all(word in out for word in ("LEFT", "TOP", "BOTTOM", "RIGHT", "words in the middle of the page"))


@pytest.mark.parametrize("rotate", [90, 270])
def test_a_sideways_stamp_does_not_turn_the_page(rng, rotate):
    pdf = pymupdf.open()
    page = pdf.new_page(width=500, height=600)
    for row, line in enumerate(LINES * 3):
        page.insert_text((100, 100 + 16 * row), line, fontsize=11)
    page.insert_text((40, 300), "arXiv:2402.00159v2 stamp", fontsize=14, rotate=rotate)
    layout = PdfSource("stamp", pdf.tobytes(), "").page(1).lay_out()
    out = " ".join(" ".join(block.text for block in layout.blocks).split())
    assert layout.turned == 0
    assert " ".join(LINES * 3) in out
    assert "arXiv:2402.00159v2 stamp" in out


def test_huge_pages_are_rendered_more_coarsely():
    pdf = pymupdf.open()
    page = pdf.new_page(width=200, height=300)
    page.insert_text((50, 60), "words")
    pdf.xref_set_key(page.xref, "UserUnit", "400")
    pixels = PdfSource("huge", pdf.tobytes(), "").page(1).render(300)
    assert max(pixels.shape) <= 20_000
    assert pixels.shape[0] * pixels.shape[1] <= 41_000_000
    assert pixels.min() < 128
