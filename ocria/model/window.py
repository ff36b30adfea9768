"""The rows that one pass of the decoder computes."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Window:
    """B requests x T rows, of which request b uses the first `count[b]`; the rest is padding.

    slots `[B]` int64: the state row of each request (0 is the dummy, the only one that may repeat);
    start `[B]` int64: the KV row (`seq_index`) of row 0; count `[B]` int64 in 0..T;
    cos, sin fp32 `[B, T, rotary_dim]` from the 3-D rotary positions, which are not the KV rows after an image;
    kv_len: host upper bound of max(start + count), so that no pass waits for the device.
    """

    slots: torch.Tensor
    start: torch.Tensor
    count: torch.Tensor
    cos: torch.Tensor
    sin: torch.Tensor
    kv_len: int

    def valid(self) -> torch.Tensor:
        """bool `[B, T]`: rows that are not padding."""
        return torch.arange(self.cos.shape[1], device=self.count.device) < self.count[:, None]

    def kv_rows(self) -> torch.Tensor:
        """int64 `[B, T]`: the KV row of each row; padding keeps counting and is written to the dummy slot."""
        return self.start[:, None] + torch.arange(self.cos.shape[1], device=self.start.device)
