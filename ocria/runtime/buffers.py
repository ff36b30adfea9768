"""What the device knows of every slot, beside the decoder's state. The host never writes these between steps
except when a request enters its slot."""

from dataclasses import dataclass

import torch

from ocria.model.config import TextConfig
from ocria.ops.rope import text_rope


@dataclass
class SlotBuffers:
    """One entry a slot, dummy included; the device's truth that every step starts from.

    token int64 `[slots]`: the last token, not yet in the state; seq_index int64 `[slots]`: the KV row that it will
    get; rope_delta int64 `[slots]`: its rotary position minus its KV row. cos, sin fp32 `[max_len, rotary_dim]`: by
    rotary position, equal on the three axes.
    """

    token: torch.Tensor
    seq_index: torch.Tensor
    rope_delta: torch.Tensor
    cos: torch.Tensor
    sin: torch.Tensor

    @classmethod
    def allocate(cls, config: TextConfig, slots: int, max_len: int, device: str | torch.device) -> "SlotBuffers":
        per_slot = [torch.zeros(slots, dtype=torch.int64, device=device) for _ in range(3)]
        positions = torch.arange(max_len, device=device).expand(3, max_len)
        cos, sin = text_rope(positions, config.rotary_dim, config.rope_theta, config.mrope_section)
        return cls(*per_slot, cos, sin)
