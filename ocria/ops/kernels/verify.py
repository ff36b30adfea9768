"""The kernels of `ocria.ops.verify`: six launches, of which three read a whole vocabulary.

Of every row: each chunk (`chunk_kernel`); where no top-k bounds what counts, its weight (`mass_kernel`); where the
filters end and p at the tokens that the draft may have been (`row_kernel`). Of every slot: which drafts are taken and
what that leaves of p (`stop_kernel`); the token behind them out of that, from one row of logits (`draw_kernel`,
`token_kernel`). Rows that a slot does not use, or needs not since it samples nothing, leave at once.
"""

import torch
import triton
import triton.language as tl

from ocria.errors import EngineError
from ocria.ops.kernels.aot import SHAPES_4B, AotVariant
from ocria.ops.kernels.fixed import log_share, noise, uniform, weight
from ocria.ops.kernels.logits import CHUNK, WARPS, best, lowest, summary, tempered, weight_from, weight_of_chunk
from ocria.ops.philox import ACCEPT, RESIDUAL
from ocria.ops.register import wrap
from ocria.ops.verify import LEAST

MOST_CANDIDATES = 64
_ROW_WARPS = 16
_INF = tl.constexpr(float("inf"))
_LEAST = tl.constexpr(LEAST)
_ACCEPT, _RESIDUAL = tl.constexpr(ACCEPT), tl.constexpr(RESIDUAL)


@triton.jit
def chunk_kernel(logits, count, out_highest, out_sum, out_id, stride, V, CHUNKS, T, CHUNK: tl.constexpr):
    """Grid (B * T, chunks). Of each chunk: its maximum and the lowest id that has it, the sum of exp over it."""
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if row % T < tl.load(count + row // T):
        x, column, highest, total = summary(logits + row * stride, chunk, V, CHUNK)
        _, first = best(x, column, column < V)
        at = row * CHUNKS + chunk
        tl.store(out_highest + at, highest)
        tl.store(out_sum + at, total)
        tl.store(out_id + at, first)


@triton.jit
def mass_kernel(
    logits, given, count, temperature, top_k, highest, out_mass, stride, V, CHUNKS, T,
    CHUNK: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Grid (B * T, chunks). The weight of each chunk, for rows that are sampled without top-k."""
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    b = row // T
    t, k = tl.load(temperature + b), tl.load(top_k + b)
    used = tl.load(count + b)
    if (t > 0) & ((k <= 0) | (k >= V)) & (row % T >= _anchor(given + b, used)) & (row % T < used):
        own = weight_of_chunk(logits + row * stride, highest + row * CHUNKS, chunk, t, V, CHUNKS, CHUNK, BLOCK_C)
        tl.store(out_mass + row * CHUNKS + chunk, own)


@triton.jit
def row_kernel(
    logits, ids, given, count, temperature, top_k, top_p, draft_ids, highest, sums, best_ids, mass,
    out_token, out_share, out_floor, out_p, stride, V, CHUNKS, T,
    K: tl.constexpr, CHUNK: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Grid (B * T,). The likeliest token of the row or, where the slot samples, the draft behind it; its probability,
    NaN where a logit is not finite. Where drafts may be: the lowest tempered logit that is kept, and p at the draft's
    candidates, fp64."""
    row = tl.program_id(0).to(tl.int64)
    b = row // T
    used = tl.load(count + b)
    if row % T < used:
        c = tl.arange(0, BLOCK_C)
        real = c < CHUNKS
        of_row = row * CHUNKS + c
        peaks = tl.load(highest + of_row, real, -_INF)
        peak = tl.max(peaks)
        total = tl.sum(tl.load(sums + of_row, real, 0.0) * tl.exp(peaks - peak))
        finite = total == total
        logits += row * stride
        t = tl.load(temperature + b)
        behind = row % T + 1 < used
        if t > 0:
            token = tl.load(ids + row + 1, behind, -1)
        else:
            _, first = best(peaks, tl.load(best_ids + of_row, real, 0), real)
            token = tl.where(finite, first, 0).to(tl.int64)
        is_token = (token >= 0) & (token < V)
        x = tl.load(logits + token, is_token, -_INF).to(tl.float32)
        share = tl.where(is_token, tl.exp(x - peak) / total, 0.0)
        tl.store(out_token + row, token)
        tl.store(out_share + row, tl.where(finite, share, float("nan")))
        if (t > 0) & finite & (row % T >= _anchor(given + b, used)):
            k, p = tl.load(top_k + b), tl.load(top_p + b)
            highest += row * CHUNKS
            top = tl.div_rn(peak, t)
            if (k > 0) & (k < V):
                floor = lowest(logits, highest, top, k.to(tl.float64), t, V, CHUNKS, False, CHUNK, BLOCK_C)
                kept = weight_from(logits, highest, floor, top, t, V, CHUNKS, CHUNK)
            else:
                floor = tl.cast(-_INF, tl.float32)
                kept = tl.sum(tl.load(mass + of_row, real, 0))
            if p < 1:
                limit = p.to(tl.float64) * kept.to(tl.float64)
                floor = lowest(logits, highest, top, limit, t, V, CHUNKS, True, CHUNK, BLOCK_C)
                kept = weight_from(logits, highest, floor, top, t, V, CHUNKS, CHUNK)
            tl.store(out_floor + row, floor)
            if behind:
                i = tl.arange(0, BLOCK_K)
                at = (row - b) * K + i
                candidate = tl.load(draft_ids + at, i < K, -1)
                known = (candidate >= 0) & (candidate < V)
                y = tl.div_rn(tl.load(logits + candidate, known, -_INF).to(tl.float32), t)
                w = tl.where(known & (y >= floor), weight(top - y), 0)
                tl.store(out_p + at, w.to(tl.float64) / kept.to(tl.float64), i < K)


@triton.jit
def stop_kernel(
    ids, given, count, temperature, seed, position, draft_ids, draft_probability, p, token, share,
    out_held, out_row, out_shift,
    T: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Grid (B,). Where the drafts that are taken end: writes `token` and `share` for it, what is held, the row that a
    token is drawn from (-1 for none) and what is added to its logits at the draft's candidates."""
    b = tl.program_id(0).to(tl.int64)
    r = tl.arange(0, BLOCK_T)
    real = r < T
    used = tl.load(count + b)
    fed = tl.load(ids + b * T + r, real, -1)
    mine = real & (r < used)
    mine_token = tl.load(token + b * T + r, mine, -1)
    mine_share = tl.load(share + b * T + r, mine, 0.0)
    row = tl.cast(-1, tl.int64)
    if (used > 0) & (tl.load(temperature + b) > 0):
        anchor = _anchor(given + b, used)
        broken = mine & (r >= anchor) & (mine_share != mine_share)
        end = tl.min(tl.where(broken, r, used - 1))
        behind = (r >= anchor) & (r < end)
        i = tl.arange(0, BLOCK_K)
        at = (b * (T - 1) + r)[:, None] * K + i[None, :]
        inside = behind[:, None] & (i < K)[None, :]
        q_all = tl.load(draft_probability + at, inside, 0.0).to(tl.float64)
        p_all = tl.load(p + at, inside, 0.0)
        own = inside & (tl.load(draft_ids + at, inside, -1) == mine_token[:, None])
        q_own = tl.sum(tl.where(own, q_all, 0.0), 1)
        p_own = tl.max(tl.where(own, p_all, 0.0), 1)
        ratio = tl.where(q_own > 0, p_own / tl.where(q_own > 0, q_own, 1.0), 0.0)
        key = tl.load(position + b * T + r, real, 0) + (r.to(tl.int64) << 32)
        u = uniform(tl.load(seed + b), key, _ACCEPT)
        reach = tl.full([BLOCK_T], 1.0, tl.float64)
        if BLOCK:
            so_far = tl.cast(1.0, tl.float64)
            next_reach = reach
            for t in range(T - 1):
                step = tl.sum(tl.where(r == t, tl.where(behind, ratio, 1.0), 0.0))
                so_far = tl.minimum(so_far * step, 1.0)
                next_reach = tl.where(r == t, so_far, next_reach)
                reach = tl.where(r == t + 1, so_far, reach)
            # Row r decides on the draft behind it, by what is spare at the row of that draft.
            lower = (r + 1)[:, None] * K + b * (T - 1) * K + i[None, :]
            there = (behind & (r + 1 < end))[:, None] & (i < K)[None, :]
            q_next = tl.load(draft_probability + lower, there, 0.0).to(tl.float64)
            p_next = tl.load(p + lower, there, 0.0)
            spare = next_reach - tl.sum(tl.minimum(next_reach[:, None] * p_next, q_next), 1)
            spare = tl.maximum(spare, 0.0)
            open_end = tl.where(next_reach < 1, spare / (spare + 1 - next_reach), 1.0)
            threshold = tl.where(r + 1 == end, next_reach, open_end)
            row = tl.max(tl.where(behind & (u < threshold), r + 1, anchor))
        else:
            row = tl.min(tl.where(behind & (u >= ratio), r, end))
        stop = row

        at_stop = tl.sum(tl.where(r == stop, reach, 0.0))
        behind_stop = i < tl.where(stop < end, K, 0)
        of_stop = (b * (T - 1) + stop) * K + i
        q = tl.load(draft_probability + of_stop, behind_stop, 0.0).to(tl.float64)
        share_p = at_stop * tl.load(p + of_stop, behind_stop, 0.0)
        left = at_stop - tl.sum(tl.minimum(share_p, q))
        cut = (i < tl.where(left >= _LEAST, K, 0)) & (share_p > 0) & (q > 0)
        rest = 1 - q / tl.where(cut, share_p, 1.0)
        word = tl.minimum(tl.maximum((rest * 4294967296.0).to(tl.int64), 1), 0xFFFFFFFF).to(tl.uint32)
        shift = tl.where(cut, tl.where(rest > 0, log_share(word), -_INF), 0.0)
        tl.store(out_shift + b * K + i, shift, i < K)

        failed = tl.max(tl.where(broken & (r == stop), 1, 0)) > 0
        taken = (r >= anchor) & (r < stop)
        here = (r == stop) & failed
        mine_token = tl.where(taken, mine_token, tl.where(here, 0, -1))
        mine_share = tl.where(taken | here, mine_share, 0.0)
        fed = tl.where(r > stop, -1, fed)
        row = tl.where(failed, -1, stop)
    tl.store(token + b * T + r, mine_token, real)
    tl.store(share + b * T + r, mine_share, real)
    tl.store(out_held + b * T + r, fed, real)
    tl.store(out_row + b, row)


@triton.jit
def draw_kernel(
    logits, temperature, seed, position, draft_ids, highest, floor, stop_row, shift, out_key, out_id,
    stride, V, CHUNKS, T, K: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Grid (B, chunks). Of the row that a slot draws from, the best noisy logit of each chunk, and its id."""
    b, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    stop = tl.load(stop_row + b)
    if stop >= 0:
        row = b * T + stop
        t, least = tl.load(temperature + b), tl.load(floor + row)
        most, first = tl.cast(-_INF, tl.float32), tl.cast(0, tl.int32)
        if tl.div_rn(tl.load(highest + row * CHUNKS + chunk), t) >= least:
            y, column = tempered(logits + row * stride, chunk, t, V, CHUNK)
            inside = (column < V) & (y >= least)
            for i in range(K):
                candidate = tl.load(draft_ids + (row - b) * K + i, stop + 1 < T, -1)
                y = tl.where(column == candidate, y + tl.load(shift + b * K + i), y)
            key = tl.load(position + row) + (stop << 32)
            most, first = best(y + noise(tl.load(seed + b), key, chunk * CHUNK, CHUNK, _RESIDUAL), column, inside)
        tl.store(out_key + b * CHUNKS + chunk, most)
        tl.store(out_id + b * CHUNKS + chunk, first)


@triton.jit
def token_kernel(
    logits, highest, sums, keys, key_ids, stop_row, out_token, out_share, stride, CHUNKS, T, BLOCK_C: tl.constexpr
):  # fmt: skip
    """Grid (B,). The token that a slot draws, and its probability."""
    b = tl.program_id(0).to(tl.int64)
    stop = tl.load(stop_row + b)
    if stop >= 0:
        row = b * T + stop
        c = tl.arange(0, BLOCK_C)
        real = c < CHUNKS
        _, token = best(tl.load(keys + b * CHUNKS + c, real, -_INF), tl.load(key_ids + b * CHUNKS + c, real, 0), real)
        peaks = tl.load(highest + row * CHUNKS + c, real, -_INF)
        peak = tl.max(peaks)
        total = tl.sum(tl.load(sums + row * CHUNKS + c, real, 0.0) * tl.exp(peaks - peak))
        x = tl.load(logits + row * stride + token).to(tl.float32)
        tl.store(out_token + row, token.to(tl.int64))
        tl.store(out_share + row, tl.exp(x - peak) / total)


@triton.jit
def _anchor(given, used):
    """The last row that is certain."""
    return tl.minimum(tl.maximum(tl.load(given), 1), used) - 1


def launch(
    logits: torch.Tensor,
    ids: torch.Tensor,
    given: torch.Tensor,
    count: torch.Tensor,
    settings: tuple[torch.Tensor, ...],
    draft_ids: torch.Tensor,
    draft_probability: torch.Tensor,
    block: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Arguments and results as `ocria.ops.verify.verify` describes them; settings: temperature to position."""
    if logits.stride(-1) != 1:
        raise EngineError("verify: the logits of a row must be contiguous")
    if not all(x.is_contiguous() for x in (ids, given, count, *settings)):
        raise EngineError("verify: what describes the window must be contiguous")
    draft_ids, draft_probability = draft_ids.contiguous(), draft_probability.contiguous()
    candidates = draft_ids.shape[2]
    if not 1 <= candidates <= MOST_CANDIDATES:
        raise EngineError(
            f"verify: drafts from {candidates} candidates, and the kernel takes 1 to {MOST_CANDIDATES}",
            cure="Draw drafts from the likeliest tokens alone.",
        )
    temperature, top_k, top_p, seed, position = settings
    (batch, rows), vocab = ids.shape, logits.shape[-1]
    logits = logits.flatten(0, 1)
    chunks = triton.cdiv(vocab, CHUNK)
    highest, sums = (logits.new_empty(batch * rows * chunks, dtype=torch.float32) for _ in range(2))
    best_ids = torch.empty_like(sums, dtype=torch.int32)
    mass = torch.empty_like(sums, dtype=torch.int64)
    p = torch.empty_like(draft_probability, dtype=torch.float64)
    floor, share = (torch.empty_like(ids, dtype=torch.float32) for _ in range(2))
    token, held, stop = torch.empty_like(ids), torch.empty_like(ids), torch.empty_like(count)
    shift = logits.new_empty(batch * candidates, dtype=torch.float32)
    keys = logits.new_empty(batch * chunks, dtype=torch.float32)
    key_ids = torch.empty_like(keys, dtype=torch.int32)

    size = (logits.stride(0), vocab, chunks, rows)
    chunk, blocks = {"CHUNK": CHUNK, "num_warps": WARPS}, {"BLOCK_C": triton.next_power_of_2(chunks)}
    few = {"K": candidates, "BLOCK_K": triton.next_power_of_2(candidates)}
    wrap(chunk_kernel)[(batch * rows, chunks)](logits, count, highest, sums, best_ids, *size, **chunk)
    wrap(mass_kernel)[(batch * rows, chunks)](
        logits, given, count, temperature, top_k, highest, mass, *size, **chunk, **blocks
    )
    wrap(row_kernel)[(batch * rows,)](
        logits, ids, given, count, temperature, top_k, top_p, draft_ids, highest, sums, best_ids, mass,
        token, share, floor, p, *size, CHUNK=CHUNK, **blocks, **few, num_warps=_ROW_WARPS,
    )  # fmt: skip
    wrap(stop_kernel)[(batch,)](
        ids, given, count, temperature, seed, position, draft_ids, draft_probability, p, token, share,
        held, stop, shift, T=rows, BLOCK=block, BLOCK_T=triton.next_power_of_2(rows), **few, num_warps=WARPS,
    )  # fmt: skip
    wrap(draw_kernel)[(batch, chunks)](
        logits, temperature, seed, position, draft_ids, highest, floor, stop, shift, keys, key_ids, *size,
        K=candidates, **chunk,
    )  # fmt: skip
    wrap(token_kernel)[(batch,)](
        logits, highest, sums, keys, key_ids, stop, token, share, size[0], chunks, rows, **blocks, num_warps=WARPS
    )
    return token, share, held


def aot_variants() -> list[AotVariant]:
    """Verification over the 4B model's vocabulary from bf16 logits: one candidate a draft, and sixteen."""
    kinds = dict.fromkeys(("logits",), "*bf16") | dict.fromkeys(("best_ids", "key_ids", "out_id"), "*i32")
    kinds |= dict.fromkeys(("p", "out_p"), "*fp64")
    whole = ("ids", "given", "count", "top_k", "seed", "position", "draft_ids", "mass", "token", "stop_row")
    kinds |= dict.fromkeys((*whole, "out_mass", "out_token", "out_held", "out_row"), "*i64")
    kinds |= {"stride": "i32:16", "V": "i32:16", "CHUNKS": "i32", "T": "i32:16"}
    kernels = (chunk_kernel, mass_kernel, row_kernel, stop_kernel, draw_kernel, token_kernel)
    variants = []
    for rows, candidates, block in ((16, 1, False), (16, 16, False), (16, 16, True), (32, 16, True)):
        sizes = {"CHUNK": CHUNK, "BLOCK_C": triton.next_power_of_2(triton.cdiv(SHAPES_4B.vocab, CHUNK))}
        sizes |= {"K": candidates, "BLOCK_K": candidates, "BLOCK": block, "BLOCK_T": rows}
        for kernel in kernels:
            constants = {name: value for name, value in sizes.items() if name in kernel.arg_names}
            if kernel is stop_kernel:
                constants["T"] = rows
            signature = {name: kinds.get(name, "*fp32") for name in kernel.arg_names if name not in constants}
            warps = _ROW_WARPS if kernel is row_kernel else WARPS
            name = f"{kernel.fn.__name__} T={rows} K={candidates} block={block}"
            variants.append(AotVariant(name, kernel, signature, constants, num_warps=warps))
    return variants
