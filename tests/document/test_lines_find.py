"""Lines of drawn pages: each found whole and alone, whatever else is on the page."""

import numpy as np
import pytest
from drawn_lines import assert_each_found_once, column, corners, draw, random_text
from PIL import Image

from ocria.document.lines import find_lines

PAGE = (480, 620)
# Grey edges of anti-aliased glyphs fall on either side of the adaptive threshold.
TOLERANCE = 3


def rng():
    seed = int(np.random.SeedSequence().entropy % 2**32)
    print(f"seed {seed}")
    return np.random.default_rng(seed)


@pytest.mark.parametrize("face", ["tiro", "helv", "cour", "tibi"])
@pytest.mark.parametrize("points", [7.3, 11.0, 15.7])
def test_prose_in_one_column(face, points):
    r = rng()
    lines = column(r, 43.7, 60, 12, int(420 / points), face, points)
    drawn = draw(lines, PAGE)
    result = find_lines(drawn.gray, 200)
    assert_each_found_once(result.lines, drawn.boxes, TOLERANCE)
    assert result.skew == 0
    assert [line.box[1] for line in result.lines] == sorted(line.box[1] for line in result.lines)


@pytest.mark.parametrize("count", [2, 3])
def test_columns_are_apart_and_read_one_after_the_other(count):
    r = rng()
    width = 420 / count
    lines = []
    for c in range(count):
        # Slightly different leading, so that the lines of two columns are not always level.
        # So few characters that even wide ones leave a gutter.
        lines += column(r, 30 + c * (width + 4), 50, 14, int(width / 7.5), "tiro", 10)
    drawn = draw(lines, PAGE)
    found = find_lines(drawn.gray, 200).lines
    assert_each_found_once(found, drawn.boxes, TOLERANCE)
    order = [min(range(len(lines)), key=lambda k: abs(np.array(f.box) - drawn.boxes[k]).sum()) for f in found]
    assert order == list(range(len(lines)))


def test_heading_footnote_and_page_number_on_one_page():
    r = rng()
    lines = [(40, 60, random_text(r, 14), "hebo", 28.0), (220, 600, str(r.integers(10, 99)), "tiro", 9)]
    lines += column(r, 40, 110, 9, 62, "tiro", 11)
    lines += column(r, 40, 540, 3, 100, "tiro", 6.5)
    drawn = draw(lines, PAGE)
    assert_each_found_once(find_lines(drawn.gray, 200).lines, drawn.boxes, TOLERANCE)


@pytest.mark.parametrize("degrees", [-4.6, -3.0, -1.1, 0.7, 3.0])
def test_skewed_page(degrees):
    r = rng()
    drawn = draw(column(r, 50, 80, 16, 58, "tiro", 10.5), PAGE)
    page = Image.fromarray(drawn.gray)
    turned = np.asarray(page.rotate(-degrees, Image.BICUBIC, fillcolor=255))
    result = find_lines(turned, 200)
    # Half of a quarter step of the search, and what the glyph feet of a page this small can tell.
    assert abs(result.skew - degrees) < 0.15
    assert len(result.lines) == len(drawn.boxes)
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    middle = np.array(page.size) / 2
    for line, (x0, y0, x1, y1) in zip(result.lines, drawn.boxes, strict=True):
        level = (corners(line) - middle) @ np.array([[cos, -sin], [sin, cos]]) + middle
        found = np.concatenate([level.min(axis=0), level.max(axis=0)])
        # Resampling and the residual angle over a line of a thousand pixels.
        assert np.abs(found - (x0, y0, x1, y1)).max() <= 7, f"{found} for {(x0, y0, x1, y1)}"


def test_borders_specks_and_rules_are_left_out():
    r = rng()
    drawn = draw(column(r, 50, 80, 14, 60, "tiro", 10.5), PAGE)
    page = drawn.gray.copy()
    page[:, :34] = 0
    page[-41:, :] = 12
    for y, x in zip(r.integers(0, page.shape[0], 80), r.integers(0, page.shape[1], 80), strict=True):
        if not any(x0 - 25 < x < x1 + 25 and y0 - 25 < y < y1 + 25 for x0, y0, x1, y1 in drawn.boxes):
            page[y : y + 2, x : x + 3] = 0
    page[150:153, 120:1100] = 0
    page[1500:1506, 120:1100] = 30
    page[160:1490, 1290:1293] = 0
    assert_each_found_once(find_lines(page, 200).lines, drawn.boxes, TOLERANCE)


def test_rule_under_and_through_text_does_not_join_or_lengthen_lines():
    r = rng()
    drawn = draw(column(r, 60, 80, 10, 55, "helv", 11), PAGE)
    page = drawn.gray.copy()
    for k in (2, 6):
        x0, y0, x1, y1 = drawn.boxes[k]
        # An underline that touches the descenders and reaches beyond the text on both sides.
        page[y1 - 6 : y1 - 3, x0 - 40 : x1 + 60] = 0
    x0, y0, x1, y1 = drawn.boxes[4]
    page[(y0 + y1) // 2 : (y0 + y1) // 2 + 2, x0 - 30 : x1 + 30] = 0
    found = find_lines(page, 200).lines
    assert len(found) == 10
    for line, box in zip(found, drawn.boxes, strict=True):
        # The stroke under a comma may go with the rule it touches.
        assert np.abs(np.array(line.box) - box).max() <= 8


def test_table_cells_are_lines_of_their_own():
    r = rng()
    lines = [
        (50 + 130 * c, 90 + 24 * k, random_text(r, 5) if c == 0 else f"{r.uniform(0, 999):.2f}", "helv", 10)
        for k in range(7)
        for c in range(3)
    ]
    drawn = draw(lines, PAGE)
    page = drawn.gray.copy()
    scale = 200 / 72
    for k in range(8):
        y = int((74 + 24 * k) * scale)
        page[y : y + 2, int(44 * scale) : int(434 * scale)] = 0
    for c in range(4):
        x = int((44 + 130 * c) * scale)
        page[int(74 * scale) : int(242 * scale), x : x + 2] = 0
    found = find_lines(page, 200).lines
    assert_each_found_once(found, drawn.boxes, TOLERANCE)
    rows = [round((line.box[1] + line.box[3]) / 2 / (24 * scale)) for line in found]
    assert rows == sorted(rows)


def test_light_text_on_a_dark_bar():
    r = rng()
    drawn = draw([(60, 50, random_text(r, 30), "hebo", 13), *column(r, 50, 110, 8, 55, "tiro", 11)], PAGE)
    page = drawn.gray.copy()
    x0, y0, x1, y1 = drawn.boxes[0]
    bar = (slice(y0 - 22, y1 + 22), slice(x0 - 60, x1 + 200))
    page[bar] = 255 - page[bar]
    found = find_lines(page, 200).lines
    assert_each_found_once(found, drawn.boxes, TOLERANCE)
    assert np.median(found[0].crop) > 200
    assert (found[0].crop < 100).mean() > 0.05


def test_uneven_light():
    r = rng()
    drawn = draw(column(r, 50, 80, 14, 58, "tiro", 11), PAGE)
    light = np.linspace(0.45, 1, drawn.gray.shape[1])[None, :] * np.linspace(1, 0.7, drawn.gray.shape[0])[:, None]
    page = np.clip((30 + drawn.gray * 0.85) * light + r.normal(0, 4, drawn.gray.shape), 0, 255).astype(np.uint8)
    found = find_lines(page, 200).lines
    assert_each_found_once(found, drawn.boxes, TOLERANCE)
    for line in found:
        # The paper comes out white, so that nothing downstream needs to know about the light.
        assert np.percentile(line.crop, 60) > 235


def test_a_drop_capital_is_no_part_of_two_lines():
    r = rng()
    lines = [(50, 108, "W", "tibo", 36), *[(96, 80 + 14 * k, random_text(r, 42), "tiro", 11) for k in range(3)]]
    lines += [(50, 122 + 14 * k, random_text(r, 50), "tiro", 11) for k in range(5)]
    drawn = draw(lines, PAGE)
    assert_each_found_once(find_lines(drawn.gray, 200).lines, drawn.boxes, TOLERANCE)


def test_small_print_at_a_coarse_resolution():
    r = rng()
    drawn = draw(column(r, 50, 80, 20, 80, "tiro", 8), PAGE, dpi=90)
    result = find_lines(drawn.gray, 90)
    # At 90 dpi a full stop is one grey pixel that the drawn box does not count.
    assert_each_found_once(result.lines, drawn.boxes, TOLERANCE + 2)
    assert any("twice" in note for note in result.notes)
