"""The rows that one pass of the decoder computes."""

from dataclasses import dataclass, field
from functools import cached_property

import torch


@dataclass(frozen=True)
class Window:
    """B requests x T rows, of which request b uses the first `count[b]`; the rest is padding.

    slots `[B]` int64: the state row of each request (0 is the dummy, the only one that may repeat);
    start `[B]` int64: the KV row (`seq_index`) of row 0; count `[B]` int64 in 0..T;
    cos, sin fp32 `[B, T, rotary_dim]` from the 3-D rotary positions, which are not the KV rows after an image;
    kv_len: host upper bound of max(start + count), so that no pass waits for the device.

    What the host knows besides, for shorter ways to the same result:
    run: the slots are these consecutive ones; full: every count is T; fresh: every start is 0 and the slots were
    reset.
    """

    slots: torch.Tensor
    start: torch.Tensor
    count: torch.Tensor
    cos: torch.Tensor
    sin: torch.Tensor
    kv_len: int
    run: slice | None = None
    full: bool = False
    fresh: bool = False
    _rows: dict[int, torch.Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def valid(self) -> torch.Tensor:
        """bool `[B, T]`: rows that are not padding."""
        return torch.arange(self.cos.shape[1], device=self.count.device) < self.count[:, None]

    @cached_property
    def kv_rows(self) -> torch.Tensor:
        """int64 `[B, T]`: the KV row of each row; padding keeps counting."""
        return self.start[:, None] + torch.arange(self.cos.shape[1], device=self.start.device)

    @cached_property
    def mask(self) -> torch.Tensor:
        """fp32 `[B, 1, T, kv_len]`: what is added to the scores, 0 up to each row's own key and -inf beyond."""
        keys = torch.arange(self.kv_len, device=self.start.device)
        beyond = keys > self.kv_rows[:, None, :, None]
        return torch.zeros(beyond.shape, device=beyond.device).masked_fill_(beyond, float("-inf"))

    def flat_rows(self, max_len: int) -> torch.Tensor:
        """int64 `[B * T]`: where each row goes in a cache of `[slots * max_len]` rows; padding into the dummy."""
        if max_len not in self._rows:
            # Padding may run past the last row.
            rows = self.kv_rows.clamp(max=max_len - 1)
            slots = self.slots[:, None] if self.full else torch.where(self.valid, self.slots[:, None], 0)
            self._rows[max_len] = (slots * max_len + rows).flatten()
        return self._rows[max_len]
