"""One page budget: how many image tokens, output tokens and bytes a request takes, and whether that fits.

The image processor, the scheduler, the memory plan and the error messages all ask here, so that they agree.
"""

import math
import os
from dataclasses import dataclass
from pathlib import Path

import torch

from ocria.errors import EngineError, InputError
from ocria.model.config import ModelConfig
from ocria.model.image import ImageConfig
from ocria.model.profiles import Profile
from ocria.model.state import DecoderState
from ocria.runtime.options import EngineOptions

LEN_BUCKET = 128
"""State is allocated in multiples of this many rows a slot."""
_LOOP_PER_IMAGE_TOKEN = {"line": 6.0, "page": 1.5}
_LOOP_LEAST = {"line": 32, "page": 256}


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """`slots` requests of up to `max_len` rows; `bytes` of state, the dummy slot included."""

    slots: int
    max_len: int
    bytes: int


class PageBudget:
    """Answers for one checkpoint on one machine. `image` is None for a text-only checkpoint."""

    def __init__(
        self,
        config: ModelConfig,
        image: ImageConfig | None,
        profile: Profile,
        options: EngineOptions,
        dtype: torch.dtype,
        device: torch.device,
    ):
        self.config, self.image, self.profile, self.options, self.dtype = config, image, profile, options, dtype
        self.memory_bytes = options.memory_bytes or free_memory(device) // 2
        self.unit = profile.unit if profile.unit in _LOOP_LEAST else "page"

    def image_tokens(self, height: int, width: int) -> int:
        """Tokens that an image of this many pixels becomes. Raises InputError where the processor refuses it."""
        if self.image is None:
            raise InputError("this checkpoint has no vision encoder", cure="Choose a model that reads images.")
        return self.image.tokens(height, width)

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
                cure="Lower --max-pixels or --max-output-tokens, or raise the memory limit.",
            )
        return min(wanted, room)

    def loop_tokens(self, image_tokens: int) -> int:
        """Repeated tokens that the image can still hold."""
        return max(_LOOP_LEAST[self.unit], math.ceil(_LOOP_PER_IMAGE_TOKEN[self.unit] * image_tokens))

    @property
    def max_len(self) -> int:
        """Most rows of one request: the least of option, checkpoint and memory."""
        limits = [self.config.text.max_position_embeddings, self._memory_rows()]
        if self.options.max_len is not None:
            limits.append(self.options.max_len)
        return max(0, min(limits))

    def plan(self, rows: int) -> MemoryPlan:
        """State for requests of `rows` rows: as many slots as asked for, or as the memory holds.

        Raises EngineError when not even one fits.
        """
        limit = self.config.text.max_position_embeddings
        max_len = min(math.ceil(rows / LEN_BUCKET) * LEN_BUCKET, max(limit, rows))
        each = self._slot_bytes(max_len)
        if 2 * each > self.memory_bytes:
            max_len, each = rows, self._slot_bytes(rows)
        slots = min(self.options.max_batch, self.memory_bytes // each - 1)
        if slots < 1:
            raise EngineError(
                f"{rows} rows of state take {2 * each / 2**20:.0f} MiB, and "
                f"{self.memory_bytes / 2**20:.0f} MiB are free",
                cure="Lower --max-pixels or --max-output-tokens, or raise the memory limit.",
            )
        return MemoryPlan(slots, max_len, (slots + 1) * each)

    def _slot_bytes(self, rows: int) -> int:
        return DecoderState.bytes_per_slot(self.config.text, rows, self.dtype)

    def _memory_rows(self) -> int:
        """Rows of one request when it has the memory to itself, beside the dummy slot."""
        fixed = self._slot_bytes(0)
        each = self._slot_bytes(1) - fixed
        return (self.memory_bytes // 2 - fixed) // each if each else self.config.text.max_position_embeddings


def free_memory(device: torch.device) -> int:
    """Bytes that may still be allocated on a GPU, or in main memory without swapping."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    # Not Linux: half of the installed memory.
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
