"""Everything the decoder remembers of its requests, indexed by slot. Slot 0 is a dummy for padding.

The Gated DeltaNet state of a slot is a checkpoint and a ring: the checkpoint holds the first `folded` rows of the
request, the ring those after them, as raw inputs. A pass appends rows; rejecting them is not to advance the slot's
`length`, and nothing is copied back. The row with sequence index p lies at ring position p modulo the ring's length.
Source: ReplaySSM (`Johnny-Liou/ReplaySSM`), with absolute instead of relative cursors.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import torch

from ocria.errors import UsageError
from ocria.model.config import TextConfig
from ocria.model.window import Window
from ocria.ops.replay import check_ring


@dataclass(frozen=True)
class DecoderState:
    """Of every kind one tensor a layer that has it; layer i of the decoder is number `place[i]` of its kind. Each is a
    tensor of its own, not a part of a larger one: a compiled step then updates it in place.

    Of attention layers: keys, values `[slots, max_len, Hkv, head_dim]`, maybe in FP8 (`ocria.ops.kv_cache`). Of Gated
    DeltaNet layers: checkpoint fp32 `[slots, Hv, Dk, Dv]`; ring_k `[slots, L, Hk, Dk]`: normalised keys; ring_v, ring_u
    `[slots, L, Hv, Dv]`: values, and the deltas that they made; ring_gates fp32 `[slots, L, 2, Hv]`: log-decay and
    beta; conv_ring `[slots, Lc, conv_dim]`: the last inputs of the short convolution.

    ring: L, a power of two, or 0: every row enters the checkpoint at once and none can be taken back.
    """

    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]
    checkpoint: tuple[torch.Tensor, ...]
    ring_k: tuple[torch.Tensor, ...]
    ring_v: tuple[torch.Tensor, ...]
    ring_u: tuple[torch.Tensor, ...]
    ring_gates: tuple[torch.Tensor, ...]
    conv_ring: tuple[torch.Tensor, ...]
    place: tuple[int, ...]
    max_len: int
    ring: int

    @classmethod
    def allocate(
        cls,
        config: TextConfig,
        slots: int,
        max_len: int,
        dtype: torch.dtype,
        device: str | torch.device = "cpu",
        ring: int = 0,
        rows: int = 1,
        kv_dtype: torch.dtype | None = None,
    ) -> "DecoderState":
        """Zeroed state for `slots` requests (dummy included) of up to `max_len` rows each.

        `rows`: most rows of a step. `kv_dtype`: of keys and values, if not `dtype` too. Raises UsageError for a ring
        that is no power of two or holds less than two steps: the rows of one may have to stay while those of the next
        come.
        """
        if ring:
            check_ring(ring, rows, 2)
        if rows > 1 and not ring:
            raise UsageError("a step of more than one row needs a replay ring to take rows back")
        kinds = config.layer_types
        full = kinds.count("full_attention")
        linear = len(kinds) - full
        hk, hv = config.linear_num_key_heads, config.linear_num_value_heads
        dk, dv = config.linear_key_head_dim, config.linear_value_head_dim
        history = config.linear_conv_kernel_dim - 1

        def zeros(layers: int, *shape: int, kind: torch.dtype = dtype) -> tuple[torch.Tensor, ...]:
            return tuple(torch.zeros(slots, *shape, dtype=kind, device=device) for _ in range(layers))

        return cls(
            keys=zeros(full, max_len, config.num_key_value_heads, config.head_dim, kind=kv_dtype or dtype),
            values=zeros(full, max_len, config.num_key_value_heads, config.head_dim, kind=kv_dtype or dtype),
            checkpoint=zeros(linear, hv, dk, dv, kind=torch.float32),
            ring_k=zeros(linear, ring, hk, dk),
            ring_v=zeros(linear, ring, hv, dv),
            ring_u=zeros(linear, ring, hv, dv),
            ring_gates=zeros(linear, ring, 2, hv, kind=torch.float32),
            conv_ring=zeros(linear, _power_of_two(history + rows), config.conv_dim),
            place=tuple(kinds[:i].count(kind) for i, kind in enumerate(kinds)),
            max_len=max_len,
            ring=ring,
        )

    def kinds(self) -> dict[str, tuple[torch.Tensor, ...]]:
        """All state by kind."""
        names = ("keys", "values", "checkpoint", "ring_k", "ring_v", "ring_u", "ring_gates", "conv_ring")
        return {name: getattr(self, name) for name in names}

    def tensors(self) -> list[torch.Tensor]:
        """All state."""
        return [*chain(*self.kinds().values())]

    def reset(self, slots: Iterable[int]) -> None:
        """Make slots ready for new requests: everything is zero.

        KV rows too: rows beyond a request's own take part in batched attention with weight zero, and zero times a
        NaN that an earlier request left behind is NaN.
        """
        torch._foreach_zero_([tensor[slot] for slot in slots for tensor in self.tensors()])

    @staticmethod
    def bytes_per_slot(config: TextConfig, max_len: int, dtype: torch.dtype, ring: int = 0, rows: int = 1) -> int:
        """Memory of one slot in bytes, for planning before anything is allocated."""
        meta = DecoderState.allocate(config, 1, max_len, dtype, "meta", ring, rows)
        return sum(tensor.numel() * tensor.element_size() for tensor in meta.tensors())


def take(tensor: torch.Tensor, window: Window) -> torch.Tensor:
    """The rows of the window's slots from `[slots, ...]`: a view where the slots are consecutive, else a copy."""
    if window.first_slot is None:
        return tensor.index_select(0, window.slots)
    return tensor.narrow(0, window.first_slot, window.slots.shape[0])


def put(tensor: torch.Tensor, window: Window, rows: torch.Tensor) -> None:
    """Set the rows of the window's slots in `[slots, ...]`, cast to its dtype."""
    if window.first_slot is None:
        tensor.index_copy_(0, window.slots, rows.to(tensor.dtype))
    else:
        tensor.narrow(0, window.first_slot, window.slots.shape[0]).copy_(rows)


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()
