"""Image preprocessing: a page or line image becomes rows of patch pixels, and a grid.

Bit-exact with transformers' `Qwen2VLImageProcessorPil`: the side lengths (`smart_resize`), PIL's own
resampling, `pixel * rescale` in float64 rounded to float32, then `(x - mean) / std` in float32. A pixel has
only 256 values, so the arithmetic is done once per value and channel and then looked up.

Not here: rendering of pages, rotation, cropping, line normalisation. They happen before, in `document/`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from ocria.errors import ConfigError, InputError
from ocria.model.strict import read_json, reject_unknown

MAX_ASPECT_RATIO = 200
"""Longest over shortest side; the processor of the reference refuses more."""

# What transformers writes beside the fields below. None changes the pixels: cropping and padding are refused.
_BOILERPLATE = frozenset(
    {
        "image_processor_type", "processor_class", "feature_extractor_type", "auto_map", "default_to_square",
        "crop_size", "pad_size", "data_format", "input_data_format", "device", "disable_grouping",
        "return_tensors", "size_divisor", "model_input_names",
    }
)  # fmt: skip
_REFUSED = ("do_center_crop", "do_pad")
_EIGHT_BIT = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV")
# The defaults of the reference class, for keys that the file leaves out.
_CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """How a checkpoint wants its images. Pixel limits are areas in pixels after resizing."""

    patch_size: int = 14
    temporal_patch_size: int = 2
    merge_size: int = 2
    min_pixels: int = 56 * 56
    max_pixels: int = 28 * 28 * 1280
    do_resize: bool = True
    resample: int = int(Image.Resampling.BICUBIC)
    do_rescale: bool = True
    rescale_factor: float = 1 / 255
    do_normalize: bool = True
    image_mean: tuple[float, ...] = _CLIP_MEAN
    image_std: tuple[float, ...] = _CLIP_STD
    do_convert_rgb: bool = True

    def __post_init__(self):
        for name in ("patch_size", "temporal_patch_size", "merge_size", "min_pixels", "max_pixels"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"{name} must be a positive whole number, got {value!r}")
        if self.min_pixels > self.max_pixels:
            raise ConfigError(
                f"min_pixels {self.min_pixels} is above max_pixels {self.max_pixels}",
                cure="Set --min-pixels and --max-pixels so that the first is the smaller.",
            )
        if len(self.image_mean) != len(self.image_std) or len(self.image_mean) not in (1, 3):
            raise ConfigError("image_mean and image_std must both have 3 values, or 1 for a grey model")
        if self.do_convert_rgb and len(self.image_mean) != 3:
            raise ConfigError("do_convert_rgb needs 3 values in image_mean and image_std")
        if self.resample not in list(Image.Resampling):
            raise ConfigError(f"resample {self.resample!r} is not a filter of PIL")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, path: Path | None = None) -> "ImageConfig":
        """From the object in a `preprocessor_config.json`. Raises ConfigError with the key at fault."""
        known = cls.__dataclass_fields__.keys()
        reject_unknown(data, {*known, "size", *_REFUSED}, _BOILERPLATE, path=path)
        for refused in _REFUSED:
            if data.get(refused):
                raise ConfigError(f"{refused} is not part of this image processor", path=path)
        fields = {key: data[key] for key in known if data.get(key) is not None}
        fields |= _pixel_limits(data, path)
        channels = 3 if fields.get("do_convert_rgb", True) else None
        for key in ("image_mean", "image_std"):
            if key in fields:
                value = fields[key]
                values = [value] * (channels or 1) if isinstance(value, (int, float)) else value
                fields[key] = tuple(float(item) for item in values)
        try:
            return cls(**fields)
        except ConfigError as error:
            raise ConfigError(error.message, path=path, cure=error.cure) from error

    @classmethod
    def from_file(cls, path: Path | str) -> "ImageConfig":
        """From `preprocessor_config.json`, or from `processor_config.json`, which nests the same object."""
        path = Path(path)
        data = read_json(path)
        if path.name == "processor_config.json":
            data = data.get("image_processor")
            if not isinstance(data, dict):
                raise ConfigError("has no image_processor", path=path)
        return cls.from_dict(data, path=path)

    @property
    def channels(self) -> int:
        return len(self.image_mean)

    @property
    def factor(self) -> int:
        """Side lengths are multiples of this; one image token covers factor x factor pixels."""
        return self.patch_size * self.merge_size

    @property
    def patch_dim(self) -> int:
        """Width of a row of pixel values: C * T * P * P."""
        return self.channels * self.temporal_patch_size * self.patch_size**2

    def with_limits(self, min_pixels: int | None = None, max_pixels: int | None = None) -> "ImageConfig":
        """A copy with other area limits; None keeps the present one."""
        limits = {"min_pixels": min_pixels, "max_pixels": max_pixels}
        return replace(self, **{key: value for key, value in limits.items() if value is not None})

    def tokens(self, height: int, width: int, resize: bool = True) -> int:
        """Image tokens that an image of this size becomes."""
        height, width = target_size(height, width, self, resize)
        return (height // self.factor) * (width // self.factor)


def target_size(height: int, width: int, config: ImageConfig, resize: bool = True) -> tuple[int, int]:
    """(height, width) in pixels that the network sees.

    With `resize`, each side goes to the nearest multiple of the factor (halves to even, as Python rounds),
    and an area outside the limits is scaled into them. Without it the size must already fit.
    Raises InputError for an empty image, a ratio of the sides above 200, or a size that does not fit.
    """
    if height < 1 or width < 1:
        raise InputError(f"the image is empty ({width}x{height} pixels)")
    ratio = max(height, width) / min(height, width)
    if ratio > MAX_ASPECT_RATIO and resize and config.do_resize:
        raise InputError(
            f"the image is {ratio:.0f} times longer than wide ({width}x{height} pixels); "
            f"the model takes at most {MAX_ASPECT_RATIO}",
            cure="Split it, or crop away its empty parts.",
        )
    factor = config.factor
    if not (resize and config.do_resize):
        if height % factor or width % factor:
            raise InputError(
                f"the image is {width}x{height} pixels; without resizing both must be multiples of {factor}",
                cure="Pad the image, or allow resizing.",
            )
        return height, width
    rows, columns = round(height / factor) * factor, round(width / factor) * factor
    if rows * columns > config.max_pixels:
        beta = math.sqrt((height * width) / config.max_pixels)
        rows = max(factor, math.floor(height / beta / factor) * factor)
        columns = max(factor, math.floor(width / beta / factor) * factor)
    elif rows * columns < config.min_pixels:
        beta = math.sqrt(config.min_pixels / (height * width))
        rows = math.ceil(height * beta / factor) * factor
        columns = math.ceil(width * beta / factor) * factor
    return rows, columns


def preprocess(
    image: Image.Image | np.ndarray, config: ImageConfig, resize: bool = True, distinct: bool = False
) -> tuple[torch.Tensor, tuple[int, int, int]]:
    """Pixel values and grid of one image.

    `image`: a PIL image of 8-bit channels, or a uint8 array [H, W], [H, W, 1], [H, W, 3] or [H, W, 4].
    Transparent pixels are composited on white. Returns `pixel_values` float32 [N, C*T*P*P], rows in
    merge-block order (block row, block column, row in block, column in block) and columns in the order
    (channel, time, row, column), and `grid_thw` = (1, H/P, W/P) with N = H/P * W/P.
    `distinct`: without what repeats, as `PatchEmbed` takes it too: one time slice, [N, C*P*P], and of a grey image
    whose channels are normalised alike one channel, [N, P*P].
    Raises InputError for what cannot be read as an image or does not fit.
    """
    tables = _value_tables(config)
    if distinct and _is_grey(image) and (tables == tables[0]).all():
        tables = tables[:1]  # every channel would hold the same bytes, resized or not
    channels = len(tables)
    flat = _flatten(image, channels)
    height, width = target_size(flat.height, flat.width, config, resize)
    if resize and config.do_resize:
        # Also when the size is right already: the reference calls it then too, and PIL returns a copy.
        flat = flat.resize((width, height), resample=config.resample)
    pixels = np.asarray(flat).reshape(height, width, channels)

    patch, merge, time = config.patch_size, config.merge_size, 1 if distinct else config.temporal_patch_size
    rows, columns = height // patch, width // patch
    blocks = pixels.reshape(rows // merge, merge, patch, columns // merge, merge, patch, channels)
    blocks = blocks.transpose(0, 3, 1, 4, 6, 2, 5).reshape(rows * columns, channels, patch * patch)
    values = np.empty((rows * columns, channels, time, patch * patch), dtype=np.float32)
    for channel, table in enumerate(tables):
        values[:, channel] = table[blocks[:, channel]][:, None]  # a still image: every time slice alike
    return torch.from_numpy(values.reshape(rows * columns, -1)), (1, rows, columns)


def _is_grey(image: Image.Image | np.ndarray) -> bool:
    if isinstance(image, np.ndarray):
        return image.shape[2:] in ((), (1,))
    return image.mode == "L" and image.info.get("transparency") is None


def _value_tables(config: ImageConfig) -> np.ndarray:
    """[C, 256] float32: what each pixel value becomes, in the reference's order of roundings."""
    values = np.arange(256, dtype=np.float32)
    if config.do_rescale:
        values = (np.arange(256, dtype=np.float64) * config.rescale_factor).astype(np.float32)
    if not config.do_normalize:
        return np.broadcast_to(values, (config.channels, 256))
    mean = np.array(config.image_mean, dtype=np.float32)[:, None]
    std = np.array(config.image_std, dtype=np.float32)[:, None]
    return (values[None] - mean) / std


def _flatten(image: Image.Image | np.ndarray, channels: int) -> Image.Image:
    """An RGB or grey image without transparency."""
    if isinstance(image, np.ndarray):
        depth = image.shape[2:] or (1,)
        if image.dtype != np.uint8 or image.ndim not in (2, 3) or depth[0] not in (1, 3, 4):
            raise InputError(f"{image.dtype} {list(image.shape)} is not an image; uint8 [H, W, 1|3|4] is")
        if 0 in image.shape:
            raise InputError("the image is empty")
        image = Image.fromarray(image[:, :, 0] if image.shape[2:] == (1,) else image)
    if image.mode not in _EIGHT_BIT:
        raise InputError(f"the image's mode {image.mode} is not 8-bit", cure="Convert it to RGB first.")
    if "A" in image.getbands() or image.info.get("transparency") is not None:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (255, 255, 255, 255)), image)
    return image.convert("RGB" if channels == 3 else "L")


def _pixel_limits(data: Mapping[str, Any], path: Path | None) -> dict[str, int]:
    """The area limits, from `size` (today's spelling) or from the older `min_pixels` and `max_pixels`."""
    size = data.get("size")
    limits = {}
    if size is not None:
        if not isinstance(size, Mapping):
            raise ConfigError(f"size must be an object, got {size!r}", path=path)
        spelled = {"shortest_edge": "min_pixels", "longest_edge": "max_pixels"}
        spelled |= {name: name for name in spelled.values()}
        # transformers writes every field of its size class, most of them null
        unused = [key for key in ("height", "width", "max_height", "max_width") if size.get(key) is None]
        reject_unknown(size, spelled, unused, path=path, where="size")
        limits = {spelled[key]: value for key, value in size.items() if key in spelled and value is not None}
    for name in ("min_pixels", "max_pixels"):
        if data.get(name) is not None:
            limits[name] = data[name]
    return limits
