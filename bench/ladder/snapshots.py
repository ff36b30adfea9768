"""The state as it is kept without ReplaySSM: a snapshot after every token of a block, one of them copied back.

A bench-only reference. Where drafts are verified in blocks, the state of a Gated DeltaNet has to be taken back to the
last token that held. The plain way is to write the whole state out after each token of the block, and to copy the right
one back before the next. Cursors are those of the engine: with the least ring that a block allows, `folded` is the
length before the last step, so that `length - folded` says which snapshot is right, and 0 that a prompt was computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ocria.errors import UsageError
from ocria.model import deltanet
from ocria.ops.delta import delta_step_


class Snapshots:
    """The snapshots of one engine: fp32 `[slots, T, Hv, Dk, Dv]` for each of its layers."""

    def __init__(self):
        self._of: dict[int, torch.Tensor] = {}  # by where the layer's checkpoint lies

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Gated DeltaNets keep their state here, in steps. Whatever is compiled inside keeps doing so."""
        before = deltanet.replay
        deltanet.replay = self.step
        try:
            yield
        finally:
            deltanet.replay = before

    def step(
        self, q, k, v, g, beta, checkpoint, ring_k, ring_v, ring_u, ring_gates, slots, length, folded, count, flush
    ):
        """`ocria.ops.replay.replay` without a ring: same arguments, same outputs. Raises UsageError for a ring that
        would let more than one step pass between two folds."""
        width, heads, ring = v.shape[1], v.shape[2], ring_k.shape[1]
        if ring != 2 * width:
            raise UsageError(f"steps of {width} rows with a ring of {ring}", cure=f"Use a ring of {2 * width}.")
        kept = self._of.get(checkpoint.data_ptr())
        if kept is None:
            shape = (checkpoint.shape[0], width, *checkpoint.shape[1:])
            kept = self._of[checkpoint.data_ptr()] = checkpoint.new_zeros(shape)
        history = length - folded
        right = kept[slots, (history - 1).clamp(min=0)]
        state = torch.where((history > 0)[:, None, None, None], right, checkpoint.index_select(0, slots))
        checkpoint.index_copy_(0, slots, state)
        if k.shape[2] < heads:
            q, k = (x.repeat_interleave(heads // k.shape[2], dim=2) for x in (q, k))
        o = torch.empty_like(v)
        # Rows that are not in use have no gates and no keys: they leave the state as it is.
        for t in range(width):
            o[:, t] = delta_step_(q[:, t].float(), k[:, t].float(), v[:, t].float(), g[:, t], beta[:, t], state)
            kept[slots, t] = state
        return o
