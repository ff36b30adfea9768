"""Acceptance and commit of a step in one launch: the kernel of `ocria.ops.accept`.

One program a request. Where the window ends is a minimum over rows, not a walk, so the launch takes as long for
sixteen drafts as for none.
"""

import torch
import triton
import triton.language as tl

from ocria.errors import EngineError
from ocria.ops.accept import FAILED, LENGTH, RUNNING, STOP
from ocria.ops.kernels.aot import SHAPES_4B, AotVariant
from ocria.ops.register import wrap

_RUNNING, _STOP, _LENGTH, _FAILED = (tl.constexpr(reason) for reason in (RUNNING, STOP, LENGTH, FAILED))


@triton.jit
def accept_kernel(
    chosen, probability, ids, slots, length, count, flush,
    pending, given, drafted, length_all, folded_all, left, done, stop_ids,
    out_tokens, out_emitted, out_reason, pending_stride,
    T: tl.constexpr, STOPS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Grid (B,)."""
    b = tl.program_id(0).to(tl.int64)
    t = tl.arange(0, BLOCK_T)
    used = tl.load(count + b)
    if used == 0:
        tl.store(out_tokens + b * T + t, tl.full([BLOCK_T], -1, tl.int64), t < T)
        tl.store(out_emitted + b, 0)
        tl.store(out_reason + b, 0)
    else:
        slot = tl.load(slots + b)
        start = tl.load(length + b)
        held = tl.load(given + slot)
        allowed = tl.load(left + slot)
        first = tl.minimum(tl.maximum(held, 1), used)
        anchor = first - 1

        draft = (t >= first) & (t < used)
        before = tl.load(chosen + b * T + t - 1, draft, 0)
        wrong = draft & (tl.load(ids + b * T + t, draft, 0) != before)
        committed = tl.min(tl.where(wrong, t, used))

        mine = (t >= anchor) & (t < committed)
        choice = tl.load(chosen + b * T + t, mine, 0)
        p = tl.load(probability + b * T + t, mine, 0.0)
        s = tl.arange(0, BLOCK_S)
        stops = tl.load(stop_ids + slot * STOPS + s, s < STOPS, -1)
        is_stop = tl.max((choice[:, None] == stops[None, :]).to(tl.int32), 1) > 0
        verdict = tl.where(t - anchor >= allowed - 1, _LENGTH, _RUNNING)
        verdict = tl.where(is_stop, _STOP, verdict)
        verdict = tl.where((p != p) | (held != first), _FAILED, verdict)
        last = tl.min(tl.where(mine & (verdict != _RUNNING), t, committed))
        reason = tl.sum(tl.where(t == last, verdict, 0))
        reason = tl.where(last < committed, reason, _RUNNING)
        keeps_last = (reason == _STOP) | ((reason == _LENGTH) & (allowed > 0))
        emitted = last - anchor + keeps_last.to(tl.int64)

        out = tl.load(chosen + b * T + anchor + t, t < emitted, -1)
        tl.store(out_tokens + b * T + t, out, t < T)
        tl.store(out_emitted + b, emitted)
        tl.store(out_reason + b, reason.to(tl.int64))

        newest = tl.sum(tl.where(t == emitted - 1, out, 0))
        tl.store(pending + slot * pending_stride, newest, emitted > 0)
        tl.store(given + slot, 1)
        tl.store(drafted + slot, 0)
        tl.store(left + slot, allowed - emitted + (reason == _STOP).to(tl.int64))
        if tl.load(flush + b) != 0:
            tl.store(folded_all + slot, start)
        tl.store(length_all + slot, start + committed)
        if reason != _RUNNING:
            tl.store(done + slot, True)


def launch(
    chosen, probability, ids, slots, length, count, flush,
    pending, given, drafted, length_all, folded_all, left, done, stop_ids,
):  # fmt: skip
    """Arguments and results as `ocria.ops.accept.accept` describes them."""
    inputs = (chosen, probability, ids, slots, length, count, flush)
    per_slot = (given, drafted, length_all, folded_all, left, done, stop_ids)
    if not all(x.is_contiguous() for x in (*inputs, *per_slot)) or pending.stride(1) != 1:
        raise EngineError("accept: tensors must be contiguous")
    batch, rows = chosen.shape
    stops = stop_ids.shape[1]
    tokens, emitted, reason = torch.empty_like(chosen), torch.empty_like(slots), torch.empty_like(slots)
    wrap(accept_kernel)[(batch,)](
        chosen, probability, ids, slots, length, count, flush,
        pending, given, drafted, length_all, folded_all, left, done, stop_ids,
        tokens, emitted, reason, pending.stride(0),
        T=rows, STOPS=stops, BLOCK_T=triton.next_power_of_2(rows), BLOCK_S=triton.next_power_of_2(max(stops, 1)),
        num_warps=1,
    )  # fmt: skip
    return tokens, emitted, reason


def aot_variants() -> list[AotVariant]:
    """Plain decoding and verification of the 4B model, with four stop tokens."""
    signature = dict.fromkeys(accept_kernel.arg_names[:18], "*i64")
    signature |= dict.fromkeys(("flush", "done"), "*i1") | {"probability": "*fp32"}
    variants = []
    for rows in SHAPES_4B.rows:
        constants = {"pending_stride": rows, "T": rows, "STOPS": 4, "BLOCK_T": rows, "BLOCK_S": 4}
        variants.append(AotVariant(f"accept T={rows}", accept_kernel, signature, constants, num_warps=1))
    return variants
