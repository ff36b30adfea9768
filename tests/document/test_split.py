from itertools import pairwise

import numpy as np
import pytest
from made import draw_lines

from ocria.document.split import split_wide


def test_narrow_lines_stay_whole():
    crop = np.zeros((40, 300), np.uint8)
    assert [piece.shape for piece in split_wide(crop, 300)] == [(40, 300)]


@pytest.mark.parametrize("most", [401, 700, 1500])
def test_cuts_fall_between_words(most):
    text = "there are many short words on this long line " * 4
    crop = draw_lines([text], size=(2900, 60), font_size=30, top=10)[:, 100:]
    crop = crop[:, : np.flatnonzero((crop < 128).any(0))[-1] + 20]
    pieces = split_wide(crop, most)
    assert len(pieces) == -(-crop.shape[1] // most)
    assert np.array_equal(np.concatenate(pieces, axis=1), crop)
    assert max(piece.shape[1] for piece in pieces) <= 1.3 * most
    for left, right in pairwise(pieces):
        # The paper around a cut is wider than the gap between two letters of this size.
        assert (left[:, -2:] > 200).all()
        assert (right[:, :2] > 200).all()


def test_a_line_without_gaps_is_cut_all_the_same():
    noise = np.random.default_rng().integers(0, 255, (30, 1000), np.uint8)
    pieces = split_wide(noise, 300)
    assert np.array_equal(np.concatenate(pieces, axis=1), noise)
    assert len(pieces) == 4
