"""Everything the decoder remembers of its requests, indexed by slot. Slot 0 is a dummy for padding."""

from dataclasses import dataclass

import torch

from ocria.model.config import TextConfig


@dataclass
class DecoderState:
    """One entry per layer, None where the layer kind has no such state.

    keys, values `[slots, Hkv, max_len, head_dim]`; delta fp32 `[slots, Hv, Dk, Dv]`;
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
            kv = (slots, config.num_key_value_heads, max_len, config.head_dim)
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

    @staticmethod
    def bytes_per_slot(config: TextConfig, max_len: int, dtype: torch.dtype) -> int:
        """Memory of one slot in bytes, for planning before anything is allocated."""
        meta = DecoderState.allocate(config, 1, max_len, dtype, "meta")
        tensors = (*meta.keys, *meta.values, *meta.delta, *meta.conv)
        return sum(t.numel() * t.element_size() for t in tensors if t is not None)
