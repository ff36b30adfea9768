"""What a drafter remembers of every slot: keys and values of the context, and of the block while it is computed.

Rows 0 .. length - 1 of a slot are its context: one row for each row that the target has committed, by the cursor that
the target's own state has. A block lies behind them while it is computed and is overwritten afterwards; nothing ever
sees a row beyond the cursor, so that taking drafts back is not to advance it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import torch

from ocria.ops.attention import window_attention
from ocria.spec.config import DrafterConfig
from ocria.spec.rules import LayerRule


@dataclass(frozen=True)
class DraftState:
    """keys, values: one tensor a layer, `[slots, max_len + block_size, Hkv, head_dim]`. Slot 0 is the dummy."""

    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]

    @classmethod
    def allocate(
        cls,
        config: DrafterConfig,
        slots: int,
        max_len: int,
        dtype: torch.dtype,
        device: str | torch.device = "cpu",
    ) -> "DraftState":
        """Zeroed state for `slots` requests (dummy included) of up to `max_len` committed rows each."""
        shape = (slots, max_len + config.block_size, config.num_key_value_heads, config.head_dim)
        count = config.num_hidden_layers
        keys, values = (
            tuple(torch.zeros(shape, dtype=dtype, device=device) for _ in range(count)) for _ in ("keys", "values")
        )
        return cls(keys, values)

    @property
    def rows(self) -> int:
        """Rows of a slot."""
        return self.keys[0].shape[1]

    def tensors(self) -> list[torch.Tensor]:
        """All state."""
        return [*chain(self.keys, self.values)]

    def reset(self, slots: Iterable[int]) -> None:
        """Make slots ready for new requests. Rows beyond the cursor get weight zero, so they must be finite."""
        torch._foreach_zero_([tensor[slot] for slot in slots for tensor in self.tensors()])

    @staticmethod
    def bytes_per_slot(config: DrafterConfig, max_len: int, dtype: torch.dtype) -> int:
        """Memory of one slot in bytes, for planning before anything is allocated."""
        meta = DraftState.allocate(config, 1, max_len, dtype, "meta")
        return sum(tensor.numel() * tensor.element_size() for tensor in meta.tensors())

    def places(self, slots: torch.Tensor, start: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        """Where rows `start .. start + T - 1` of slots `[B]` lie in an arena of `[slots * rows]`: int64 `[B, T]`; rows
        that are not `valid` bool `[B, T]` go to the dummy."""
        row = (start[:, None] + torch.arange(valid.shape[1], device=slots.device)).clamp(max=self.rows - 1)
        return torch.where(valid, slots[:, None], 0) * self.rows + row

    def write(self, layer: int, places: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put rows `[B, T, Hkv, head_dim]` of a layer where `places` says."""
        for arena, new in ((self.keys[layer], keys), (self.values[layer], values)):
            arena.flatten(0, 1).index_copy_(0, places.flatten(), new.flatten(0, 1).to(arena.dtype))


class BlockAttention:
    """Attention of B blocks of T rows over the slots' contexts and over themselves.

    slots int64 `[B]`, consecutive from `first_slot` where that is given; length int64 `[B]`: rows of the context, the
    row of the anchor; live bool `[B]`: the other blocks write into the dummy, and their output means nothing;
    kv_len: host upper bound of length + T.
    """

    def __init__(
        self,
        state: DraftState,
        rules: tuple[LayerRule, ...],
        slots: torch.Tensor,
        length: torch.Tensor,
        live: torch.Tensor,
        rows: int,
        kv_len: int,
        first_slot: int | None = None,
    ):
        self.state, self.rules, self.slots, self.first_slot = state, rules, slots, first_slot
        self.kv_len = min(kv_len, state.rows)
        length = length.masked_fill(~live, 0)  # a bound of kv_len holds for the live ones alone
        self.places = state.places(slots, length, live[:, None].expand(-1, rows))
        self.masks = {rule: self._mask(rule, length, rows) for rule in dict.fromkeys(rules)}

    def __call__(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """q `[B, T, H, D]`, k and v `[B, T, Hkv, D]`, all turned and normalised -> `[B, T, H * D]`."""
        self.state.write(layer, self.places, k, v)
        keys, values = (self._rows(arena[layer]) for arena in (self.state.keys, self.state.values))
        mask = self.masks[self.rules[layer]]
        o = window_attention(q.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2), mask)
        return o.transpose(1, 2).flatten(2)

    def _rows(self, arena: torch.Tensor) -> torch.Tensor:
        seen = arena[:, : self.kv_len]
        if self.first_slot is None:
            return seen.index_select(0, self.slots)
        return seen.narrow(0, self.first_slot, self.slots.shape[0])

    def _mask(self, rule: LayerRule, length: torch.Tensor, rows: int) -> torch.Tensor:
        """What is added to the scores, `[B, 1, T, kv_len]`: 0 or -inf; `[B, 1, 1, kv_len]` where all rows see alike."""
        key = torch.arange(self.kv_len, device=length.device)
        query = length[:, None] + torch.arange(rows, device=length.device)
        behind = key - query[:, None, :, None]
        hidden = behind > 0 if rule.causal else key >= (length + rows)[:, None, None, None]
        if rule.window is not None:
            hidden = hidden | (behind.abs() >= rule.window)
        mask = torch.zeros(hidden.shape, dtype=self.state.keys[0].dtype, device=length.device)
        return mask.masked_fill_(hidden, float("-inf"))
