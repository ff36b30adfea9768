"""One page budget: how many image tokens, output tokens and bytes a request takes, and whether that fits.

The image processor, the scheduler, the memory plan and the error messages all ask here, so that they agree.
"""

import math
import os
import sys
from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property

import torch

from ocria.errors import InputError
from ocria.model.checkpoint import check_device, image_config
from ocria.model.config import ModelConfig
from ocria.model.hub import find_model
from ocria.model.image import MAX_ASPECT_RATIO, ImageConfig
from ocria.model.profiles import Profile, find_profile
from ocria.model.quantized import WeightBytes
from ocria.runtime.drafting import DraftChoice
from ocria.runtime.memory import (
    MemoryPlan,
    checkpoint_bytes,
    default_limit,
    free_memory,
    network_bytes,
    refusal,
    request_bytes,
    resident_bytes,
    state_parts,
    text_bytes,
    vision_bytes,
)
from ocria.runtime.options import ResolvedOptions

LEN_BUCKET = 128
"""State is allocated in multiples of this many rows a slot."""
_LOOP_PER_IMAGE_TOKEN = {"line": 6.0, "page": 4.0}
_LOOP_LEAST = {"line": 32, "page": 256}


class PageBudget:
    """Answers for one checkpoint on one machine.

    Args:
        image: None for a text-only checkpoint.
        weights: bytes of the weights as they will be on the device; None: counted from `config`.
        free: bytes that are free beside the weights; None: those free now, the weights being loaded already.
        draft_bytes: what drafting needs of a slot of so many rows.
    """

    def __init__(
        self,
        config: ModelConfig,
        image: ImageConfig | None,
        profile: Profile,
        options: ResolvedOptions,
        dtype: torch.dtype,
        device: torch.device,
        weights: int | None = None,
        free: int | None = None,
        draft_bytes: Callable[[int], int] = lambda max_len: 0,
    ):
        self.config, self.image, self.profile, self.options, self.dtype = config, image, profile, options, dtype
        self.unit = profile.unit if profile.unit in _LOOP_LEAST else "page"
        self._draft_bytes = draft_bytes
        plain = WeightBytes(network_bytes(config, dtype)) if weights is None else None
        self._weights = weights if plain is None else resident_bytes(plain, device)
        free = free_memory(device) if free is None else free
        self.memory_bytes = self.options.memory_bytes or default_limit(self._weights, free, device)

    def image_tokens(self, height: int, width: int) -> int:
        """Tokens that an image of this many pixels becomes. Raises InputError where the processor refuses it."""
        if self.image is None:
            raise InputError("this checkpoint has no vision encoder", cure="Choose a model that reads images.")
        return self.image.tokens(height, width)

    @property
    def most_image_tokens(self) -> int:
        """Those of the largest image that the processor makes; 0 for a text-only checkpoint.

        It keeps to the limits of the area but for rounding: of a strip it cannot make a side less than one token, and
        a small image grows to the smallest area with both sides rounded up.
        """
        if self.image is None:
            return 0
        largest, smallest = (area / self.image.factor**2 for area in (self.image.max_pixels, self.image.min_pixels))
        strip = math.sqrt(MAX_ASPECT_RATIO * largest)
        grown = smallest + math.sqrt(smallest) * (math.sqrt(MAX_ASPECT_RATIO) + 1) + 1
        return int(max(largest, strip, grown, 1))

    def output_tokens(self, prompt_tokens: int, image_tokens: int, asked: int | None) -> int:
        """Most output tokens of a request; what was not asked for explicitly shrinks to the room there is.

        Raises InputError when the request does not fit even so, naming every number.
        """
        room = self.max_len - prompt_tokens
        wanted = asked if asked is not None else self.profile.output_limit(image_tokens)
        if room < 1 or (asked is not None and asked > room):
            raise InputError(
                f"the request is too large: {prompt_tokens} prompt tokens ({image_tokens} of them image) and "
                f"{wanted} output tokens, where {self.max_len} fit into a request",
                cure="Lower --max-pixels or --max-output-tokens, or raise --memory.",
            )
        return min(wanted, room)

    def loop_tokens(self, image_tokens: int) -> int:
        """Repeated tokens that the image can still hold."""
        return max(_LOOP_LEAST[self.unit], math.ceil(_LOOP_PER_IMAGE_TOKEN[self.unit] * image_tokens))

    @cached_property
    def max_len(self) -> int:
        """Most rows of one request: the least of option, checkpoint, and memory, when it has that to itself."""
        most = min(self.config.text.max_position_embeddings, self.options.max_len or sys.maxsize)
        fit = bisect_right(range(most + 1), self.memory_bytes, key=lambda rows: self._plan(1, rows).total)
        return max(0, fit - 1)

    def plan(self, rows: int) -> MemoryPlan:
        """A plan for requests of `rows` rows: as many slots as asked for, or as the memory holds.

        Raises EngineError with the size of every part when not even one slot fits.
        """
        limit = self.config.text.max_position_embeddings
        max_len = min(math.ceil(rows / LEN_BUCKET) * LEN_BUCKET, max(limit, rows))
        if self._plan(1, max_len).total > self.memory_bytes:
            max_len = rows
        least = self._plan(1, max_len)
        if least.total > self.memory_bytes:
            raise refusal(least)
        each = self._plan(2, max_len).total - least.total
        return self._plan(min(self.options.max_batch, 1 + (self.memory_bytes - least.total) // each), max_len)

    def first_plan(self) -> MemoryPlan:
        """A plan for the largest image with the longest answer that it may get, as far as the memory allows.

        Raises EngineError with the size of every part when not even the image fits.
        """
        image = self.most_image_tokens
        wanted = image + self.profile.output_limit(image)
        return self.plan(max(min(wanted, self.max_len), image + 1))

    def _plan(self, slots: int, max_len: int) -> MemoryPlan:
        o, vision = self.options, self.config.vision
        patches = 0 if self.image is None else self.most_image_tokens * self.image.merge_size**2
        prompt = min(max_len, self.most_image_tokens + LEN_BUCKET) if self.image else max_len
        state = state_parts(self.config.text, max_len, self.dtype, o) | {"drafter": self._draft_bytes(max_len)}
        return MemoryPlan(
            slots,
            max_len,
            self.memory_bytes,
            weights=self._weights,
            graphs=o.graph_memory_bytes,
            vision=vision_bytes(vision, max(patches, o.encoder_patches), self.dtype) if vision and patches else 0,
            text=text_bytes(self.config.text, o.prefill_rows, max_len, self.dtype)
            + slots * request_bytes(self.config.text, prompt, self.dtype),
            **{part: amount * (slots + 1) for part, amount in state.items()},
        )


def plan_checkpoint(
    model: str | os.PathLike[str],
    options: ResolvedOptions,
    dtype: torch.dtype,
    device: torch.device,
    overrides: dict[str, object] | None = None,
    drafts: DraftChoice | None = None,
) -> MemoryPlan:
    """How a checkpoint will use the memory, by its configuration and the headers of its files; nothing is loaded.

    `overrides`: of its profile. Raises EngineError with the size of every part when it does not fit, and what
    `load_model` raises for a checkpoint that is missing or faulty.
    """
    check_device(device)
    source = find_model(model)
    config = ModelConfig.from_file(source.folder / "config.json")
    profile = find_profile(source.folder, source.name).override(**(overrides or {}))
    image = image_config(source.folder, config)
    image = image and image.with_limits(profile.min_pixels, profile.max_pixels)
    drafts = drafts or DraftChoice()
    found = checkpoint_bytes(source.folder, dtype) + drafts.weight_bytes(dtype)
    weights = resident_bytes(found, device, options.compile)
    budget = PageBudget(
        config, image, profile, options, dtype, device, weights, free_memory(device) - weights,
        lambda max_len: drafts.bytes_per_slot(max_len, dtype),
    )  # fmt: skip
    return budget.first_plan()
