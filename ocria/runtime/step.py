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
    """slots int64 `[B]`: the live slots, padded with the dummy 0; count int64 `[B]`: 1, or 0 for padding;
    kv_len: host upper bound of the rows filled after this step."""

    slots: torch.Tensor
    count: torch.Tensor
    kv_len: int


@dataclass(frozen=True, slots=True)
class StepOutput:
    """token int64 `[B]`; probability fp32 `[B]` of that token; finite bool `[B]`: all logits were numbers."""

    token: torch.Tensor
    probability: torch.Tensor
    finite: torch.Tensor


def decode_step(network: Qwen35, state: DecoderState, buffers: SlotBuffers, rows: StepInput) -> StepOutput:
    """Feed each slot its last token, choose the next one. Updates `state` and `buffers` in place, by slot."""
    start = buffers.seq_index[rows.slots]
    rope = start + buffers.rope_delta[rows.slots]
    window = Window(
        rows.slots, start, rows.count, buffers.cos[rope][:, None], buffers.sin[rope][:, None], rows.kv_len
    )
    hidden = network.decoder(network.embed(buffers.token[rows.slots][:, None]), window, state)
    output = choose(network.logits(hidden[:, 0]))
    buffers.token.index_copy_(0, rows.slots, output.token)
    buffers.seq_index.index_copy_(0, rows.slots, start + rows.count)
    return output


def choose(logits: torch.Tensor) -> StepOutput:
    """The likeliest token of logits `[B, V]`, in fp32; of equal ones the lowest id."""
    logits = logits.float()
    best, token = logits.max(dim=-1)
    probability = (best - logits.logsumexp(dim=-1)).exp()
    # One sum instead of a test of every logit: infinities and NaN survive addition.
    return StepOutput(token, probability, logits.sum(dim=-1).isfinite())
