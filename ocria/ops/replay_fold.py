"""Rows of a replay ring enter the checkpoint, one after the other, exactly as the recurrence takes them.

Folding the solved deltas instead would be cheaper and drift: their rounding would stay in the state for good.
"""

import torch

GROUP_BYTES = 1 << 18
"""State that is folded at a time: it goes through the cache once per row of the ring."""


def fold(
    checkpoint: torch.Tensor,
    ring_k: torch.Tensor,
    ring_v: torch.Tensor,
    ring_gates: torch.Tensor,
    slots: torch.Tensor,
    folded: torch.Tensor,
    length: torch.Tensor,
    flush: torch.Tensor,
) -> None:
    """Fold rows folded..length-1 of the slots with `flush` into `checkpoint`, in place. CPU tensors.

    checkpoint fp32 `[slots, Hv, Dk, Dv]`; ring_k `[slots, L, Hk, Dk]`; ring_v `[slots, L, Hv, Dv]`; ring_gates fp32
    `[slots, L, 2, Hv]`; slots, folded, length int64 `[B]`; flush bool `[B]`. Flushing slots are distinct. A slot's
    result depends on its own rows alone, bit for bit: neither on how many are folded in a call nor on other slots.

    Reads `flush` and works on the flushing slots only; a compiled graph calls it as one opaque operation.
    """
    if torch.compiler.is_compiling():
        _opaque_fold(checkpoint, ring_k, ring_v, ring_gates, slots, folded, length, flush)
    else:
        _fold(checkpoint, ring_k, ring_v, ring_gates, slots, folded, length, flush)


def slot_rows(tensor: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """`tensor[slots]`, as a view where eager code sees that the slots follow each other."""
    if not torch.compiler.is_compiling():
        order = slots.tolist()
        if order == list(range(order[0], order[0] + len(order))):
            return tensor[order[0] : order[0] + len(order)]
    return tensor.index_select(0, slots)


def _fold(checkpoint, ring_k, ring_v, ring_gates, slots, folded, length, flush):
    picked = flush.nonzero().squeeze(1)
    if not len(picked):
        return
    size = max(1, GROUP_BYTES // (checkpoint[0].numel() * checkpoint.element_size()))
    for group in picked.split(size):
        if len(group) < len(slots):
            _fold_group(checkpoint, ring_k, ring_v, ring_gates, slots[group], folded[group], length[group])
        else:
            _fold_group(checkpoint, ring_k, ring_v, ring_gates, slots, folded, length)


def _fold_group(checkpoint, ring_k, ring_v, ring_gates, slots, folded, length):
    size, heads = ring_k.shape[1], ring_v.shape[2]
    history = length - folded
    counts = history.tolist()
    steps = max(counts)
    if not steps:
        return
    step = torch.arange(steps)[:, None]
    rows = ((folded + step) & (size - 1)) + slots * size
    k, v, gates = (
        ring.flatten(0, 1).index_select(0, rows.flatten()).unflatten(0, rows.shape).float()
        for ring in (ring_k, ring_v, ring_gates)
    )
    if min(counts) < steps:
        # A row of zeros leaves a state as it is: S * 1 + 0 (0 - 0) 0. What lies in the ring there may be NaN.
        beyond = (step >= history)[..., None, None]
        k, v, gates = (rows_.masked_fill_(beyond, 0.0) for rows_ in (k, v, gates))
    k = k.repeat_interleave(heads // k.shape[2], dim=2)[..., None]
    decay, beta = gates[:, :, 0, :, None, None].exp(), gates[:, :, 1, :, None]

    state = slot_rows(checkpoint, slots)
    product = torch.empty_like(state)
    for t in range(steps):
        state.mul_(decay[t])
        # No matrix product, whose order of sums may change with the number of slots and their alignment, and no
        # multiply-add, which may round once in a vector and twice in its tail.
        recalled = torch.mul(state, k[t], out=product).sum(-2)
        delta = torch.sub(v[t], recalled, out=recalled).mul_(beta[t])
        state.add_(torch.mul(k[t], delta[:, :, None, :], out=product))
    if state.untyped_storage().data_ptr() != checkpoint.untyped_storage().data_ptr():
        checkpoint.index_copy_(0, slots, state)


_opaque_fold = torch.library.custom_op(
    "ocria::fold",
    _fold,
    mutates_args=("checkpoint",),
    schema="(Tensor(a!) checkpoint, Tensor ring_k, Tensor ring_v, Tensor ring_gates, Tensor slots, Tensor folded, "
    "Tensor length, Tensor flush) -> ()",
)
_opaque_fold.register_fake(lambda *arguments: None)
