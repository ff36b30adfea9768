"""What one step of the decoder has to move and compute, op by op, counted from the configuration and the weights.

Bytes are those of main memory, each operand once: what a perfect implementation of the engine's own division into
ops moves. Intermediates between two ops are written and read; inside an op nothing is. Norms and the constants of the
recurrence are left out of the ops: below 0.1 %.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from ocria.errors import UsageError
from ocria.model.config import ModelConfig, TextConfig
from ocria.model.state import DecoderState
from ocria.quant.step_bytes import Part

ACTIVATION = torch.bfloat16
LAYER = "model.language_model.layers.{}."
HEAD = "lm_head"


@dataclass(frozen=True, slots=True)
class Stored:
    """A weight in memory, its scales included. unit: what computes its products: FP8 weights meet inputs in FP8,
    NVFP4 ones meet them in bf16, or in NVFP4 (`fp4`) where there is a number for the input."""

    bytes: int
    unit: str


Weights = dict[str, Stored]
"""By the name of the module."""


def stored(parts: Iterable[Part]) -> Weights:
    """The weights that these tensors make up."""
    found: Weights = {}
    scaled = {part.module for part in parts if part.role == "input"}
    for part in parts:
        four = "fp4" if part.module in scaled else "bf16"
        unit = {"plain": "bf16", "fp8": "fp8", "nvfp4": four}[part.kind]
        before = found[part.module].bytes if part.module in found else 0
        found[part.module] = Stored(before + part.nbytes, unit)
    return found


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


def matmuls(
    name: str, modules: Iterable[Sequence[str]], weights: Weights, step: Step, inputs: int, outputs: int
) -> list[Load]:
    """Products of all rows with weights `[outputs, inputs]`, each made of the modules given for it. The unit is that of
    the first of them, which is by far the largest. Products of one kind are one Load."""
    rows = step.batch * step.rows
    kinds = Counter((sum(weights[m].bytes for m in joined), weights[joined[0]].unit) for joined in modules)
    loads = []
    for (size, unit), times in kinds.items():
        activations = rows * (inputs * {"fp8": 1, "fp4": 0.5625}.get(unit, 2) + outputs * 2)
        loads.append(Load(name, times, 1, size + activations, 2 * rows * inputs * outputs, unit))
    return loads


def step_loads(config: ModelConfig, step: Step, weights: Weights) -> list[Load]:
    """Every op of a step, in the order of the step; kinds of layers one after the other."""
    text = config.text
    e = ACTIVATION.itemsize
    rows = step.batch * step.rows
    hidden = rows * text.hidden_size * e
    layers = text.num_hidden_layers
    deltanet, attention = (
        [LAYER.format(i) for i, kind in enumerate(text.layer_types) if kind == wanted]
        for wanted in ("linear_attention", "full_attention")
    )
    mlp = [f"{LAYER.format(i)}mlp." for i in range(layers)]
    gate_up = [(f"{one}gate_proj", f"{one}up_proj") for one in mlp]
    rotary = rows * text.rotary_dim * 4
    ids = rows * 8
    return [
        Load("metadata", 1, 1, 4 * rotary + 4 * ids + 12 * step.batch * 8),
        Load("embed", 1, 1, 2 * hidden + ids),
        Load("add_rms_norm", 2 * layers, 1, 4 * hidden, 6 * rows * text.hidden_size),
        *_deltanet(text, step, deltanet, weights),
        *_attention(text, step, attention, weights),
        *matmuls("gate_up_proj", gate_up, weights, step, text.hidden_size, 2 * text.intermediate_size),
        Load("silu_mul", layers, 1, 3 * rows * text.intermediate_size * e, 5 * rows * text.intermediate_size),
        *matmuls("down_proj", [(f"{one}down_proj",) for one in mlp], weights, step, text.intermediate_size,
                  text.hidden_size),
        Load("final norm", 1, 1, 4 * hidden, 6 * rows * text.hidden_size),
        *matmuls("lm_head", [(HEAD,)], weights, step, text.hidden_size, text.vocab_size),
        Load("choose", 1, 2, rows * text.vocab_size * e + ids + rows * 4, 3 * rows * text.vocab_size),
        Load("accept", 1, 1, 4 * ids + 16 * step.batch * 8),
    ]  # fmt: skip


def _deltanet(text: TextConfig, step: Step, prefixes: list[str], weights: Weights) -> list[Load]:
    e, layers = ACTIVATION.itemsize, len(prefixes)
    leaves = ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")
    projections = [[f"{prefix}linear_attn.{leaf}" for leaf in leaves] for prefix in prefixes]
    projected = text.conv_dim + text.value_dim + 2 * text.linear_num_value_heads
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
    return [
        *matmuls("in_proj", projections, weights, step, text.hidden_size, projected),
        Load("gated_conv", layers, 1, rows * qkv + rows * 2 * heads * e + window + taps + inputs, conv),
        Load("replay", layers, 1, replay, products + fold, "tf32"),
        Load("gated_rms_norm", layers, 1, 3 * rows * text.value_dim * e, 12 * rows * text.value_dim),
        *matmuls("out_proj", [(f"{prefix}linear_attn.out_proj",) for prefix in prefixes], weights, step,
                  text.value_dim, text.hidden_size),
    ]  # fmt: skip


def _attention(text: TextConfig, step: Step, prefixes: list[str], weights: Weights) -> list[Load]:
    e, layers = ACTIVATION.itemsize, len(prefixes)
    projections = [[f"{prefix}self_attn.{leaf}_proj" for leaf in "qkv"] for prefix in prefixes]
    rows = step.batch * step.rows
    query = text.num_attention_heads * text.head_dim
    kv = 2 * text.num_key_value_heads * text.head_dim
    seen = step.batch * (step.kv_len - step.rows) * kv * step.kv_bytes
    around = rows * (2 * query + kv + query) * e + rows * kv * step.kv_bytes + rows * 2 * text.rotary_dim * 4
    return [
        *matmuls("qkv_proj", projections, weights, step, text.hidden_size, 2 * query + kv),
        Load("attend", layers, 3, seen + around, 4 * rows * step.kv_len * query, "bf16"),
        *matmuls("o_proj", [(f"{prefix}self_attn.o_proj",) for prefix in prefixes], weights, step, query,
                  text.hidden_size),
    ]  # fmt: skip
