"""The crops: the line as drawn, with its margins, and nothing of its neighbours."""

import numpy as np
import pytest
from drawn_lines import column, draw, random_text
from PIL import Image

from ocria.document.lines import find_lines

PAGE = (480, 620)


def ink_of(gray):
    ys, xs = np.nonzero(gray < 128)
    return gray[ys.min() : ys.max() + 1, xs.min() : xs.max() + 1]


def likeness(a, b):
    """Correlation of two grey images brought to one size."""
    b = np.asarray(Image.fromarray(b).resize((a.shape[1], a.shape[0]), Image.BICUBIC))
    return float(np.corrcoef(a.ravel().astype(float), b.ravel().astype(float))[0, 1])


@pytest.mark.parametrize("seed", range(3))
def test_crop_is_the_line_as_drawn(seed):
    r = np.random.default_rng()
    drawn = draw(column(r, 50, 70, 12, 56, ["tiro", "helv", "cour"][seed], 10.5), PAGE)
    found = find_lines(drawn.gray, 200).lines
    assert len(found) == 12
    for line, (_, layer) in zip(found, drawn.layers, strict=True):
        assert line.crop.dtype == np.uint8
        # One pixel of shift between the two halves the correlation of thin strokes; it must not be there.
        assert likeness(ink_of(layer), ink_of(line.crop)) > 0.97


@pytest.mark.parametrize("degrees", [-3.0, 1.7])
def test_crop_of_a_skewed_page_is_straight(degrees):
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    r = np.random.default_rng(seed)
    drawn = draw(column(r, 50, 80, 12, 52, "tiro", 11), PAGE)
    turned = np.asarray(Image.fromarray(drawn.gray).rotate(-degrees, Image.BICUBIC, fillcolor=255))
    found = find_lines(turned, 200).lines
    assert len(found) == 12
    alike = []
    for line, (_, layer) in zip(found, drawn.layers, strict=True):
        # Twice resampled, and up to a pixel of residual slope: 0.93 at the median, 0.68 at worst so far.
        alike.append(likeness(ink_of(layer), ink_of(line.crop)))
    # In one page of a hundred the blur joins two lines, and the crop of one shows half of the other.
    assert sorted(alike)[2] > 0.5
    assert np.median(alike) > 0.8


def test_margins():
    r = np.random.default_rng()
    drawn = draw(column(r, 50, 80, 8, 50, "tiro", 12), PAGE)
    for line in find_lines(drawn.gray, 200).lines:
        ys, xs = np.nonzero(line.crop < 128)
        height = ys.max() + 1 - ys.min()
        for margin in (ys.min(), line.crop.shape[0] - 1 - ys.max()):
            # 10 %, to the next pixel, and the grey edge of the glyphs.
            assert 0.04 * height <= margin <= 0.16 * height + 2
        for margin in (xs.min(), line.crop.shape[1] - 1 - xs.max()):
            assert 0.2 * height <= margin <= 0.4 * height + 2


def test_tight_lines_do_not_show_in_each_others_crops():
    r = np.random.default_rng()
    # Leading below the font size: descenders reach into the ascenders of the next line.
    lines = [(50, 80 + 11.2 * k, random_text(r, 56), "tiro", 12) for k in range(12)]
    drawn = draw(lines, PAGE)
    found = find_lines(drawn.gray, 200).lines
    assert len(found) == 12
    for line, (_, layer) in zip(found, drawn.layers, strict=True):
        alone = ink_of(layer)
        # Ink of neighbours would add to the share; glyphs that touch across lines are cut midway.
        ours = (line.crop < 128).sum()
        assert ours == pytest.approx((alone < 128).sum(), rel=0.06)


def test_x_height_and_baseline():
    r = np.random.default_rng()
    drawn = draw([(50, 100 + 30 * k, "xenon vacuum " + random_text(r, 30), "tiro", 14) for k in range(8)], PAGE)
    for k, line in enumerate(find_lines(drawn.gray, 200).lines):
        # Times has an x-height of 0.45 em.
        assert line.x_height == pytest.approx(0.45 * 14 * 200 / 72, rel=0.12)
        assert line.baseline == pytest.approx((100 + 30 * k) * 200 / 72, abs=2)
