"""Pages that lie on their side or upside down."""

import numpy as np
import pymupdf
import pytest
from made import FakeReader, draw_lines, scan_pdf

import ocria
import ocria.events
from ocria.document.geometry import turn_back
from ocria.document.reader import ReadText
from ocria.document.upright import ascender_share, is_sideways, upright_lines

TEXT = [
    "The captain of the old schooner kept his hands behind",
    "his back and looked along the quay, where the nets had",
    "been hung up to dry and the gulls were walking about.",
    "Nobody had told him that the tide would be so late.",
]


@pytest.fixture(params=[0, 90, 180, 270])
def turned(request):
    """A page that must be turned clockwise by this many degrees to be read, and the degrees."""
    page = draw_lines(TEXT)
    return np.ascontiguousarray(np.rot90(page, request.param // 90)), request.param


def test_sideways_pages_are_seen(turned):
    page, degrees = turned
    assert is_sideways(page) == (degrees in (90, 270))


def test_the_page_is_turned_upright_by_its_pixels_alone(turned):
    page, degrees = turned
    found = upright_lines(page, 150, None)
    assert found.turned == degrees
    assert np.array_equal(found.gray, draw_lines(TEXT))
    assert len(found.lines) == len(TEXT)


def test_ascenders_tell_which_way_is_up():
    crops = [line.crop for line in upright_lines(draw_lines(TEXT), 150, None).lines]
    assert ascender_share(crops) > 0.65
    assert ascender_share([crop[::-1, ::-1] for crop in crops]) < 0.35
    assert ascender_share([]) == ascender_share([np.full((30, 90), 255, np.uint8)]) == 0.5


@pytest.mark.parametrize("better", [True, False])
def test_capitals_are_decided_by_reading(better):
    asked = []

    def confidence(crops):
        asked.append(len(crops))
        return 0.9 if (len(asked) == 1) == better else 0.4

    page = draw_lines(["CAPITALS TELL NOTHING HERE", "AS THEY ALL STAND ALIKE", "ON BOTH THEIR ENDS AND EDGES"])
    assert upright_lines(page, 150, confidence).turned == (180 if better else 0)
    assert asked == [3, 3]


def test_sparse_and_empty_pages_are_left_alone():
    for page in (np.full((300, 200), 255, np.uint8), draw_lines(["7"]), np.zeros((3, 900), np.uint8)):
        assert not is_sideways(page)
        assert upright_lines(page, 72, None).turned == 0


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_boxes_turn_back_onto_the_displayed_page(degrees):
    rng = np.random.default_rng()
    width, height = 40, 70
    page = np.zeros((height, width), np.uint8)
    x0, y0 = int(rng.integers(0, 30)), int(rng.integers(0, 60))
    page[y0 : y0 + 5, x0 : x0 + 8] = 1
    rows, columns = np.nonzero(np.rot90(page, -degrees // 90))
    box = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    assert turn_back(box, degrees, width, height) == (x0, y0, x0 + 8, y0 + 5)


def test_a_sideways_scan_is_read_and_its_boxes_stay_on_the_displayed_page(turned):
    page, degrees = turned
    events = []
    document = ocria.parse(scan_pdf(page), reader=FakeReader(TEXT), on_event=events.append)
    only = document.pages[0]
    assert only.rotation == degrees
    assert " ".join(only.text.split()) == " ".join(TEXT)
    scale = 72 / 150
    assert (only.width, only.height) == pytest.approx((page.shape[1] * scale, page.shape[0] * scale), abs=0.01)
    rows, columns = np.nonzero(page < 128)
    ink = np.array([columns.min(), rows.min(), columns.max(), rows.max()]) * scale
    for boxes in (
        [block.box for block in only.blocks],
        next(event for event in events if isinstance(event, ocria.events.LinesFound)).boxes,
    ):
        around = pymupdf.Rect()
        for box in boxes:
            around |= pymupdf.Rect(box)
        # Fonts have room above and below the ink.
        assert tuple(around) == pytest.approx(tuple(ink), abs=8)


def test_a_page_model_gets_the_upright_page(turned):
    page, degrees = turned
    reader = FakeReader([ReadText("all of it", 0.8, "ok", 5, 3)], unit="page")
    document = ocria.parse(scan_pdf(page), reader=reader)
    assert document.pages[0].rotation == degrees
    seen = reader.seen[0][0][..., 0]
    assert np.array_equal(seen, draw_lines(TEXT))
    assert document.blocks[0].box == (0.0, 0.0, document.pages[0].width, document.pages[0].height)
