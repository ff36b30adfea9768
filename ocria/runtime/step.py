"""The step: a pure function over static buffers, from slot numbers to the next tokens of every slot.

Draft, verify, accept, commit; without a drafter it verifies the last token alone, which is plain decoding. No host
read and no Python that depends on data, so that the same function is captured or compiled as a whole.
"""

from dataclasses import dataclass

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
from ocria.ops.verify import verify
from ocria.runtime.buffers import SlotBuffers
from ocria.spec.chain import NONE, Chain, Proposed, Verified
from ocria.spec.source import Seen

EXACT = "exact"
"""The rule by which a draft holds that equals the target's own draw; the others are those of `ocria.ops.verify`."""


@dataclass(frozen=True, slots=True)
class StepInput:
    """slots int64 `[B]`: padded with the dummy 0, or with slots that are done; kv_len: host upper bound of the rows
    filled after this step; first_slot: the slots are this one and those after it, in order; greedy: no slot samples;
    rows: T, the last token chosen and the most drafts; network: a drafter's network is asked for them too."""

    slots: torch.Tensor
    kv_len: int
    first_slot: int | None = None
    greedy: bool = True
    rows: int = 1
    network: bool = False


@dataclass(frozen=True, slots=True)
class StepOutput:
    """tokens int64 `[B, T]`, of which the first `emitted` `[B]` are new in this step; probability fp32 `[B, T]` of
    each; drafted, accepted `[B]`: how many drafts were verified, and held; source `[B]`: the number of their source in
    the chain, or `NONE`; reason int64 `[B]` why the slot is done now, by `ocria.ops.accept`."""

    tokens: torch.Tensor
    probability: torch.Tensor
    emitted: torch.Tensor
    drafted: torch.Tensor
    accepted: torch.Tensor
    source: torch.Tensor
    reason: torch.Tensor


def step(
    network: Qwen35,
    state: DecoderState,
    buffers: SlotBuffers,
    rows: StepInput,
    drafter: Chain | None = None,
    rule: str = EXACT,
) -> StepOutput:
    """One step of the slots in `rows`. Updates `state`, `buffers` and the drafter's state in place. `rule`: one of
    `RULES`, how drafts of slots that sample are accepted."""
    b = buffers
    drafts = None if drafter is None or rows.rows == 1 else _draft(b, rows, drafter, rule)
    ids, length, folded, count, flush, kv_rows, cos, sin = metadata(
        rows.slots, b.pending, b.given, b.drafted, b.length, b.folded, b.rope_delta, b.done, b.cos, b.sin,
        rows.rows, state.ring, state.max_len,
    )  # fmt: skip
    shared = {} if uses_kernels(ids) else _shared(network, state, rows, length, kv_rows)
    window = Window(
        rows.slots, length, count, cos, sin, rows.kv_len, folded, flush, first_slot=rows.first_slot, kv_rows=kv_rows,
        **shared,
    )  # fmt: skip
    # A draft may be any number; one that is no token has no embedding, and is never what the target chooses.
    known = ids if drafts is None else ids.clamp(0, network.config.text.vocab_size - 1)
    hidden, features = network.tapped(network.embed(known), window, state, drafter.taps if drafter else ())
    chosen, probability, held = _choose(network.logits(hidden), b, rows, ids, length, count, drafts, rule)
    tokens, emitted, reason = accept(
        chosen, probability, held, rows.slots, length, count, flush, b.pending, b.given, b.drafted, b.length, b.folded,
        b.left, b.done, b.stop_ids,
    )  # fmt: skip
    committed = b.length.index_select(0, rows.slots) - length
    drafted, accepted = (count - 1).clamp(min=0), (committed - 1).clamp(min=0)
    source = torch.full_like(length, NONE) if drafts is None else drafts.source.masked_fill(drafted < 1, NONE)
    if drafter is not None:
        position = None
        if features is not None:
            position = length[:, None] + b.rope_delta[rows.slots, None] + torch.arange(ids.shape[1], device=ids.device)
        drafter.verified(
            Verified(rows.slots, length, drafted, accepted, committed, source, ids, kv_rows, features, position)
        )
    return StepOutput(tokens, probability, emitted, drafted, accepted, source, reason)


def _draft(b: SlotBuffers, rows: StepInput, drafter: Chain, rule: str) -> Proposed:
    """Ask the drafter, and put what it says behind the last token."""
    slots = rows.slots
    length = b.length.index_select(0, slots)
    seen = Seen(
        slots=slots,
        first_slot=rows.first_slot,
        live=(slots > 0) & ~b.done.index_select(0, slots),
        anchor=b.pending[:, 0].index_select(0, slots),
        length=length,
        position=length + b.rope_delta.index_select(0, slots),
        first=drafter.first.index_select(0, slots),
        history=drafter.history,
        temperature=b.temperature.index_select(0, slots),
        seed=b.seed.index_select(0, slots),
        greedy=rows.greedy,
        exact=rule == EXACT,
        rows=rows.rows,
        kv_len=rows.kv_len,
    )
    proposed = drafter.propose(seen, rows.network)
    b.pending[:, 1 : rows.rows].index_copy_(0, slots, proposed.drafts.tokens)
    b.drafted.index_copy_(0, slots, proposed.drafts.count.clamp(0, rows.rows - 1))
    return proposed


def _choose(
    logits: torch.Tensor,
    b: SlotBuffers,
    rows: StepInput,
    ids: torch.Tensor,
    length: torch.Tensor,
    count: torch.Tensor,
    drafts: Proposed | None,
    rule: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The tokens that the target chooses, their probability, and the drafts that may hold: `[B, T]` each."""
    if rows.greedy:
        return *greedy(logits), ids
    settings = [setting[rows.slots] for setting in (b.temperature, b.top_k, b.top_p, b.seed)]
    places = length[:, None] + torch.arange(ids.shape[1], device=ids.device)
    if drafts is None or rule == EXACT:
        each = (setting[:, None].expand_as(ids).flatten() for setting in settings)
        chosen, probability = sample(logits.flatten(0, 1), *each, places.flatten())
        return chosen.view_as(ids), probability.view_as(ids), ids
    offered = drafts.drafts
    from_ids, from_probability = offered.ids, offered.probability
    if from_ids is None:
        from_ids = offered.tokens[:, :, None]
        from_probability = torch.ones(from_ids.shape, device=ids.device)
    given, (temperature, top_k, top_p, seed) = b.given[rows.slots], settings
    return verify(
        logits, ids, given, count, temperature, top_k, top_p, seed, places, from_ids, from_probability, rule
    )


def _shared(
    network: Qwen35, state: DecoderState, rows: StepInput, length: torch.Tensor, kv_rows: torch.Tensor
) -> dict[str, torch.Tensor]:
    """What the layers of a step have in common, and kernels find by themselves."""
    shared, width = {}, kv_rows.shape[1]
    if state.conv_ring:
        taps, ring = network.config.text.linear_conv_kernel_dim, state.conv_ring[0].shape[1]
        shared["conv_rows"] = ring_rows(rows.slots, length, width, taps, ring)
    if state.keys:
        shared["mask"] = score_mask(length, width, rows.kv_len, network.dtype)
    return shared
