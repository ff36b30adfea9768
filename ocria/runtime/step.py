"""The step: a pure function over static buffers, from slot numbers to the next tokens of every slot.

Draft, verify, accept, commit; without a drafter it verifies the last token alone, which is plain decoding. No host
read and no Python that depends on data, so that the same function is captured or compiled as a whole.
"""

from dataclasses import dataclass
from typing import Protocol

import torch

from ocria.model.network import Qwen35
from ocria.model.state import DecoderState
from ocria.model.window import Window
from ocria.ops.accept import accept
from ocria.ops.attention import score_mask
from ocria.ops.conv import ring_rows
from ocria.ops.metadata import metadata
from ocria.ops.register import uses_kernels
from ocria.ops.sample import greedy, sample
from ocria.runtime.buffers import SlotBuffers


class Drafter(Protocol):
    """Proposes tokens; whatever it proposes, the output is that of plain decoding."""

    rows: int
    """Most rows of a step: the token before the drafts, and the drafts."""

    def propose(self, buffers: SlotBuffers, slots: torch.Tensor) -> None:
        """For slots `[B]`, write drafts behind the `given` tokens in `buffers.pending`, and their number into
        `buffers.drafted`."""


@dataclass(frozen=True, slots=True)
class StepInput:
    """slots int64 `[B]`: padded with the dummy 0, or with slots that are done; kv_len: host upper bound of the rows
    filled after this step; first_slot: the slots are this one and those after it, in
    order; greedy: no slot samples."""

    slots: torch.Tensor
    kv_len: int
    first_slot: int | None = None
    greedy: bool = True


@dataclass(frozen=True, slots=True)
class StepOutput:
    """tokens int64 `[B, T]`, of which the first `emitted` `[B]` are new in this step; probability fp32 `[B, T]` of
    each; drafted, accepted `[B]`: how many drafts were verified, and held; reason int64 `[B]` why the slot is done now,
    by `ocria.ops.accept`."""

    tokens: torch.Tensor
    probability: torch.Tensor
    emitted: torch.Tensor
    drafted: torch.Tensor
    accepted: torch.Tensor
    reason: torch.Tensor


def step(
    network: Qwen35, state: DecoderState, buffers: SlotBuffers, rows: StepInput, drafter: Drafter | None = None
) -> StepOutput:
    """One step of the slots in `rows`. Updates `state` and `buffers` in place."""
    b = buffers
    if drafter is not None:
        drafter.propose(b, rows.slots)
    ids, length, folded, count, flush, kv_rows, cos, sin = metadata(
        rows.slots, b.pending, b.given, b.drafted, b.length, b.folded, b.rope_delta, b.done, b.cos, b.sin,
        b.pending.shape[1], state.ring, state.max_len,
    )  # fmt: skip
    shared = {} if uses_kernels(ids) else _shared(network, state, rows, length, kv_rows)
    window = Window(
        rows.slots, length, count, cos, sin, rows.kv_len, folded, flush, first_slot=rows.first_slot, kv_rows=kv_rows,
        **shared,
    )  # fmt: skip
    # A draft may be any number; one that is no token has no embedding, and is never what the target chooses.
    known = ids if drafter is None else ids.clamp(0, network.config.text.vocab_size - 1)
    logits = network.logits(network.decoder(network.embed(known), window, state))
    if rows.greedy:
        chosen, probability = greedy(logits)
    else:
        settings = (setting[rows.slots] for setting in (b.temperature, b.top_k, b.top_p, b.seed))
        each = (setting[:, None].expand_as(ids).flatten() for setting in settings)
        places = length[:, None] + torch.arange(ids.shape[1], device=ids.device)
        chosen, probability = sample(logits.flatten(0, 1), *each, places.flatten())
        chosen, probability = chosen.view_as(ids), probability.view_as(ids)
    tokens, emitted, reason = accept(
        chosen, probability, ids, rows.slots, length, count, flush, b.pending, b.given, b.drafted, b.length, b.folded,
        b.left, b.done, b.stop_ids,
    )  # fmt: skip
    drafted = (count - 1).clamp(min=0)
    accepted = (b.length.index_select(0, rows.slots) - length - 1).clamp(min=0)
    return StepOutput(tokens, probability, emitted, drafted, accepted, reason)


def _shared(
    network: Qwen35, state: DecoderState, rows: StepInput, length: torch.Tensor, kv_rows: torch.Tensor
) -> dict[str, torch.Tensor]:
    """What the layers of a step have in common, and kernels find by themselves."""
    shared, width = {}, kv_rows.shape[1]
    if state.conv_ring:
        taps, ring = network.config.text.linear_conv_kernel_dim, state.conv_ring[0].shape[1]
        shared["conv_rows"] = ring_rows(rows.slots, length, width, taps, ring)
    if state.keys:
        shared["mask"] = score_mask(length, width, rows.kv_len, state.keys[0].dtype)
    return shared
