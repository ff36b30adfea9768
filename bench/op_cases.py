"""What `bench/ops.py` measures: for every op of the engine its arguments in a step, its definition and its bytes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ocria.model.config import TextConfig
from ocria.ops.register import Op


@dataclass(frozen=True, slots=True)
class Workload:
    """A step of `batch` requests of a model: `rows` new rows each; `seen` rows in the KV cache before them; `prompt`
    rows of a prefill; `history` rows in a replay ring of `ring`."""

    config: TextConfig
    batch: int
    rows: int
    seen: int
    prompt: int
    ring: int
    history: int
    dtype: torch.dtype
    generator: torch.Generator

    def normal(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        return torch.randn(shape, generator=self.generator).to(dtype or self.dtype)

    def uniform(self, *shape: int) -> torch.Tensor:
        """fp32 in 0 to 1."""
        return torch.rand(shape, generator=self.generator)

    def unit(self, *shape: int) -> torch.Tensor:
        """Vectors of length one."""
        return torch.nn.functional.normalize(torch.randn(shape, generator=self.generator), dim=-1).to(self.dtype)

    def slots(self) -> torch.Tensor:
        """int64 `[B]`: all slots but the dummy, in some order."""
        return 1 + torch.randperm(self.batch, generator=self.generator)


@dataclass(frozen=True, slots=True)
class Rival:
    """What others wrote for much the same work. call: takes the op's arguments; note: what it does more or less."""

    name: str
    note: str
    call: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One call. arguments: CPU tensors and numbers; definition: called with these, gives the outputs and writes in
    place what the op does. state_bytes: of the arguments named in `state`, of which an op touches a part only, those
    that have to be moved; all other arguments are read once, outputs written once. torch_on_cuda: the torch form makes
    no tensor elsewhere and reads none on the host."""

    name: str
    op: Op
    arguments: tuple[Any, ...]
    definition: Callable[..., Any]
    state: tuple[int, ...] = ()
    state_bytes: float = 0.0
    torch_on_cuda: bool = True
    rivals: tuple[Rival, ...] = ()


def replay_cases(w: Workload) -> Iterator[Case]:
    from ocria.ops.replay import replay
    from ocria.ops.replay_reference import replay_reference

    c = w.config
    hk, hv, dk, dv = (
        c.linear_num_key_heads, c.linear_num_value_heads, c.linear_key_head_dim, c.linear_value_head_dim,
    )  # fmt: skip

    def window(rows: int) -> tuple[torch.Tensor, ...]:
        q, k = w.unit(w.batch, rows, hk, dk) * dk**-0.5, w.unit(w.batch, rows, hk, dk)
        gates = (-0.1 * w.uniform(w.batch, rows, hv), w.uniform(w.batch, rows, hv))
        return q, k, w.normal(w.batch, rows, hv, dv), *gates

    slots, zero = w.slots(), torch.zeros(w.batch, dtype=torch.int64)
    checkpoint = 0.1 * w.normal(w.batch + 1, hv, dk, dv, dtype=torch.float32)
    rings = [
        torch.zeros(w.batch + 1, w.ring, heads, size, dtype=w.dtype) for heads, size in ((hk, dk), (hv, dv), (hv, dv))
    ]
    rings.append(torch.zeros(w.batch + 1, w.ring, 2, hv))
    # The history enters the ring as it does in the engine, so that deltas and raw rows belong together.
    if w.history:
        never = zero.bool()
        replay_reference(*window(w.history), checkpoint, *rings, slots, zero, zero, zero + w.history, never)
    row = [ring[0, 0].nbytes for ring in rings]
    for flush in (False, True):
        cursors = (slots, zero + w.history, zero, zero + w.rows, torch.full((w.batch,), flush))
        read = (row[0] + row[1] + row[3]) if flush else (row[0] + row[2] + row[3] // 2)
        moved = checkpoint[0].nbytes * (1 + flush) + w.history * read + w.rows * sum(row)
        arguments = (*window(w.rows), checkpoint, *rings, *cursors)
        rivals = _fla_recurrent() if w.rows == 1 and not flush else ()
        yield Case(
            f"replay T={w.rows} P={w.history}{' fold' if flush else ''}", replay, arguments, replay_reference,
            (5, 6, 7, 8, 9), w.batch * moved, torch_on_cuda=False, rivals=rivals,
        )  # fmt: skip


def _fla_recurrent() -> tuple[Rival, ...]:
    """flash-linear-attention's kernel of one decode step, where it is installed and there is a GPU."""
    if not torch.cuda.is_available():
        return ()
    try:
        from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule
    except ImportError:
        return ()

    def step(q, k, v, g, beta, checkpoint, *rest):
        return fused_recurrent_gated_delta_rule(
            q, k, v, g, beta=beta, scale=1.0, initial_state=checkpoint[1:], output_final_state=True
        )

    return (Rival("fla", "flash-linear-attention's fused_recurrent: no slots, no ring, writes a new state", step),)


def chunk_cases(w: Workload) -> Iterator[Case]:
    from ocria.ops.chunk import chunk, chunk_reference

    c = w.config
    hk, hv, dk, dv = (
        c.linear_num_key_heads, c.linear_num_value_heads, c.linear_key_head_dim, c.linear_value_head_dim,
    )  # fmt: skip

    total = w.batch * w.prompt
    state = 0.1 * w.normal(w.batch + 1, hv, dk, dv, dtype=torch.float32)
    first = torch.arange(0, total, w.prompt)
    arguments = (
        w.unit(total, hk, dk) * dk**-0.5, w.unit(total, hk, dk), w.normal(total, hv, dv),
        -0.1 * w.uniform(total, hv), w.uniform(total, hv), state, w.slots(), first, torch.full((w.batch,), w.prompt),
    )  # fmt: skip
    yield Case(f"chunk rows={w.prompt}", chunk, arguments, chunk_reference, (5,), 2 * w.batch * state[0].nbytes,
               torch_on_cuda=False)  # fmt: skip


def conv_cases(w: Workload) -> Iterator[Case]:
    from ocria.ops.conv import gated_conv, gated_conv_reference

    c = w.config
    heads, width = c.linear_num_value_heads, c.linear_conv_kernel_dim
    ring = 1 << (width - 1 + w.rows - 1).bit_length()
    conv_ring = w.normal(w.batch + 1, ring, c.conv_dim)
    arguments = (
        w.normal(w.batch, w.rows, c.conv_dim), w.normal(w.batch, w.rows, heads), w.normal(w.batch, w.rows, heads),
        w.normal(width, c.conv_dim).t(), -w.uniform(heads), w.uniform(heads), conv_ring, w.slots(),
        torch.full((w.batch,), 100), torch.full((w.batch,), w.rows), c.linear_num_key_heads, c.linear_key_head_dim,
    )  # fmt: skip
    moved = w.batch * (width - 1 + w.rows) * conv_ring[0, 0].nbytes
    yield Case(f"gated_conv T={w.rows}", gated_conv, arguments, gated_conv_reference, (6,), moved)


def attend_cases(w: Workload) -> Iterator[Case]:
    from ocria.ops import kv_cache
    from ocria.ops.attend import attend_op, attend_reference

    c = w.config
    heads, groups, size = c.num_attention_heads, c.num_key_value_heads, c.head_dim
    length, most = w.seen, w.seen + w.rows
    cache = [w.normal(w.batch + 1, most, groups, size) for _ in range(2)]
    angle = w.uniform(w.batch, w.rows, c.rotary_dim // 2).repeat(1, 1, 2)
    slots = w.slots()
    arguments = (
        w.normal(w.batch, w.rows, heads, 2 * size), *(w.normal(w.batch, w.rows, groups, size) for _ in range(2)),
        1 + w.uniform(size), 1 + w.uniform(size), 1e-6, angle.cos(), angle.sin(), *cache, slots,
        torch.full((w.batch,), length), torch.full((w.batch,), w.rows), most, None, False, None, None, None,
    )  # fmt: skip

    def definition(*values):
        return attend_reference(*values[:13], values[18])

    def sdpa(qg, k, v, q_scale, k_scale, eps, cos, sin, keys, values, slots, *rest):
        q = qg[..., :size].transpose(1, 2)
        # The slots in their own order: a view, no gather.
        seen = (x[1:, :most].transpose(1, 2) for x in (keys, values))
        return torch.nn.functional.scaled_dot_product_attention(q, *seen, enable_gqa=heads != groups)

    moved = 2 * w.batch * most * cache[0][0, 0].nbytes
    yield Case(
        f"attend T={w.rows} keys={most}", attend_op, arguments, definition, (8, 9), moved,
        rivals=(Rival("torch sdpa", "attention alone: no norms, rotary, KV write, gate, slots or mask", sdpa),),
    )  # fmt: skip
    scale = torch.full((2,), 0.01)
    coded = [kv_cache.encode(rows, step, kv_cache.FP8) for rows, step in zip(cache, scale, strict=True)]
    yield Case(
        f"attend T={w.rows} keys={most} fp8", attend_op, (*arguments[:8], *coded, *arguments[10:18], scale), definition,
        (8, 9), 2 * w.batch * most * coded[0][0, 0].nbytes,
    )  # fmt: skip


def norm_cases(w: Workload) -> Iterator[Case]:
    from ocria.ops import norm

    c = w.config
    x, residual = (w.normal(w.batch, w.rows, c.hidden_size) for _ in range(2))
    scale, eps = 1 + w.uniform(c.hidden_size), c.rms_norm_eps

    def added(x, residual, scale, eps):
        total = residual + x
        return norm.rms_norm_reference(total, scale, eps), total

    def torch_norm(x, scale, eps):
        return torch.nn.functional.rms_norm(x, x.shape[-1:], scale.to(x.dtype), eps)

    rows = f"rows={w.batch * w.rows}"
    rivals = (Rival("functional", "torch.nn.functional.rms_norm", torch_norm),)
    yield Case(f"rms_norm {rows}", norm.rms_norm_op, (x, scale, eps), norm.rms_norm_reference, rivals=rivals)
    yield Case(f"add_rms_norm {rows}", norm.add_rms_norm_op, (x, residual, scale, eps), added)
    o, z = (w.normal(w.batch, w.rows, c.linear_num_value_heads, c.linear_value_head_dim) for _ in range(2))
    weight = w.uniform(c.linear_value_head_dim)
    yield Case(f"gated_rms_norm {rows}", norm.gated_rms_norm_op, (o, z, weight, eps), norm.gated_rms_norm_reference)


def control_cases(w: Workload) -> Iterator[Case]:
    from ocria.ops.accept import accept, accept_reference
    from ocria.ops.metadata import metadata

    slots, count = w.slots(), w.batch + 1
    per_slot = torch.zeros(count, dtype=torch.int64)
    pending = torch.randint(0, 1000, (count, w.rows), generator=w.generator)
    table = [w.uniform(w.seen + 64, w.config.rotary_dim) for _ in range(2)]
    length = per_slot + w.seen
    state = (
        pending,
        per_slot + 1,
        per_slot + w.rows - 1,
        length,
        length - w.history,
        per_slot,
        per_slot.bool(),
        *table,
    )
    rotary = 2 * w.batch * w.rows * table[0][0].nbytes
    yield Case(
        f"metadata T={w.rows}", metadata, (slots, *state, w.rows, w.ring, w.seen + 64), metadata.torch_form,
        tuple(range(1, 10)), w.batch * (w.rows * 8 + 5 * 8 + 1) + rotary,
    )  # fmt: skip
    # All drafts are right.
    ids = pending.index_select(0, slots)
    chosen = torch.cat([ids[:, 1:], torch.full((w.batch, 1), 7)], dim=1)
    window = (chosen, w.uniform(w.batch, w.rows), ids, slots, torch.full((w.batch,), w.seen))
    window += (torch.full((w.batch,), w.rows), torch.zeros(w.batch, dtype=torch.bool))
    state = (pending, per_slot + 1, per_slot + w.rows - 1, length, length - w.history, per_slot + 1000)
    state += (per_slot.bool(), torch.full((count, 4), -1))
    yield Case(
        f"accept T={w.rows}", accept, window + state, accept_reference, tuple(range(7, 15)), w.batch * (11 * 8 + 4 * 8)
    )


def sample_cases(w: Workload) -> Iterator[Case]:
    from ocria.ops.sample import greedy, sample

    rows = w.batch * w.rows
    logits = 3 * w.normal(rows, w.config.vocab_size)
    index = torch.arange(rows)
    ones = torch.ones(rows)
    settings = (0.7 * ones, torch.full_like(index, 50), 0.9 * ones, index, index + w.seen)

    def likeliest(logits):
        token = logits.float().argmax(-1)
        return token, logits.double().softmax(-1).gather(1, token[:, None])[:, 0].float()

    rivals = (Rival("torch argmax", "no probability, no check for NaN", lambda logits: logits.argmax(-1)),)
    yield Case(f"greedy rows={rows}", greedy, (logits,), likeliest, rivals=rivals)
    draw = Rival("multinomial", "torch softmax and multinomial: no filters, noise that depends on the batch",
                 lambda logits, *_: torch.multinomial(logits.float().softmax(-1), 1))  # fmt: skip
    yield Case(f"sample rows={rows}", sample, (logits, *settings), sample.torch_form, rivals=(draw,))


def copied_cases(w: Workload) -> Iterator[Case]:
    """Answers of `seen` tokens that follow their references, and repeat nothing but by chance."""
    from ocria.ops.align import CONTEXT, align, align_reference, recur, recur_reference

    if w.rows == 1:
        return
    slots, count = w.slots(), w.batch + 1
    reference = torch.randint(0, 1000, (count, w.seen + w.rows), generator=w.generator)
    history = torch.cat([torch.zeros(count, 1, dtype=torch.int64), reference], dim=1)
    length, first = torch.full_like(slots, w.seen), torch.zeros_like(slots)
    seen = (slots, reference[slots, w.seen - 1], length, first, torch.ones_like(slots, dtype=torch.bool), history)
    per_slot = torch.zeros(count, dtype=torch.int64)
    text = (reference, per_slot + reference.shape[1], per_slot - 1)
    yield Case(
        f"align T={w.rows}, {w.seen} tokens", align, (*seen, *text, w.rows), align_reference, (5, 6, 7, 8),
        w.batch * 8 * (reference.shape[1] + CONTEXT + 3),
    )  # fmt: skip
    yield Case(
        f"recur T={w.rows}, {w.seen} tokens", recur, (*seen, w.rows, w.seen + w.rows), recur_reference, (5,),
        w.batch * 8 * w.seen,
    )  # fmt: skip


def verify_cases(w: Workload) -> Iterator[Case]:
    """Drafts from 16 candidates each, of which the target knows all."""
    from ocria.ops.verify import BLOCK, TOKEN, verify

    if w.rows == 1:
        return
    logits = 3 * w.normal(w.batch, w.rows, w.config.vocab_size)
    candidates = logits[:, :-1].topk(16, dim=-1)
    probability = (candidates.values.float() + w.normal(*candidates.values.shape).float()).softmax(-1)
    index = torch.arange(w.batch)
    ids = torch.cat([index[:, None], candidates.indices[:, :, 0]], dim=1)
    ones = torch.ones(w.batch)
    settings = (0.7 * ones, torch.full_like(index, 50), 0.9 * ones, index)
    places = w.seen + torch.arange(w.rows).expand(w.batch, -1)
    window = (logits, ids, torch.ones_like(index), torch.full_like(index, w.rows), *settings, places)
    for rule in (TOKEN, BLOCK):
        yield Case(
            f"verify {rule} T={w.rows}", verify, (*window, candidates.indices, probability, rule), verify.torch_form
        )


def quant_rows_cases(w: Workload) -> Iterator[Case]:
    """What precedes the projections of a layer: two norms, SiLU and product; and a quantiser alone, whose codes of FP4
    no other rounding of exp or of a sum can change."""
    from ocria.ops.quant_grid import pack_fp4
    from ocria.ops.quant_rows import quant_rows_op, quant_rows_reference

    c, rows = w.config, w.batch * w.rows
    heads, size = c.linear_num_value_heads, c.linear_value_head_dim

    def definition(a, b, weight, eps, kind, target, factor, pre, keep):
        codes, scales = quant_rows_reference(a, b, weight, eps, kind, target, factor, pre)
        codes = pack_fp4(codes) if target == "nvfp4" else codes
        added = (a + b).flatten(1) if kind == "add_norm" else a.new_empty(0)
        return codes, scales, added, a.new_empty(0)

    x, residual = (w.normal(rows, 1, c.hidden_size) for _ in range(2))
    o, z = (w.normal(rows, heads, size) for _ in range(2))
    gate, up = (w.normal(rows, 1, c.intermediate_size) for _ in range(2))
    multiplier = torch.full((1,), 0.002)
    for arguments in (
        (x, residual, 1 + w.uniform(c.hidden_size), c.rms_norm_eps, "add_norm", "token", None, None, False),
        (o, z, w.uniform(size), c.rms_norm_eps, "gated_norm", "block", None, None, False),
        (gate, up, None, 0.0, "silu_mul", "token", None, None, False),
        (gate, None, None, 0.0, "plain", "nvfp4", multiplier, None, False),
    ):
        yield Case(f"quant_rows {arguments[4]} {arguments[5]} {rows}", quant_rows_op, arguments, definition)


def quant_fp8_cases(w: Workload) -> Iterator[Case]:
    """The down projection of a layer."""
    from ocria.ops.quant_fp8 import fp8_matmul, fp8_matmul_reference
    from ocria.ops.quant_grid import decode_fp8, to_e4m3
    from ocria.ops.quant_rows import Target, quantise

    c, rows = w.config, w.batch * w.rows
    outputs, columns = c.hidden_size, c.intermediate_size
    codes = to_e4m3(50 * w.normal(outputs, columns, dtype=torch.float32))
    scale, blocks = w.uniform(outputs, 1), w.uniform(-(-outputs // 128), -(-columns // 128))
    x = w.normal(rows, columns)
    plain = _plain_linear(decode_fp8(codes, scale).to(w.dtype))
    for name, activations, scales, rivals in (
        ("high", None, scale, (plain,)), ("token", Target("token"), scale, ()), ("block", Target("block"), blocks, ()),
    ):  # fmt: skip
        given = (x, None) if activations is None else quantise(x, activations)
        arguments = (*given, codes, scales, None, w.dtype)
        yield Case(f"fp8_matmul {name} rows={rows}", fp8_matmul, arguments, fp8_matmul_reference, rivals=rivals)


def quant_nvfp4_cases(w: Workload) -> Iterator[Case]:
    """The down projection of a layer."""
    from ocria.ops.quant_grid import decode_nvfp4
    from ocria.ops.quant_nvfp4 import nvfp4_matmul, nvfp4_matmul_reference
    from ocria.ops.quant_rows import Target, quantise

    c, rows = w.config, w.batch * w.rows
    codes = torch.randint(0, 256, (c.hidden_size, c.intermediate_size // 2), generator=w.generator, dtype=torch.uint8)
    scales = (1 + w.uniform(c.hidden_size, c.intermediate_size // 16)).to(torch.float8_e4m3fn)
    x, multiplier = w.normal(rows, c.intermediate_size), torch.full((1,), 0.002)
    plain = _plain_linear((decode_nvfp4(codes, scales) * multiplier).to(w.dtype))
    for name, given, rivals in (
        ("W4A16", (x, None, None), (plain,)),
        ("W4A4", quantise(x, Target("nvfp4", multiplier))[:3], ()),
    ):
        arguments = (*given, codes, scales, multiplier, None, w.dtype)
        yield Case(f"nvfp4_matmul {name} rows={rows}", nvfp4_matmul, arguments, nvfp4_matmul_reference, rivals=rivals)


def _plain_linear(weight: torch.Tensor) -> Rival:
    """torch's product with the decoded weight, whose copies take turns as those of the op's arguments do."""
    copies: dict[torch.device, Iterator[torch.Tensor]] = {}

    def call(x, *rest):
        if x.device not in copies:
            count = max(1, min(64, (256 << 20) // weight.nbytes))
            copies[x.device] = itertools.cycle([weight.to(x.device, copy=True) for _ in range(count)])
        return torch.nn.functional.linear(x, next(copies[x.device]))

    return Rival("plain", "torch's product with weights in the network's dtype", call)


CASES: dict[str, Callable[[Workload], Iterator[Case]]] = {
    "metadata": control_cases,
    "norm": norm_cases,
    "conv": conv_cases,
    "replay": replay_cases,
    "chunk": chunk_cases,
    "attend": attend_cases,
    "sample": sample_cases,
    "align": copied_cases,
    "verify": verify_cases,
    "quant_rows": quant_rows_cases,
    "quant_fp8": quant_fp8_cases,
    "quant_nvfp4": quant_nvfp4_cases,
}
"""By the file of `ocria/ops` that the op is in; `metadata` and `accept` together."""
