"""Everything the decoder remembers of its requests, indexed by slot. Slot 0 is a dummy for padding."""

from dataclasses import dataclass

import torch

from ocria.model.config import TextConfig
from ocria.model.window import Window


@dataclass
class DecoderState:
    """One entry per layer, None where the layer kind has no such state.

    keys, values `[slots, max_len, Hkv, head_dim]`; delta fp32 `[slots, Hv, Dk, Dv]`;
    conv `[slots, K - 1, conv_dim]`: the last inputs of the short convolution.
    """

    keys: list[torch.Tensor | None]
    values: list[torch.Tensor | None]
    delta: list[torch.Tensor | None]
    conv: list[torch.Tensor | None]
    max_len: int

    @classmethod
    def allocate(
        cls, config: TextConfig, slots: int, max_len: int, dtype: torch.dtype, device: str | torch.device = "cpu"
    ) -> "DecoderState":
        """Zeroed state for `slots` requests (dummy included) of up to `max_len` rows each."""
        keys, values, delta, conv = [], [], [], []
        for kind in config.layer_types:
            full = kind == "full_attention"
            kv = (slots, max_len, config.num_key_value_heads, config.head_dim)
            keys.append(torch.zeros(kv, dtype=dtype, device=device) if full else None)
            values.append(torch.zeros(kv, dtype=dtype, device=device) if full else None)
            shape = (slots, config.linear_num_value_heads, config.linear_key_head_dim, config.linear_value_head_dim)
            delta.append(None if full else torch.zeros(shape, dtype=torch.float32, device=device))
            shape = (slots, config.linear_conv_kernel_dim - 1, config.conv_dim)
            conv.append(None if full else torch.zeros(shape, dtype=dtype, device=device))
        return cls(keys, values, delta, conv, max_len)

    def reset(self, slot: int) -> None:
        """Make a slot ready for a new request: everything is zero.

        KV rows too: rows beyond a request's own take part in batched attention with weight zero, and zero times a
        NaN that an earlier request left behind is NaN.
        """
        for tensor in (*self.keys, *self.values, *self.delta, *self.conv):
            if tensor is not None:
                tensor[slot].zero_()

    def append(self, layer: int, window: Window, k: torch.Tensor, v: torch.Tensor) -> None:
        """Write the KV rows of a pass, k and v `[B, T, Hkv, head_dim]`; padding goes to the dummy slot."""
        rows = window.flat_rows(self.max_len)
        for cache, new in ((self.keys[layer], k), (self.values[layer], v)):
            cache.flatten(0, 1).index_copy_(0, rows, new.flatten(0, 1).to(cache.dtype))

    def seen(self, layer: int, window: Window) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values `[B, Hkv, kv_len, head_dim]` of the window's slots."""
        k, v = (
            take(cache[layer][:, : window.kv_len], window).transpose(1, 2) for cache in (self.keys, self.values)
        )
        return k, v

    @staticmethod
    def bytes_per_slot(config: TextConfig, max_len: int, dtype: torch.dtype) -> int:
        """Memory of one slot in bytes, for planning before anything is allocated."""
        meta = DecoderState.allocate(config, 1, max_len, dtype, "meta")
        tensors = (*meta.keys, *meta.values, *meta.delta, *meta.conv)
        return sum(t.numel() * t.element_size() for t in tensors if t is not None)


def take(tensor: torch.Tensor, window: Window) -> torch.Tensor:
    """The rows of the window's slots from `[slots, ...]`: a view where the slots are consecutive, else a copy."""
    return tensor[window.run] if window.run is not None else tensor.index_select(0, window.slots)


def put(tensor: torch.Tensor, window: Window, rows: torch.Tensor) -> None:
    """Set the rows of the window's slots in `[slots, ...]`, cast to its dtype."""
    if window.run is not None:
        tensor[window.run] = rows
    else:
        tensor.index_copy_(0, window.slots, rows.to(tensor.dtype))
