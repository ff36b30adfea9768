"""The rows that one pass of the decoder computes."""

from dataclasses import dataclass

import torch

from ocria.ops.attention import score_mask


@dataclass(frozen=True)
class Window:
    """B requests x T rows, of which request b uses the first `count[b]`; the rest is padding.

    slots `[B]` int64: the state row of each request (0 is the dummy, the only one that may repeat);
    length `[B]` int64: the `seq_index` of row 0, which is how many rows the slot holds; count `[B]` int64 in 0..T;
    cos, sin fp32 `[B, T, rotary_dim]` from the 3-D rotary positions, which are not the KV rows after an image;
    kv_len: host upper bound of max(length + count), so that no pass waits for the device.

    A *step* (decode, verify) has two cursors more: folded `[B]` int64, how many of the slot's rows are in its
    checkpoint, and flush bool `[B]`, whether this pass folds the others. Without them the pass is a *prefill*, after
    which all rows are in the checkpoint.

    What the host knows besides, for shorter ways to the same result:
    first_slot: the slots are this one and those after it, in order; full: every count is T; fresh: every length is 0
    and the slots were reset.

    What follows from these, computed once for all layers (see `prefill`):
    kv_rows `[B, T]` int64: where each row goes in a cache of `[slots * max_len]` rows, padding into the dummy;
    conv_rows: likewise in the ring of the short convolution, by `ocria.ops.conv.ring_rows`, or None;
    valid bool `[B, T]`: rows that are not padding, None when full; mask fp32 `[B, 1, T, kv_len]`: what is added to the
    scores, 0 up to each row's own key and -inf beyond, None where the causal mask of the rows alone does.
    """

    slots: torch.Tensor
    length: torch.Tensor
    count: torch.Tensor
    cos: torch.Tensor
    sin: torch.Tensor
    kv_len: int
    folded: torch.Tensor | None = None
    flush: torch.Tensor | None = None
    first_slot: int | None = None
    full: bool = False
    fresh: bool = False
    kv_rows: torch.Tensor | None = None
    conv_rows: torch.Tensor | None = None
    valid: torch.Tensor | None = None
    mask: torch.Tensor | None = None

    @property
    def is_step(self) -> bool:
        return self.folded is not None

    @classmethod
    def prefill(
        cls,
        slots: torch.Tensor,
        length: torch.Tensor,
        count: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        kv_len: int,
        max_len: int,
        *,
        first_slot: int | None = None,
        full: bool = False,
        fresh: bool = False,
    ) -> "Window":
        """A prefill into a state of `max_len` rows a slot."""
        index = torch.arange(cos.shape[1], device=length.device)
        rows = length[:, None] + index
        valid = None if full else index < count[:, None]
        # Padding may run past the last row.
        owner = slots[:, None] if valid is None else torch.where(valid, slots[:, None], 0)
        kv_rows = owner * max_len + rows.clamp(max=max_len - 1)
        mask = None if fresh else score_mask(length, cos.shape[1], kv_len, torch.float32)
        known = {"first_slot": first_slot, "full": full, "fresh": fresh}
        return cls(slots, length, count, cos, sin, kv_len, **known, kv_rows=kv_rows, valid=valid, mask=mask)

    @classmethod
    def whole(cls, cos: torch.Tensor, sin: torch.Tensor, batch: int) -> "Window":
        """Whole sequences without a state, as in training: nothing is padding, nothing came before."""
        every = torch.arange(batch, device=cos.device)
        rows = torch.full_like(every, cos.shape[1])
        return cls(every, torch.zeros_like(every), rows, cos, sin, cos.shape[1], full=True, fresh=True)
