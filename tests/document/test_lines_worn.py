"""Worn print, as tills make it: broken letters, faint points, rules of dashes, specks between the lines."""

import numpy as np
from drawn_lines import close, draw

from ocria.document.lines import find_lines

PAGE = (480, 300)
TOLERANCE = 3


def page_of(texts, points=14.0):
    """The texts under each other, far enough apart that only what a test adds comes between them."""
    return draw([(50, 60 + 40 * k, text, "cour", points) for k, text in enumerate(texts)], PAGE)


def random_words(count):
    seed = int(np.random.SeedSequence().entropy % 2**32)
    print(f"seed {seed}")
    r = np.random.default_rng(seed)
    return [" ".join("".join(r.choice(list("BDEHKMNRU"), 5)) for _ in range(4)) for _ in range(count)]


def assert_boxes(lines, boxes):
    assert len(lines) == len(boxes)
    assert all(any(close(line.box, box, TOLERANCE) for line in lines) for box in boxes)


def test_the_top_of_a_broken_letter_stays_in_its_line():
    drawn = page_of(["SUBTOTAL ZERO", "EXCHANGE EIGHT", "PLEASE EXTEND"])
    page = drawn.gray.copy()
    before = [line.crop for line in find_lines(page, 200).lines]
    x0, y0, x1, _ = drawn.boxes[1]
    # A white streak under the upper strokes of the first letters: what is left of their tops are bars.
    end = x0 + (x1 - x0) // 4
    page[y0 + 3 : y0 + 5, x0:end] = 255
    lines = find_lines(page, 200).lines
    assert_boxes(lines, drawn.boxes)
    margin = (lines[1].crop.shape[1] - (x1 - x0)) // 2
    top = slice(0, (lines[1].crop.shape[0] - 12) // 4 + 2), slice(margin, margin + end - x0)
    bars, whole = ((255.0 - crop[top]).sum() for crop in (lines[1].crop, before[1]))
    # The streak itself took less than half of the upper quarter; without the bars next to nothing is left.
    assert bars > 0.4 * whole


def test_a_faint_point_is_not_painted_over():
    drawn = page_of(["RM 29 70 RM 12 90", "TOTAL RM 30 00"])
    page = drawn.gray.copy()
    x0, y0, x1, y1 = drawn.boxes[0]
    # Between two figures, where a space is, on the baseline: one black pixel with a grey hem.
    gaps = np.flatnonzero((page[y0:y1, x0:x1] < 200).sum(axis=0) == 0)
    runs = np.split(gaps, np.flatnonzero(np.diff(gaps) > 1) + 1)
    widest = max(runs, key=len)
    x = x0 + int(widest[len(widest) // 2])
    page[y1 - 3 : y1, x - 1 : x + 2] = 150
    page[y1 - 2, x] = 0
    line = find_lines(page, 200).lines[0]
    assert close(line.box, drawn.boxes[0], TOLERANCE)
    offset = (line.crop.shape[1] - (x1 - x0)) // 2 + x - x0
    assert line.crop[:, offset - 4 : offset + 5].min() < 100


def test_rules_of_dashes_are_no_lines():
    texts = random_words(4)
    drawn = page_of(texts)
    page = drawn.gray.copy()
    # Far from the text, and close over a line: an accent would stand there.
    for y in (drawn.boxes[0][3] + 40, drawn.boxes[2][1] - 14):
        for x in range(140, 900, 22):
            page[y : y + 4, x : x + 15] = 0
    assert_boxes(find_lines(page, 200).lines, drawn.boxes)


def test_a_short_rule_over_a_sum_is_no_part_of_it():
    drawn = page_of(["SUBTOTAL 38.37", "38.37", "CHANGE 7.53"])
    page = drawn.gray.copy()
    x0, y0, x1, _ = drawn.boxes[1]
    for x in range(x0, x1 - 9, 16):
        page[y0 - 8 : y0 - 5, x : x + 9] = 0
    assert_boxes(find_lines(page, 200).lines, drawn.boxes)


def test_specks_far_over_and_under_a_line_do_not_stretch_its_crop():
    drawn = page_of(["annex venue manna", "seven manner name", "nun venom"])
    page = drawn.gray.copy()
    for x0, y0, x1, y1 in drawn.boxes:
        x = (x0 + x1) // 2
        page[y0 - 19 : y0 - 15, x : x + 4] = 0
        page[y1 + 9 : y1 + 13, x : x + 4] = 0
    assert_boxes(find_lines(page, 200).lines, drawn.boxes)


def test_accents_of_capitals_and_low_marks_belong_to_their_line():
    drawn = page_of(["ÉTÉ À ÂGE ÖL Ñ", "one, two; three, four;"])
    assert_boxes(find_lines(drawn.gray, 200).lines, drawn.boxes)
