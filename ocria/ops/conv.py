"""The short causal convolution in front of a Gated DeltaNet, with its window of earlier rows."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ocria.ops.register import register

EPS = 1e-6
"""Inside the root of the L2 norms of q and k."""


def causal_conv_silu(
    x: torch.Tensor, weight: torch.Tensor, history: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Depthwise causal convolution, then SiLU.

    x `[B, T, C]`; weight `[C, K]`; history `[B, K - 1, C]` are the rows before x (zeros when None).
    Returns the output `[B, T, C]` and the extended rows `[B, K - 1 + T, C]`, from which the caller keeps the
    window after the last valid row.
    """
    batch, _, channels = x.shape
    width = weight.shape[1]
    if history is None:
        history = x.new_zeros(batch, width - 1, channels)
    rows = torch.cat([history.to(x.dtype), x], dim=1)
    if x.shape[1] == 1:
        y = (rows * weight.t()).sum(1, keepdim=True)
    else:
        y = sum(rows[:, i : i + x.shape[1]] * weight[:, i] for i in range(width))
    return F.silu(y), rows


def ring_rows(slots: torch.Tensor, length: torch.Tensor, rows: int, width: int, ring: int) -> torch.Tensor:
    """Where a window and the rows before it lie in a convolution ring, seen as `[slots * ring]` rows.

    slots, length `[B]` int64; rows: T of the window; width: K of the convolution; ring: Lc, a power of two.
    Returns int64 `[B, K - 1 + T]`. The same in every layer: compute it once per step for `gated_conv`.
    """
    position = length[:, None] + torch.arange(1 - width, rows, device=length.device)
    return torch.add(position & (ring - 1), slots[:, None], alpha=ring)


def gated_conv_reference(
    qkv, a, b, weight, rate, dt_bias, conv_ring, slots, length, count, key_heads, key_dim, rows=None
):
    """The definition of `gated_conv`: one request, one row, one head after the other."""
    (batch, window, channels), width, ring = qkv.shape, weight.shape[1], conv_ring.shape[1]
    heads = a.shape[-1]
    keep = window if width - 1 + window <= ring else width - 1
    y = torch.zeros(batch, window, channels)
    g, beta = torch.zeros(2, batch, window, heads)
    for i in range(batch):
        slot, start, used = int(slots[i]), int(length[i]), int(count[i])
        past = [conv_ring[slot, (start - j) % ring].clone() for j in range(width - 1, 0, -1)]
        stream = torch.stack([*past, *qkv[i, :used]]).float()
        for t in range(used):
            acc = stream[t] * weight[:, 0].float()
            for tap in range(1, width):
                acc = acc + stream[t + tap] * weight[:, tap].float()
            y[i, t] = F.silu(acc)
            g[i, t] = rate * F.softplus(a[i, t].float() + dt_bias)
            beta[i, t] = b[i, t].float().sigmoid()
            if t >= used - keep:
                conv_ring[slot, (start + t) % ring] = qkv[i, t]
    q, k, v = y.split([key_heads * key_dim] * 2 + [channels - 2 * key_heads * key_dim], dim=-1)
    q, k = (x.unflatten(-1, (key_heads, key_dim)) for x in (q, k))
    q, k = (x * torch.rsqrt(x.square().sum(-1, keepdim=True) + EPS) for x in (q, k))
    q = q * key_dim**-0.5
    return *(x.to(qkv.dtype) for x in (q, k, v.unflatten(-1, (heads, -1)))), g, beta


def _torch_form(qkv, a, b, weight, rate, dt_bias, conv_ring, slots, length, count, key_heads, key_dim, rows=None):
    (batch, window, channels), width, ring = qkv.shape, weight.shape[1], conv_ring.shape[1]
    past = width - 1
    unused = (torch.arange(window, device=count.device) >= count[:, None])[..., None]
    flat = conv_ring.view(-1, channels)
    if past + window <= ring:
        if rows is None:
            rows = ring_rows(slots, length, window, width, ring)
        stream = flat.index_select(0, rows.view(-1)).view(batch, -1, channels)
        # Unused rows get what is there already: written back, it changes nothing, and it is no garbage.
        new = stream[:, past:]
        new.copy_(torch.where(unused, new, qkv))
        flat.index_put_((rows[:, past:],), new)
    else:
        history = flat[ring_rows(slots, length, 0, width, ring)]
        stream = torch.cat([history, qkv.masked_fill(unused, 0)], dim=1)
        last = count[:, None] + torch.arange(past, device=count.device)
        kept = stream.gather(1, last[..., None].expand(-1, -1, channels))
        flat[ring_rows(slots, length + count, 0, width, ring)] = kept
    # The taps as one dimension: fewer calls than a sum of K products, and the same order of additions for every T.
    taps = stream.unfold(1, width, 1).transpose(2, 3)
    y = F.silu((taps.float() * weight.t().float()).sum(2)).masked_fill_(unused, 0)

    qk = y[..., : 2 * key_heads * key_dim].view(batch, window, 2 * key_heads, key_dim)
    v = y[..., 2 * key_heads * key_dim :].view(batch, window, a.shape[-1], -1)
    qk.mul_((qk * qk).sum(-1, keepdim=True).add_(EPS).rsqrt_())
    q, k = qk[:, :, :key_heads], qk[:, :, key_heads:]
    q.mul_(key_dim**-0.5)
    g = F.softplus(a.float() + dt_bias).mul_(rate).masked_fill_(unused, 0)
    beta = b.float().sigmoid().masked_fill_(unused, 0)
    return q.to(qkv.dtype), k.to(qkv.dtype), v.to(qkv.dtype), g, beta


def _launch(
    qkv: Tensor, a: Tensor, b: Tensor, weight: Tensor, rate: Tensor, dt_bias: Tensor, conv_ring: Tensor,
    slots: Tensor, length: Tensor, count: Tensor, key_heads: int, key_dim: int, rows: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    from ocria.ops.kernels.conv import launch

    return launch(qkv, a, b, weight, rate, dt_bias, conv_ring, slots, length, count, key_heads, key_dim)


def _fake(qkv, a, b, weight, rate, dt_bias, conv_ring, slots, length, count, key_heads, key_dim, rows=None):
    batch, window, channels = qkv.shape
    q = qkv.new_empty(batch, window, key_heads, key_dim)
    v = qkv.new_empty(batch, window, a.shape[-1], (channels - 2 * key_heads * key_dim) // a.shape[-1])
    g = rate.new_empty(a.shape)
    return q, torch.empty_like(q), v, g, torch.empty_like(g)


gated_conv = register("gated_conv", torch_form=_torch_form, launch=_launch, fake=_fake, mutates=("conv_ring",))
"""gated_conv(qkv, a, b, weight, rate, dt_bias, conv_ring, slots, length, count, key_heads, key_dim, rows=None)
-> (q, k, v, g, beta)

All that precedes the delta rule in one launch: causal convolution, SiLU, L2 norms and gates; the window is appended
to the convolution ring.

qkv `[B, T, C]`, the heads of q, then of k, then of v, and a, b `[B, T, Hv]` in the network's dtype, contiguous in
their last dimension; weight `[C, K]`, fastest when laid out as `[K, C]`; rate = -exp(A_log) and dt_bias fp32 `[Hv]`;
conv_ring `[slots, Lc, C]`, network dtype, Lc a power of two, holding the raw row p of a slot at p & (Lc - 1);
slots, length, count `[B]` int64. rows: `ring_rows` of this window when it is known, for the torch form.

Returns q and k `[B, T, Hk, Dk]`, v `[B, T, Hv, Dv]` in the dtype of qkv, g and beta fp32 `[B, T, Hv]`. q and k have
length one (eps 1e-6 inside the root) and q is scaled by Dk^-0.5; g = rate softplus(a + dt_bias), beta = sigmoid(b).
All in fp32, rounded once at the end. Rows t >= count are zero, whatever the input holds there.

A slot starts with a ring of zeros. Only the dummy slot may repeat, with count 0: such rows write nothing. Where the
window and its history fit the ring (T + K - 1 <= Lc), rows may be rejected afterwards by not advancing `length` over
them. Of longer windows only the last K - 1 rows are kept, so `length` has to advance by `count`.
"""
