"""The decode step: a pure function over static buffers, from slot numbers to one more token a slot.

No host read and no Python that depends on data, so that the same function can be captured or compiled.
"""

from dataclasses import dataclass

import torch

from ocria.model.network import Qwen35
from ocria.model.state import DecoderState
from ocria.model.window import Window
from ocria.runtime.buffers import SlotBuffers


@dataclass(frozen=True, slots=True)
class StepInput:
    """slots int64 `[B]`: the live slots, padded with the dummy 0 or with free slots; count int64 `[B]`: 1, or 0 for
    padding; kv_len: host upper bound of the rows filled after this step; run: the slots are these consecutive ones,
    padded with free slots only."""

    slots: torch.Tensor
    count: torch.Tensor
    kv_len: int
    run: slice | None = None


@dataclass(frozen=True, slots=True)
class StepOutput:
    """token int64 `[B]`; probability fp32 `[B]` of that token, NaN where any logit is not a finite number."""

    token: torch.Tensor
    probability: torch.Tensor


def decode_step(network: Qwen35, state: DecoderState, buffers: SlotBuffers, rows: StepInput) -> StepOutput:
    """Feed each slot its last token, choose the next one. Updates `state` and `buffers` in place, by slot."""
    start = buffers.seq_index[rows.slots]
    rope = start + buffers.rope_delta[rows.slots]
    cos, sin = (table.index_select(0, rope)[:, None] for table in (buffers.cos, buffers.sin))
    # What a pass writes into a free slot is wiped when a request enters it, so such padding needs no care.
    full = rows.run is not None
    window = Window(rows.slots, start, rows.count, cos, sin, rows.kv_len, rows.run, full)
    hidden = network.decoder(network.embed(buffers.token[rows.slots][:, None]), window, state)
    output = choose(network.logits(hidden[:, 0]))
    buffers.token.index_copy_(0, rows.slots, output.token)
    buffers.seq_index.index_copy_(0, rows.slots, start + rows.count)
    return output


def choose(logits: torch.Tensor) -> StepOutput:
    """The likeliest token of logits `[B, V]`, in fp32; of equal ones the lowest id."""
    logits = logits.float()
    token = logits.argmax(dim=-1)
    probability = logits.softmax(dim=-1).gather(-1, token[:, None])[:, 0]
    # One sum instead of a test of every logit: infinities and NaN survive addition, and times 0 become NaN.
    return StepOutput(token, probability + 0.0 * logits.sum(dim=-1))
