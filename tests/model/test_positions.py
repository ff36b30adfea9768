"""3-D rotary positions against transformers' `get_rope_index`."""

import random

import pytest
import torch

from ocria.errors import InputError
from ocria.model.positions import rope_positions

pytest.importorskip("transformers")
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

IMAGE = 7


@pytest.fixture(scope="module")
def reference():
    """`get_rope_index` of a model with merge 2; its weights are never looked at."""
    config = Qwen3_5Config(image_token_id=IMAGE)
    config.text_config.num_hidden_layers = config.vision_config.depth = 0
    config.text_config.layer_types = []
    with torch.device("meta"):
        model = Qwen3_5ForConditionalGeneration(config).model

    def positions(ids, grids):
        ids = torch.tensor([ids])
        grids = torch.tensor(grids) if grids else None
        found, delta = model.get_rope_index(ids, (ids == IMAGE).int(), image_grid_thw=grids)
        return found[:, 0], int(delta)

    return positions


def prompt(*parts):
    """Ids and grids from parts: a number is that much text, a pair a grid of patches."""
    ids, grids = [], []
    for part in parts:
        if isinstance(part, tuple):
            grids.append((1, *part))
            ids += [IMAGE] * (part[0] * part[1] // 4)
        else:
            ids += random.choices(range(8, 90), k=part)
    return ids, grids


@pytest.mark.parametrize(
    "parts",
    [
        (11,),
        (1,),
        (3, (4, 6), 5),
        ((10, 2), 4),
        (2, (2, 2)),
        (5, (6, 14), 1, (22, 2), 9, (2, 18), 3),
        (4, (26, 34), 2, (34, 26), 2, (2, 2), 1),
    ],
    ids=str,
)
def test_equals_reference(reference, parts):
    ids, grids = prompt(*parts)
    positions, delta = rope_positions(ids, IMAGE, grids, merge=2)
    expected, expected_delta = reference(ids, grids)
    assert positions.dtype == torch.int64
    assert positions.equal(expected)
    assert delta == expected_delta


def test_drawn_prompts(reference):
    for _ in range(30):
        parts = [random.randint(1, 9)]
        for _ in range(random.randint(0, 4)):
            parts += [(2 * random.randint(1, 12), 2 * random.randint(1, 12)), random.randint(1, 6)]
        ids, grids = prompt(*parts)
        positions, delta = rope_positions(torch.tensor(ids), IMAGE, grids, merge=2)
        expected, expected_delta = reference(ids, grids)
        assert positions.equal(expected)
        assert delta == expected_delta


def test_a_known_prompt():
    # A grid of 4 x 6 patches at 3 is 2 x 3 tokens; the text after it goes on at 3 + 3.
    ids, grids = prompt(3, (4, 6), 2)
    positions, delta = rope_positions(ids, IMAGE, grids, merge=2)
    assert positions.tolist() == [
        [0, 1, 2, 3, 3, 3, 3, 3, 3, 6, 7],
        [0, 1, 2, 3, 3, 3, 4, 4, 4, 6, 7],
        [0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7],
    ]
    assert delta == -3


@pytest.mark.parametrize("merge", [1, 3])
def test_other_merges(merge):
    rows, columns = 2 * merge, 5 * merge
    positions, delta = rope_positions([IMAGE] * 10 + [9], IMAGE, [(1, rows, columns)], merge)
    assert positions[1:, :10].unique(dim=1).shape == (2, 10)
    assert positions[:, -1].tolist() == [5, 5, 5]
    assert delta == 6 - 11


def test_empty_prompt():
    positions, delta = rope_positions([], IMAGE, [], 2)
    assert positions.shape == (3, 0)
    assert delta == 0


@pytest.mark.parametrize(
    ("ids", "grids", "message"),
    [
        ([9, IMAGE, 9], [], "no image is left"),
        ([9, 9], [(1, 2, 2)], "no tokens"),
        ([9, IMAGE, IMAGE], [(1, 2, 2)], "2 image tokens"),
        ([IMAGE], [(2, 2, 2)], "makes 2"),
    ],
)
def test_mismatches(ids, grids, message):
    with pytest.raises(InputError, match=message):
        rope_positions(ids, IMAGE, grids, 2)
