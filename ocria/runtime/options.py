"""Settings of an engine."""

from dataclasses import dataclass

from ocria.errors import UsageError


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Sizes and policies; the dtype and the device are the network's own.

    `max_batch`: most requests that run at once. `max_len`: most rows (prompt and output) of a request; None: what
    the checkpoint and the memory allow. `memory_bytes`: for the state of all slots; None: half of the free memory.
    `prefill_rows`: padded rows of one prefill pass; longer prompts are cut into chunks. `encoder_patches`: patches
    of one pass of the vision encoder (an image that is larger gets a pass of its own). `admit_group`: new requests
    wait until this many can start together, unless fewer are left or nothing runs; None: a quarter of `max_batch`.
    `stream_interval_s`: text of a request is sent at most this often. `tick_interval_s`: likewise for EngineTick.
    """

    max_batch: int = 64
    max_len: int | None = None
    memory_bytes: int | None = None
    prefill_rows: int = 2048
    encoder_patches: int = 4096
    admit_group: int | None = None
    stream_interval_s: float = 0.05
    tick_interval_s: float = 0.25

    def __post_init__(self):
        for name in ("max_batch", "prefill_rows", "encoder_patches"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("max_len", "memory_bytes", "admit_group"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, got {value}")

    @property
    def group(self) -> int:
        """Requests that start together."""
        return min(self.max_batch, self.admit_group or max(1, self.max_batch // 4))
