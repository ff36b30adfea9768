"""What one step of the decoder has to move and compute, op by op, counted from the configuration.

Bytes are those of main memory, each operand once: what a perfect implementation of the engine's own division into
ops moves. Intermediates between two ops are written and read; inside an op nothing is.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ocria.errors import UsageError
from ocria.model.config import ModelConfig, TextConfig
from ocria.model.state import DecoderState

FP8, NVFP4 = "fp8", "nvfp4"
WEIGHT_BYTES = {"bf16": 2.0, FP8: 1.0, NVFP4: 0.5 + 1 / 16}
"""A weight; an NVFP4 block of 16 has an e4m3 scale. Scales of whole rows or tensors are left out: below 0.1 %."""

MIXES = {
    "bf16": {},
    "fp8": {"mlp": FP8, "attention": FP8, "deltanet": FP8},
    "mix": {"mlp": NVFP4, "attention": FP8, "deltanet": FP8},
    "mix-head": {"mlp": NVFP4, "attention": FP8, "deltanet": FP8, "head": NVFP4},
}
"""Formats by part of the network; what is not named is bf16, always so the a and b projections and the convolution.
NVFP4 is weight-only (products in bf16), FP8 is weights and activations."""

ACTIVATION = torch.bfloat16


@dataclass(frozen=True, slots=True)
class Load:
    """`times` ops of a kind in one step; bytes and operations of each. peak: the unit that does the operations."""

    name: str
    times: int
    launches: int
    bytes: float
    operations: float = 0.0
    peak: str = "fp32"


@dataclass(frozen=True, slots=True)
class Step:
    """batch requests x rows (1 + drafts), of which `accepted` become tokens on average; kv_len rows seen by
    attention. ring: rows of the replay ring, 0 for none (the state is read and written every step)."""

    batch: int
    rows: int = 1
    accepted: float = 1.0
    kv_len: int = 4096
    ring: int = 0
    mix: str = "bf16"
    kv_bytes: int = 2

    def __post_init__(self):
        if not 1 <= self.accepted <= self.rows:
            raise UsageError(f"{self.accepted} accepted tokens of {self.rows} rows", cure="Between 1 and 1 + drafts.")


@dataclass(frozen=True, slots=True)
class Cycle:
    """The replay ring in steady state. flush: share of the steps that fold; history: rows that a step which does
    not fold reads, on average over all steps; folded: rows that one which does reads, likewise."""

    flush: float
    history: float
    folded: float


def cycle(ring: int, rows: int, accepted: float) -> Cycle:
    """A step folds when less than two windows of rows are free, and leaves its own accepted rows in the ring."""
    if ring == 0:
        return Cycle(1.0, 0.0, 0.0)
    steps = int((ring - 2 * rows) // accepted) + 1
    return Cycle(1 / steps, accepted * (steps - 1) / 2, accepted)


def linear(name: str, times: int, step: Step, inputs: int, outputs: int, part: str) -> Load:
    """A product of all rows with a weight `[outputs, inputs]`."""
    kind = MIXES[step.mix].get(part, "bf16")
    rows = step.batch * step.rows
    activations = rows * (inputs * (1 if kind == FP8 else 2) + outputs * 2)
    weights = inputs * outputs * WEIGHT_BYTES[kind]
    return Load(name, times, 1, weights + activations, 2 * rows * inputs * outputs, "fp8" if kind == FP8 else "bf16")


def step_loads(config: ModelConfig, step: Step) -> list[Load]:
    """Every op of a step, in the order of the step; kinds of layers one after the other."""
    text = config.text
    e = ACTIVATION.itemsize
    rows = step.batch * step.rows
    hidden = rows * text.hidden_size * e
    layers = text.num_hidden_layers
    deltanet, attention = (text.layer_types.count(kind) for kind in ("linear_attention", "full_attention"))
    rotary = rows * text.rotary_dim * 4
    ids = rows * 8
    return [
        Load("metadata", 1, 1, 4 * rotary + 4 * ids + 12 * step.batch * 8),
        Load("embed", 1, 1, 2 * hidden + ids),
        Load("add_rms_norm", 2 * layers, 1, 4 * hidden, 6 * rows * text.hidden_size),
        *_deltanet(text, step, deltanet),
        *_attention(text, step, attention),
        linear("gate_up_proj", layers, step, text.hidden_size, 2 * text.intermediate_size, "mlp"),
        Load("silu_mul", layers, 1, 3 * rows * text.intermediate_size * e, 5 * rows * text.intermediate_size),
        linear("down_proj", layers, step, text.intermediate_size, text.hidden_size, "mlp"),
        Load("final norm", 1, 1, 4 * hidden, 6 * rows * text.hidden_size),
        linear("lm_head", 1, step, text.hidden_size, text.vocab_size, "head"),
        Load("choose", 1, 2, rows * text.vocab_size * e + ids + rows * 4, 3 * rows * text.vocab_size),
        Load("accept", 1, 1, 4 * ids + 16 * step.batch * 8),
    ]


def _deltanet(text: TextConfig, step: Step, layers: int) -> list[Load]:
    e = ACTIVATION.itemsize
    rows = step.batch * step.rows
    heads, dk, dv = text.linear_num_value_heads, text.linear_key_head_dim, text.linear_value_head_dim
    state = DecoderState.allocate(text, 1, 1, ACTIVATION, "meta", step.ring, step.rows)
    checkpoint = state.checkpoint[0][0].nbytes
    row_conv = state.conv_ring[0][0, 0].nbytes
    gates = 2 * heads * 4
    qkv = text.conv_dim * e
    inputs = rows * (qkv + gates)
    turn = cycle(step.ring, step.rows, step.accepted)
    if step.ring:
        row_k, row_v, row_u, row_g = (
            ring[0][0, 0].nbytes for ring in (state.ring_k, state.ring_v, state.ring_u, state.ring_gates)
        )
        history = turn.history * (row_k + row_u + row_g / 2) + turn.folded * (row_k + row_v + row_g)
        ring = step.batch * (history + step.rows * (row_k + row_v + row_u + row_g))
    else:
        ring = 0.0
    matrix = 2 * dk * dv  # operations of a state times a vector
    scores = 2 * (turn.history + step.rows) * (dk + dv)  # of one row against the rows it replays
    products = rows * heads * 2 * (matrix + scores)  # once for q, once for k
    fold = (turn.folded if step.ring else step.rows) * step.batch * heads * 3 * matrix
    conv = rows * text.conv_dim * (2 * text.linear_conv_kernel_dim + 8)
    replay = inputs + rows * text.value_dim * e + step.batch * checkpoint * (1 + turn.flush) + ring
    window = step.batch * (text.linear_conv_kernel_dim - 1 + step.rows) * row_conv
    taps = text.conv_dim * text.linear_conv_kernel_dim * e
    projected = text.conv_dim + text.value_dim
    # a and b stay in bf16 in every mix, but the product of all four is one launch.
    into = linear("in_proj", layers, step, text.hidden_size, projected, "deltanet")
    small = linear("in_proj", layers, step, text.hidden_size, 2 * heads, "gates")
    joined = into.bytes + small.bytes - rows * text.hidden_size * e
    return [
        Load("in_proj", layers, 1, joined, into.operations + small.operations, into.peak),
        Load("gated_conv", layers, 1, rows * qkv + rows * 2 * heads * e + window + taps + inputs, conv),
        Load("replay", layers, 1, replay, products + fold, "tf32"),
        Load("gated_rms_norm", layers, 1, 3 * rows * text.value_dim * e, 12 * rows * text.value_dim),
        linear("out_proj", layers, step, text.value_dim, text.hidden_size, "deltanet"),
    ]


def _attention(text: TextConfig, step: Step, layers: int) -> list[Load]:
    e = ACTIVATION.itemsize
    rows = step.batch * step.rows
    query = text.num_attention_heads * text.head_dim
    kv = 2 * text.num_key_value_heads * text.head_dim
    seen = step.batch * (step.kv_len - step.rows) * kv * step.kv_bytes
    around = rows * (2 * query + kv + query) * e + rows * kv * step.kv_bytes + rows * 2 * text.rotary_dim * 4
    return [
        linear("qkv_proj", layers, step, text.hidden_size, 2 * query + kv, "attention"),
        Load("attend", layers, 3, seen + around, 4 * rows * step.kv_len * query, "bf16"),
        linear("o_proj", layers, step, query, text.hidden_size, "attention"),
    ]
