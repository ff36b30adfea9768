"""Image preprocessing against transformers' PIL image processor, bit for bit."""

import json

import numpy as np
import pytest
from PIL import Image

from ocria.errors import ConfigError, InputError
from ocria.model.image import ImageConfig, preprocess, target_size

transformers = pytest.importorskip("transformers")
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil  # noqa: E402

PUBLISHED = {
    "size": {"shortest_edge": 65536, "longest_edge": 16777216},
    "patch_size": 16,
    "merge_size": 2,
    "temporal_patch_size": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "do_convert_rgb": True,
}


def noise(rng, width, height, mode="RGB"):
    channels = len(Image.new(mode, (1, 1)).getbands())
    array = rng.integers(0, 256, (height, width, channels), dtype=np.uint8)
    return Image.fromarray(array[:, :, 0] if channels == 1 else array, mode)


def assert_equal_to_reference(image, settings, resize=True):
    switch = {} if resize else {"do_resize": False}
    reference = Qwen2VLImageProcessorPil(**settings)(images=image, return_tensors="pt", **switch)
    pixel_values, grid = preprocess(image, ImageConfig.from_dict(settings), resize)
    assert grid == tuple(reference["image_grid_thw"][0].tolist())
    assert pixel_values.dtype == reference["pixel_values"].dtype
    assert pixel_values.shape == reference["pixel_values"].shape
    assert np.array_equal(pixel_values.numpy(), reference["pixel_values"].numpy())


@pytest.mark.parametrize(
    "size",
    [(850, 1100), (333, 257), (48, 48), (16, 240), (700, 90), (31, 1800), (80, 112), (1, 90), (2600, 13)],
    ids=lambda size: f"{size[0]}x{size[1]}",
)
def test_sizes(size):
    assert_equal_to_reference(noise(np.random.default_rng(), *size), PUBLISHED)


@pytest.mark.parametrize(
    ("patch", "merge", "time"), [(14, 2, 2), (16, 1, 1), (8, 3, 2), (7, 2, 3), (16, 4, 1)]
)
def test_patch_geometry(patch, merge, time):
    settings = PUBLISHED | {"patch_size": patch, "merge_size": merge, "temporal_patch_size": time}
    settings |= {"size": {"shortest_edge": 3000, "longest_edge": 90000}}
    settings |= {"image_mean": [0.48, 0.45, 0.41], "image_std": [0.27, 0.26, 0.28]}
    assert_equal_to_reference(noise(np.random.default_rng(), 411, 297), settings)


def test_limits_shrink_and_enlarge():
    rng = np.random.default_rng()
    for size in ((90, 70), (640, 950)):
        settings = PUBLISHED | {"size": {"shortest_edge": 30_000, "longest_edge": 110_000}}
        assert_equal_to_reference(noise(rng, *size), settings)


@pytest.mark.parametrize("mode", ["L", "RGBA", "LA", "CMYK", "P", "1"])
def test_modes(mode):
    rng = np.random.default_rng()
    image = noise(rng, 333, 222).convert(mode) if mode in ("P", "1") else noise(rng, 333, 222, mode)
    assert_equal_to_reference(image, PUBLISHED)


def test_palette_with_a_transparent_colour():
    image = noise(np.random.default_rng(), 120, 97).convert("P")
    image.info["transparency"] = 7
    assert_equal_to_reference(image, PUBLISHED)


def test_transparent_black_is_white():
    image = Image.new("RGBA", (256, 256), (0, 0, 0, 0))
    pixel_values, _ = preprocess(image, ImageConfig.from_dict(PUBLISHED))
    assert pixel_values.unique().tolist() == [1.0]


def test_without_resizing():
    rng = np.random.default_rng()
    assert_equal_to_reference(noise(rng, 224, 64), PUBLISHED, resize=False)
    with pytest.raises(InputError, match="multiples of 32"):
        preprocess(noise(rng, 225, 64), ImageConfig.from_dict(PUBLISHED), resize=False)


@pytest.mark.parametrize("switch", ["do_rescale", "do_normalize", "do_resize"])
def test_switches(switch):
    assert_equal_to_reference(noise(np.random.default_rng(), 96, 64), PUBLISHED | {switch: False})


def test_grey_model():
    settings = PUBLISHED | {"do_convert_rgb": False, "image_mean": [0.6], "image_std": [0.3]}
    assert_equal_to_reference(noise(np.random.default_rng(), 257, 129, "L"), settings)


def test_arrays_equal_images():
    rng = np.random.default_rng()
    config = ImageConfig.from_dict(PUBLISHED)
    for shape in ((75, 91), (75, 91, 1), (75, 91, 3), (75, 91, 4)):
        array = rng.integers(0, 256, shape, dtype=np.uint8)
        image = Image.fromarray(array[:, :, 0] if shape[2:] == (1,) else array)
        assert preprocess(array, config)[0].equal(preprocess(image, config)[0])


def test_halves_round_to_even():
    # 48 and 80 lie half-way between multiples of 32: Python rounds 1.5 up to 2 and 2.5 down to 2.
    config = ImageConfig.from_dict(PUBLISHED | {"size": {"shortest_edge": 1, "longest_edge": 16777216}})
    assert target_size(48, 80, config) == (64, 64)
    assert config.tokens(48, 80) == 4


@pytest.mark.parametrize(("size", "tokens"), [((1275, 1650), 2080), ((1700, 2200), 3657)])
def test_letter_pages(size, tokens):
    assert ImageConfig.from_dict(PUBLISHED).tokens(size[1], size[0]) == tokens


def test_faulty_images():
    config = ImageConfig.from_dict(PUBLISHED)
    with pytest.raises(InputError, match="at most 200"):
        preprocess(Image.new("L", (2010, 10)), config)
    with pytest.raises(InputError, match="not 8-bit"):
        preprocess(Image.new("F", (64, 64)), config)
    with pytest.raises(InputError, match="float64"):
        preprocess(np.zeros((64, 64)), config)
    with pytest.raises(InputError, match="empty"):
        preprocess(np.zeros((0, 64), dtype=np.uint8), config)


def test_thinner_than_half_a_token_without_a_lower_limit():
    settings = PUBLISHED | {"size": {"shortest_edge": 1, "longest_edge": 10**7}}
    assert_equal_to_reference(Image.new("RGB", (12, 900), (90, 0, 7)), settings)


class TestConfig:
    def test_reads_what_transformers_saves(self, tmp_path):
        Qwen2VLImageProcessorPil(**PUBLISHED).save_pretrained(tmp_path)
        path = tmp_path / "preprocessor_config.json"
        assert ImageConfig.from_file(path) == ImageConfig.from_dict(PUBLISHED)

    def test_reads_the_nested_form(self, tmp_path):
        path = tmp_path / "processor_config.json"
        path.write_text(json.dumps({"image_processor": PUBLISHED, "processor_class": "Qwen3VLProcessor"}))
        assert ImageConfig.from_file(path) == ImageConfig.from_dict(PUBLISHED)

    def test_older_spelling_of_the_limits(self):
        older = {key: value for key, value in PUBLISHED.items() if key != "size"}
        older |= {"min_pixels": 65536, "max_pixels": 16777216}
        assert ImageConfig.from_dict(older) == ImageConfig.from_dict(PUBLISHED)

    def test_unknown_key_names_the_nearest(self, tmp_path):
        path = tmp_path / "preprocessor_config.json"
        path.write_text(json.dumps(PUBLISHED | {"patchsize": 16}))
        with pytest.raises(ConfigError, match=r"patchsize.*'patch_size'") as caught:
            ImageConfig.from_file(path)
        assert caught.value.path == str(path)

    @pytest.mark.parametrize(
        "fault",
        [
            {"patch_size": 0},
            {"size": {"shortest_edge": 9, "longest_edge": 8}},
            {"image_std": [0.5]},
            {"do_center_crop": True},
            {"resample": 17},
            {"size": {"shortest": 9}},
        ],
        ids=str,
    )
    def test_faults(self, fault):
        with pytest.raises(ConfigError):
            ImageConfig.from_dict(PUBLISHED | fault)

    def test_missing_or_broken_file(self, tmp_path):
        path = tmp_path / "preprocessor_config.json"
        with pytest.raises(ConfigError, match="not found"):
            ImageConfig.from_file(path)
        path.write_text("{")
        with pytest.raises(ConfigError, match="JSON"):
            ImageConfig.from_file(path)

    def test_with_limits_is_a_copy(self):
        config = ImageConfig.from_dict(PUBLISHED)
        assert config.with_limits(max_pixels=70000).max_pixels == 70000
        assert config.with_limits() == config
