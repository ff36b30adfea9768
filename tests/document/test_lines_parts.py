"""Pages without text, tiny pages, real scans, and the parts of the line finder that can be tested alone."""

import numpy as np
import pytest
from PIL import Image

from ocria.document.lines import find_lines
from ocria.document.lines.components import components, mask_of, runs_of, union
from ocria.document.lines.order import reading_order


@pytest.mark.parametrize("shape", [(1, 1), (1, 900), (7, 7), (9, 2000), (40, 33), (301, 207), (1500, 1100)])
@pytest.mark.parametrize("level", [0, 128, 255])
def test_flat_pages_have_no_lines(shape, level):
    assert find_lines(np.full(shape, level, np.uint8)).lines == []


def test_noise_alone_gives_no_crash_and_valid_lines():
    r = np.random.default_rng()
    for shape in ((64, 64), (333, 517), (900, 700)):
        page = np.clip(r.normal(235, 12, shape), 0, 255).astype(np.uint8)
        assert find_lines(page).lines == []
        for line in find_lines(r.integers(0, 256, shape).astype(np.uint8)).lines:
            assert line.crop.size
            assert line.box[2] > line.box[0]


def test_wrong_pages_are_refused():
    with pytest.raises(ValueError, match="uint8"):
        find_lines(np.zeros((10, 10, 3), np.uint8))
    with pytest.raises(ValueError, match="uint8"):
        find_lines(np.zeros((10, 10)))


@pytest.mark.parametrize("density", [0.05, 0.3, 0.55])
def test_components_equal_those_of_scipy(density):
    ndimage = pytest.importorskip("scipy.ndimage")
    r = np.random.default_rng()
    mask = r.random((r.integers(3, 120), r.integers(3, 150))) < density
    parts = components(runs_of(mask))
    labels, count = ndimage.label(mask, np.ones((3, 3)))
    assert len(parts) == count
    ours = sorted(zip(parts.x0, parts.y0, parts.x1, parts.y1, parts.area, strict=True))
    slices = ndimage.find_objects(labels)
    areas = ndimage.sum_labels(mask, labels, range(1, count + 1))
    assert ours == sorted((x.start, y.start, x.stop, y.stop, int(a)) for (y, x), a in zip(slices, areas, strict=True))
    assert (mask_of(parts.runs, mask.shape) == mask).all()


def test_union_of_random_pairs():
    r = np.random.default_rng()
    n = 200
    a, b = r.integers(0, n, 150), r.integers(0, n, 150)
    group = union(n, a, b)
    reach = np.eye(n, dtype=bool)
    reach[a, b] = reach[b, a] = True
    for _ in range(8):
        reach = (reach.astype(int) @ reach.astype(int)) > 0
    assert ((group[:, None] == group[None, :]) == reach).all()


def test_reading_order_of_a_heading_over_columns():
    left = [(0, 100 + 30 * k, 400, 125 + 30 * k) for k in range(6)]
    right = [(450, 100 + 30 * k, 850, 125 + 30 * k) for k in range(6)]
    boxes = [(0, 20, 850, 70), *left, *right, (100, 300, 700, 320)]
    shuffled = np.random.default_rng().permutation(len(boxes))
    order = reading_order(np.array(boxes, float)[shuffled])
    assert [int(shuffled[i]) for i in order] == list(range(len(boxes)))


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("old-books-dataset/min/b014.tiff", 38),
        ("old-books-dataset/otsu/e018.tiff", 33),
        ("test/testing/phototest.tif", 8),
    ],
)
def test_real_scans(sample_folder, name, lines):
    path = sample_folder / "real" / name
    if not path.exists():
        pytest.skip(f"{name} is not among the samples")
    found = find_lines(np.asarray(Image.open(path).convert("L"))).lines
    wide = [line for line in found if line.crop.shape[1] > 4 * line.crop.shape[0]]
    assert abs(len(wide) - lines) <= 2
