"""The Gated DeltaNet step that can be taken back: a checkpoint of the state and a ring of the inputs since.

A window of T rows is computed from the checkpoint and the P rows of history in the ring, without forming the state
between, and appended to the ring. Rejecting rows is not to advance the cursor. Before the ring overflows, its history
is folded into the checkpoint by replaying the raw rows, so that the checkpoint is, bit for bit, what the recurrence
makes of the same rows.
Source: ReplaySSM (github.com/Johnny-Liou/ReplaySSM) on Gated Delta Networks (arXiv 2412.06464).

With x a row of q or k, S the checkpoint, G_j the sum of the log-decays of history rows j+1..P and Gamma that of the
window's rows, restarting at 0:

    h(x) = e^{G_0} S^T x + sum_j e^{G_j} (k_j . x) u_j
    A_st = beta_s e^{Gamma_s - Gamma_t} (k_s . k_t), s > t;   (I + A) U = beta (v - e^{Gamma} h(k))
    o_s  = e^{Gamma_s} h(q_s) + sum_{t <= s} e^{Gamma_s - Gamma_t} (k_t . q_s) u_t
"""

from functools import cache

import torch

from ocria.errors import UsageError
from ocria.ops.register import register
from ocria.ops.replay_fold import fold, slot_rows


def check_ring(ring: int, rows: int, windows: int) -> None:
    """Raises UsageError unless a ring of `ring` rows is a power of two and holds `windows` windows of `rows`."""
    if ring < 1 or ring & (ring - 1) or ring < windows * rows:
        raise UsageError(
            f"a replay ring of {ring} rows cannot serve steps of {rows}",
            cure=f"Use a power of two of at least {windows * rows}.",
        )


def _torch_form(q, k, v, g, beta, checkpoint, ring_k, ring_v, ring_u, ring_gates, slots, length, folded, count, flush):
    batch, width, heads, dim = v.shape
    size = ring_k.shape[1]
    check_ring(size, width, 1)
    rows, ragged, whole, folds = _extent(size, width, length, folded, count, flush)
    if folds:
        flush = flush & (count > 0)
        fold(checkpoint, ring_k, ring_v, ring_gates, slots, folded, length, flush)
    if not whole:
        valid = torch.arange(width, device=slots.device) < count[:, None]
        q, k, v = (torch.where(valid[..., None, None], row, 0.0) for row in (q, k, v))
        g, beta = (torch.where(valid[..., None], gate, 0.0) for gate in (g, beta))

    x = torch.cat([k.transpose(1, 2), q.transpose(1, 2)], dim=2).float()
    if k.shape[2] < heads:
        x = x.repeat_interleave(heads // k.shape[2], dim=1)
    x = x.view(batch * heads, 2 * width, -1)
    hidden = torch.bmm(x, slot_rows(checkpoint, slots).view(batch * heads, -1, dim))
    at = ((length[:, None] + _offsets(rows, width, slots.device)) & (size - 1)) + (slots * size)[:, None]
    if rows:
        beyond = None
        if ragged:
            history = torch.where(flush | (count == 0), 0, length - folded)
            beyond = torch.arange(rows, device=slots.device) >= history[:, None]
        hidden = _add_history(hidden, x, ring_k, ring_u, ring_gates, at[:, :rows], beyond)
    o, u = _window(x, hidden, *(_by_head(row) for row in (v, g, beta)))
    o, u = (row.view(batch, heads, width, dim).transpose(1, 2) for row in (o, u))

    at = at[:, rows:].reshape(-1)
    gates = torch.stack([g, beta], dim=2)
    kept = None if whole else valid.flatten()
    for ring, new in ((ring_k, k), (ring_v, v), (ring_u, u), (ring_gates, gates)):
        _append(ring, at, new, kept)
    if not whole:
        o = torch.where(valid[..., None, None], o, 0.0)
    return o.to(v.dtype).contiguous()


def _extent(size, width, length, folded, count, flush):
    """Of the longest history in the ring: its rows; whether some are shorter; whether all windows are in full use; and
    whether any slot flushes. A graph, which cannot look, is made for the worst.
    """
    if torch.compiler.is_compiling():
        return size, True, False, True
    history, folds, used = [], False, count.tolist()
    for end, start, rows, flushes in zip(length.tolist(), folded.tolist(), used, flush.tolist(), strict=True):
        history.append(0 if flushes or not rows else end - start)
        folds = folds or (flushes and rows > 0)
    longest = max(history)
    return longest, min(history) < longest, min(used) == width, folds


def _by_head(rows):
    """`[B, T, Hv, ...]` as fp32 `[B * Hv, T, ...]`."""
    batch, width, heads = rows.shape[:3]
    return rows.transpose(1, 2).reshape(batch * heads, width, *rows.shape[3:]).float()


def _add_history(hidden, x, ring_k, ring_u, ring_gates, at, beyond):
    """h(x) from S^T x: `hidden [B * Hv, N, Dv]` and x `[B * Hv, N, Dk]`, fp32.

    at int64 `[B, P]`: slot * L + ring position of the history, newest first; beyond bool `[B, P]`: which of them are
    no history, or None. Newest first, every e^{G_j} comes from a sum of its own, not from a difference of sums.
    """
    heads, rows = ring_u.shape[2], at.shape[1]
    at = at[:, None]
    head = torch.arange(heads, device=at.device)[:, None]
    of_u = at * heads + head
    of_k = of_u if ring_k.shape[2] == heads else at * ring_k.shape[2] + head // (heads // ring_k.shape[2])
    k, u = (_gather(ring, index).view(-1, rows, ring.shape[3]) for ring, index in ((ring_k, of_k), (ring_u, of_u)))
    g = ring_gates.view(-1).index_select(0, (of_u + at * heads).view(-1)).view(-1, rows)
    if beyond is not None:
        beyond = beyond[:, None].expand(-1, heads, -1).reshape(-1, rows)
        g = g.masked_fill(beyond, 0.0)
    decay = torch.constant_pad_nd(g.cumsum(-1), (1, 0)).exp()[:, None]
    scores = torch.bmm(x, k.transpose(1, 2)).mul_(decay[..., :-1])
    if beyond is not None:
        # Outside the history the ring may hold anything, NaN too.
        scores, u = scores.masked_fill(beyond[:, None], 0.0), u.masked_fill(beyond[..., None], 0.0)
    return torch.baddbmm(hidden.mul_(decay[..., -1:]), scores, u)


def _gather(ring, index):
    """fp32 rows of one head, `ring [slots, L, H, D]`, index int64: (slot * L + position) * H + head."""
    return ring.view(-1, ring.shape[3]).index_select(0, index.view(-1)).float()


def _window(x, hidden, v, g, beta):
    """Outputs and deltas of the window, `[B * Hv, T, Dv]`, from x and h(x), which hold the rows of k, then of q."""
    width = v.shape[1]
    if width == 1:
        hidden = hidden.mul_(g.exp()[..., None])
        u = torch.sub(v, hidden[:, :1]).mul_(beta[..., None])
        return torch.addcmul(hidden[:, 1:], (x[:, :1] * x[:, 1:]).sum(-1, keepdim=True), u), u
    total = g.cumsum(1)
    blocks, future = _blocks(width, v.device)
    pair = torch.sub(total[:, :, None], total[:, None]).add_(future).exp_()
    gram = torch.bmm(x, x[:, :width].transpose(1, 2)).view(-1, 2, width, width).mul_(pair[:, None])
    hidden = hidden.view(-1, 2, width, v.shape[2]).mul_(total.exp()[:, None, :, None])
    inverse = _inverse(gram[:, 0] * beta[..., None], blocks)
    u = torch.bmm(inverse, torch.sub(v, hidden[:, 0]).mul_(beta[..., None]))
    return torch.baddbmm(hidden[:, 1], gram[:, 1], u), u


def _inverse(system, blocks):
    """Inverse of I + the part below the diagonal of `system [N, T, T]`, from blocks of 1, then 2, 4, ... rows.

    No power of the matrix is formed: those of like keys grow so that their sum cancels to rounding errors.
    """
    parts = system * blocks[:, None]
    inverse = torch.eye(system.shape[-1], device=system.device) - parts[0]
    for part in parts[1:]:
        inverse = torch.baddbmm(inverse, torch.bmm(inverse, part), inverse, alpha=-1)
    return inverse


def _constant(build):
    """The tensor that `build` makes of its arguments: in a graph anew, else once."""
    once = cache(build)

    def get(*arguments):
        return build(*arguments) if torch.compiler.is_compiling() else once(*arguments)

    return get


@_constant
def _blocks(width, device):
    """fp32 `[levels, T, T]`: 1 where level n joins blocks of 2^n rows; fp32 `[T, T]`: -inf above the diagonal."""
    row = torch.arange(width, device=device)
    levels = torch.arange((width - 1).bit_length(), device=device)[:, None, None]
    joined = (row[:, None] >> levels + 1 == row >> levels + 1) & ((row[:, None] >> levels) > (row >> levels))
    future = torch.zeros(width, width, device=device).masked_fill_(row[:, None] < row, float("-inf"))
    return joined.float(), future


@_constant
def _offsets(rows, width, device):
    """int64 `[rows + width]`: where the history lies, newest first, then the window; from `length`."""
    return torch.cat([torch.arange(-1, -rows - 1, -1, device=device), torch.arange(width, device=device)])


def _append(ring, at, new, kept):
    """Write `new [B, T, ...]` to the rows `at [B * T]` (slot * L + position) of `ring [slots, L, ...]`."""
    new = new.to(ring.dtype).reshape(len(at), -1)
    rows = ring.view(-1, new.shape[1])
    if kept is not None:
        if torch.compiler.is_compiling():
            # Rows without a place in the ring write back what they find; only the dummy slot is found twice.
            new = torch.where(kept[:, None], new, rows.index_select(0, at))
        else:
            at, new = at[kept], new[kept]
    rows.index_copy_(0, at, new)


def _launch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    checkpoint: torch.Tensor,
    ring_k: torch.Tensor,
    ring_v: torch.Tensor,
    ring_u: torch.Tensor,
    ring_gates: torch.Tensor,
    slots: torch.Tensor,
    length: torch.Tensor,
    folded: torch.Tensor,
    count: torch.Tensor,
    flush: torch.Tensor,
) -> torch.Tensor:
    from ocria.ops.kernels.replay import launch

    check_ring(ring_k.shape[1], q.shape[1], 2)
    if not all(tensor.is_contiguous() for tensor in (checkpoint, ring_k, ring_v, ring_u, ring_gates)):
        raise UsageError("checkpoint and rings have to be contiguous")
    return launch(q, k, v, g, beta, checkpoint, ring_k, ring_v, ring_u, ring_gates, slots, length, folded, count, flush)


def _fake(q, k, v, g, beta, checkpoint, ring_k, ring_v, ring_u, ring_gates, slots, length, folded, count, flush):
    return v.new_empty(v.shape)


replay = register(
    "replay",
    torch_form=_torch_form,
    launch=_launch,
    fake=_fake,
    mutates=("checkpoint", "ring_k", "ring_v", "ring_u", "ring_gates"),
)
"""`replay(q, k, v, g, beta, checkpoint, ring_k, ring_v, ring_u, ring_gates, slots, length, folded, count, flush)`.

q, k `[B, T, Hk, Dk]`: L2-normalised, q also scaled by Dk^-0.5; v `[B, T, Hv, Dv]`; value head h uses key head
h // (Hv // Hk). g, beta fp32 `[B, T, Hv]`: log-decay (at most 0) and write strength. Of all slots: checkpoint fp32
`[slots, Hv, Dk, Dv]`; ring_k `[slots, L, Hk, Dk]`; ring_v, ring_u `[slots, L, Hv, Dv]`: values, and the deltas that
were solved for; ring_gates fp32 `[slots, L, 2, Hv]`: g, beta. Of the batch, int64 `[B]`: slots; length: rows
committed, and so the index of the window's first; folded: rows in the checkpoint; count: rows of the window in use;
flush bool `[B]`: fold the history before the window, after which the caller sets folded to length. The row with index
p lies at position p & (L - 1).

Returns o `[B, T, Hv, Dv]` in v's dtype and appends the window's rows to the rings; the checkpoint changes only where
a row flushes. From row `count` on, inputs are ignored, outputs zero and nothing is written; with count 0 (padding)
the slot may be the dummy slot, and repeat. Otherwise slots are distinct. Needs length - folded + count <= L, or a
flush and L >= T in the torch form.

Inputs and rings are fp32 or bf16, all of one dtype; the arithmetic is fp32. Checkpoint and rings are contiguous.
Raises UsageError when L is no power of two or less than T (torch form) or 2 T (kernel, whose blocks read the history
while others append).
"""
