"""Where an answer is in its reference, and where it repeats itself: the kernels of `ocria.ops.align`.

One program a request walks over the text in blocks, up to its real end, and keeps the best place of each lane; every
place is one number that orders all places, so that the order of the walk does not matter.
"""

import torch
import triton
import triton.language as tl

from ocria.errors import EngineError
from ocria.ops.align import CONTEXT, LEAST, MATCH, SHIFT
from ocria.ops.kernels.aot import SHAPES_4B, AotVariant
from ocria.ops.register import wrap

_CONTEXT, _MATCH, _LEAST, _SHIFT = map(tl.constexpr, (CONTEXT, MATCH, LEAST, SHIFT))
_PLACE = tl.constexpr((1 << SHIFT) - 1)
_BLOCK = 512


@triton.jit
def _matches(text, place, start, limit, newest, history, length, first):
    """How many of the last tokens of the answer end each place of `text`, which begins at `start`."""
    run = place < limit
    matches = tl.zeros_like(place)
    for k in tl.static_range(_CONTEXT):
        token = newest
        if k > 0:
            token = tl.load(history + length - k, length - k > first, -1)
        run = run & (length - k > first) & (place - k >= start)
        run = run & (tl.load(text + place - k, run != 0, -2) == token)  # a mask that is certainly one
        matches += run.to(tl.int64)
    return matches


@triton.jit(do_not_specialize=["history_stride", "reference_stride"])
def align_kernel(
    slots, anchor, length, first, live, history, reference, reference_len, offset, out_tokens, out_count,
    history_stride, reference_stride, T: tl.constexpr, BLOCK: tl.constexpr, BLOCK_T: tl.constexpr,
):  # fmt: skip
    """Grid (B,)."""
    b = tl.program_id(0).to(tl.int64)
    t = tl.arange(0, BLOCK_T)
    if tl.load(live + b) == 0:
        tl.store(out_tokens + b * (T - 1) + t, tl.zeros([BLOCK_T], tl.int64), t < T - 1)
        tl.store(out_count + b, 0)
    else:
        slot = tl.load(slots + b)
        row, begin, newest = tl.load(length + b), tl.load(first + b), tl.load(anchor + b)
        text, end = reference + slot * reference_stride, tl.load(reference_len + slot)
        presumed = tl.maximum(row + tl.load(offset + slot), -1)
        best = tl.zeros([BLOCK], tl.int64)
        for block in range(0, end, BLOCK):
            place = (block + tl.arange(0, BLOCK)).to(tl.int64)
            matches = _matches(text, place, 0, end, newest, history + slot * history_stride, row, begin)
            distance = tl.abs(place - presumed)
            # Bits of the distance, from the exponent of its float.
            bits = tl.maximum((distance.to(tl.float32).to(tl.int32, bitcast=True) >> 23) - 126, 0)
            weight = _MATCH * matches - bits
            order = (weight << _SHIFT) - (2 * distance + (place < presumed).to(tl.int64))
            best = tl.maximum(best, tl.where(place < end, order, 0))
        order = tl.max(best, 0)
        near = -order & _PLACE
        found = presumed + tl.where((near & 1) == 1, -(near >> 1), near >> 1)
        at = tl.where(order > 0, found, tl.maximum(presumed - (row > begin).to(tl.int64), -1))
        tl.store(offset + slot, at - row)
        ahead = at + 1 + t
        valid = (ahead < end) & (t < T - 1)
        tl.store(out_tokens + b * (T - 1) + t, tl.load(text + ahead, valid, 0), t < T - 1)
        tl.store(out_count + b, tl.minimum(tl.maximum(end - at - 1, 0), T - 1))


@triton.jit(do_not_specialize=["history_stride"])
def recur_kernel(
    slots, anchor, length, first, live, history, out_tokens, out_count,
    history_stride, T: tl.constexpr, BLOCK: tl.constexpr, BLOCK_T: tl.constexpr,
):  # fmt: skip
    """Grid (B,)."""
    b = tl.program_id(0).to(tl.int64)
    t = tl.arange(0, BLOCK_T)
    row, begin, newest = tl.load(length + b), tl.load(first + b), tl.load(anchor + b)
    end = tl.where(tl.load(live + b) == 0, 0, row)
    text = history + tl.load(slots + b) * history_stride
    best = tl.zeros([BLOCK], tl.int64)
    for block in range(begin + 1, end, BLOCK):
        place = (block + tl.arange(0, BLOCK)).to(tl.int64)
        matches = _matches(text, place, begin + 1, end, newest, text, row, begin)
        best = tl.maximum(best, tl.where(place < end, (matches << _SHIFT) + place, 0))
    order = tl.max(best, 0)
    place = order & _PLACE
    enough = (order >> _SHIFT) >= _LEAST
    # What followed; behind the anchor the drafts themselves repeat.
    source = place + 1 + t % tl.maximum(row - place, 1)
    drafts = tl.where(source == row, newest, tl.load(text + source, (enough & (source < row)) != 0, 0))
    tl.store(out_tokens + b * (T - 1) + t, tl.where(enough, drafts, 0), t < T - 1)
    tl.store(out_count + b, tl.where(enough, T - 1, 0))


def launch_align(slots, anchor, length, first, live, history, reference, reference_len, offset, rows):
    """Arguments and results as `ocria.ops.align.align` describes them."""
    _check("align", (slots, anchor, length, first, live, reference_len, offset), (history, reference))
    tokens, count = slots.new_empty(slots.shape[0], rows - 1), torch.empty_like(slots)
    wrap(align_kernel)[(slots.shape[0],)](
        slots, anchor, length, first, live, history, reference, reference_len, offset, tokens, count,
        history.stride(0), reference.stride(0),
        T=rows, BLOCK=_block(reference), BLOCK_T=triton.next_power_of_2(rows - 1),
    )  # fmt: skip
    return tokens, count


def launch_recur(slots, anchor, length, first, live, history, rows):
    """Arguments and results as `ocria.ops.align.recur` describes them."""
    _check("recur", (slots, anchor, length, first, live), (history,))
    tokens, count = slots.new_empty(slots.shape[0], rows - 1), torch.empty_like(slots)
    wrap(recur_kernel)[(slots.shape[0],)](
        slots, anchor, length, first, live, history, tokens, count, history.stride(0),
        T=rows, BLOCK=_block(history), BLOCK_T=triton.next_power_of_2(rows - 1),
    )  # fmt: skip
    return tokens, count


def _block(text: torch.Tensor) -> int:
    return min(_BLOCK, triton.next_power_of_2(text.shape[1]))


def _check(name: str, dense: tuple[torch.Tensor, ...], by_slot: tuple[torch.Tensor, ...]) -> None:
    if not all(x.is_contiguous() for x in dense) or any(x.stride(1) != 1 for x in by_slot):
        raise EngineError(f"{name}: tensors must be contiguous")


def aot_variants() -> list[AotVariant]:
    """Verification of 8 and 16 rows, pages and lines."""
    integers = ("slots", "anchor", "length", "first", "history", "reference", "reference_len", "offset",
                "out_tokens", "out_count")  # fmt: skip
    types = dict.fromkeys(integers, "*i64") | {"live": "*i1", "history_stride": "i32", "reference_stride": "i32"}
    variants = []
    for kernel in (align_kernel, recur_kernel):
        signature = {name: types[name] for name in kernel.arg_names if name in types}
        for rows in (rows for rows in SHAPES_4B.rows if rows > 1):
            for block in (256, _BLOCK):
                constants = {"T": rows, "BLOCK": block, "BLOCK_T": triton.next_power_of_2(rows - 1)}
                name = f"{kernel.__name__.removesuffix('_kernel')} T={rows} {block}"
                variants.append(AotVariant(name, kernel, signature, constants))
    return variants
