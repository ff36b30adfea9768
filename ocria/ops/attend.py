"""Gated attention of a step: up to 16 new rows per request against the slot's KV cache.

Per-head RMS norm of q and k, partial rotary, KV write, grouped-query softmax attention with scale D^-0.5, sigmoid
gate. Prefill and training use `ocria.ops.attention`. Source: transformers `modeling_qwen3_5.py`.
"""

import torch
import torch.nn.functional as F

from ocria.ops import kv_cache
from ocria.ops.norm import normalised, rms_norm_reference
from ocria.ops.register import register

MAX_ROWS = 16
"""Most rows per request that the kernel takes (T)."""


def attend(
    qg: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_scale: torch.Tensor,
    k_scale: torch.Tensor,
    eps: float,
    cos: torch.Tensor,
    sin: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    slots: torch.Tensor,
    length: torch.Tensor,
    count: torch.Tensor,
    kv_len: int,
    first_slot: int | None = None,
    full: bool = False,
    kv_rows: torch.Tensor | None = None,
    mask: torch.Tensor | None = None,
    kv_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention of B x T rows, of which request b uses the first `count[b]` -> `[B, T, H * D]` in qg's dtype.

    qg `[B, T, H, 2 D]`: query, then gate, per head; k, v `[B, T, Hkv, D]`. q_scale, k_scale fp32 `[D]`: 1 + the
    weight of the norms. cos, sin fp32 `[B, T, R]`: the first R dims of each head turn, pairs (i, i + R / 2).
    keys, values `[slots, max_len, Hkv, D]` are written in place: row `length[b] + t` of slot `slots[b]` for every
    t < count[b]. Row t sees the keys 0 .. length[b] + t; query head h uses key head h // (H / Hkv). They have qg's
    dtype, or are float8_e4m3fn (`ocria.ops.kv_cache`) with kv_scale fp32 `[2]`: what codes of keys and of values are
    multiplied by.

    slots, length, count int64 `[B]`, `length + count <= max_len`. Rows t >= count give zeros, whatever they hold.
    Only slots with count 0 may repeat. kv_len: host upper bound of `length + count`. The torch form leaves rows
    t >= count in slot 0, the dummy, and needs the rows below kv_len to be finite in all slots with a count.

    What the host knows besides, for less work on the CPU: first_slot: the slots are first_slot ..
    first_slot + B - 1 in this order; full: every count is T; and what all layers of a step have in common: kv_rows
    int64 `[B, T]`: where each row goes in a cache of `[slots * max_len]` rows, padding into slot 0; mask
    `[B, 1, T, kv_len]`: what is added to the scores, 0 for the keys that a row sees and -inf beyond, in qg's dtype.
    """
    arguments = (qg, k, v, q_scale, k_scale, eps, cos, sin, keys, values, slots, length, count, kv_len)
    return attend_op(*arguments, first_slot, full, kv_rows, mask, kv_scale)


def attend_reference(
    qg: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_scale: torch.Tensor,
    k_scale: torch.Tensor,
    eps: float,
    cos: torch.Tensor,
    sin: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    slots: torch.Tensor,
    length: torch.Tensor,
    count: torch.Tensor,
    kv_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """What `attend` computes, row by row and head by head in fp32; q and k pass through qg's dtype, k and v through the
    cache's."""
    k_step, v_step = _steps(kv_scale)
    heads, head_dim = qg.shape[2], k.shape[3]
    out = torch.zeros(*qg.shape[:3], head_dim, dtype=qg.dtype, device=qg.device)
    for b, t in torch.nonzero(torch.arange(qg.shape[1]) < count.cpu()[:, None]).tolist():
        slot, row = int(slots[b]), int(length[b]) + t
        turned = _turn(rms_norm_reference(k[b, t].float(), k_scale, eps), cos[b, t], sin[b, t]).to(qg.dtype)
        keys[slot, row] = kv_cache.encode(turned, k_step, keys.dtype)
        values[slot, row] = kv_cache.encode(v[b, t], v_step, values.dtype)
        q, gate = qg[b, t].float().split(head_dim, dim=-1)
        q = _turn(rms_norm_reference(q, q_scale, eps), cos[b, t], sin[b, t]).to(qg.dtype).float()
        for h in range(heads):
            group = h // (heads // k.shape[2])
            scores = kv_cache.decode(keys[slot, : row + 1, group], k_step, torch.float32) @ q[h] * head_dim**-0.5
            o = scores.softmax(dim=0) @ kv_cache.decode(values[slot, : row + 1, group], v_step, torch.float32)
            out[b, t, h] = (o * gate[h].sigmoid()).to(out.dtype)
    return out.flatten(2)


def _turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = cos.shape[-1] // 2
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat([first * cos[:half] - second * sin[:half], second * cos[half:] + first * sin[half:], rest], dim=-1)


def _attend(
    qg: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_scale: torch.Tensor,
    k_scale: torch.Tensor,
    eps: float,
    cos: torch.Tensor,
    sin: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    slots: torch.Tensor,
    length: torch.Tensor,
    count: torch.Tensor,
    kv_len: int,
    first_slot: int | None,
    full: bool,
    kv_rows: torch.Tensor | None,
    mask: torch.Tensor | None,
    kv_scale: torch.Tensor | None,
) -> torch.Tensor:
    (batch, rows, heads, _), (kv_heads, head_dim) = qg.shape, k.shape[2:]
    steps = torch.arange(rows, device=qg.device)
    valid = None if full else steps < count[:, None]
    if kv_rows is None:
        kv_rows = torch.add(length[:, None] + steps, slots[:, None], alpha=keys.shape[1])
        kv_rows = kv_rows if full else torch.where(valid, kv_rows, 0)
    if mask is None:
        mask = torch.arange(kv_len, device=qg.device) <= (length[:, None] + steps)[:, None, :, None]

    # All heads of q and k go through one norm and one rotation.
    qk = torch.cat([qg[..., :head_dim], k], dim=2).float()
    qk = normalised(qk, eps).mul_(torch.stack([q_scale] * heads + [k_scale] * kv_heads))
    q, k = _turn_in_place(qk, cos, sin).to(qg.dtype).split([heads, kv_heads], dim=2)

    seen = []
    for cache, new, step in zip((keys, values), (k, v), _steps(kv_scale), strict=True):
        kv_cache.write(cache, kv_rows.view(-1), kv_cache.encode(new, step, cache.dtype).flatten(0, 1))
        seen.append(kv_cache.decode(_take(cache, slots, kv_len, first_slot), step, qg.dtype).transpose(1, 2))
    o = F.scaled_dot_product_attention(q.transpose(1, 2), *seen, attn_mask=mask, enable_gqa=heads != kv_heads)
    o = (o.transpose(1, 2).float() * qg[..., head_dim:].float().sigmoid()).to(qg.dtype)
    return (o if full else torch.where(valid[:, :, None, None], o, 0)).view(batch, rows, -1)


def _steps(kv_scale: torch.Tensor | None) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    return (None, None) if kv_scale is None else (kv_scale[0], kv_scale[1])


def _turn_in_place(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate the first R dims of fp32 x `[B, T, heads, D]`."""
    half = cos.shape[-1] // 2
    first, second = x[..., :half], x[..., half : 2 * half]
    cos, sin = cos[..., None, :half], sin[..., None, :half]  # both halves are equal
    turned = first * sin
    first.mul_(cos).addcmul_(second, sin, value=-1)
    second.mul_(cos).add_(turned)
    return x


def _take(cache: torch.Tensor, slots: torch.Tensor, kv_len: int, first_slot: int | None) -> torch.Tensor:
    """The first `kv_len` rows of the slots: a view where they are consecutive, else a copy."""
    if first_slot is not None:
        return cache[first_slot : first_slot + slots.shape[0], :kv_len]
    return cache[:, :kv_len].index_select(0, slots)


def _launch(
    qg: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_scale: torch.Tensor,
    k_scale: torch.Tensor,
    eps: float,
    cos: torch.Tensor,
    sin: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    slots: torch.Tensor,
    length: torch.Tensor,
    count: torch.Tensor,
    kv_len: int,
    first_slot: int | None,
    full: bool,
    kv_rows: torch.Tensor | None,
    mask: torch.Tensor | None,
    kv_scale: torch.Tensor | None,
) -> torch.Tensor:
    from ocria.ops.kernels.attend import launch_attend

    return launch_attend(qg, k, v, q_scale, k_scale, eps, cos, sin, keys, values, slots, length, count, kv_scale)


def _fake(qg, k, v, q_scale, k_scale, eps, cos, sin, keys, values, slots, length, count, *known):
    return qg.new_empty(*qg.shape[:2], qg.shape[2] * k.shape[3])


attend_op = register("attend", torch_form=_attend, launch=_launch, fake=_fake, mutates=("keys", "values"))
