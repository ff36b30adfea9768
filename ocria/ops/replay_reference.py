"""The definition that every form of the replay step is tested against: loops over slots, heads at once, fp32."""

import torch


def recurrence_step(state, k, v, g, beta):
    """One row of the gated delta rule.

    state fp32 `[Hv, Dk, Dv]`; k `[Hv, Dk]`; v `[Hv, Dv]`; g, beta fp32 `[Hv]`. Returns the new state and the delta
    `[Hv, Dv]` that was written at k, both fp32. Source: Gated Delta Networks (arXiv 2412.06464).
    """
    k = k.float()[..., None]
    state = state * g.exp()[:, None, None]
    delta = (v.float() - (state * k).sum(-2)) * beta[:, None]
    return state + k * delta[:, None, :], delta


def replay_reference(
    q, k, v, g, beta, checkpoint, ring_k, ring_v, ring_u, ring_gates, slots, length, folded, count, flush
):
    """`ocria.ops.replay.replay`, row after row: fold, replay what is left of the history, then the window.

    Needs a ring of at least T rows, since the history is folded before the window is appended. With L = 1 and T = 1
    this is the recurrent step.
    """
    o = torch.zeros_like(v)
    last = ring_k.shape[1] - 1
    groups = v.shape[2] // k.shape[2]

    def per_value_head(heads):
        return heads.repeat_interleave(groups, dim=0)

    for b, (slot, rows) in enumerate(zip(slots.tolist(), count.tolist(), strict=True)):
        if rows == 0:
            continue
        start, end = int(folded[b]), int(length[b])
        state = checkpoint[slot].clone()
        for p in range(start, end):
            at = p & last
            keys = per_value_head(ring_k[slot, at])
            state, _ = recurrence_step(state, keys, ring_v[slot, at], *ring_gates[slot, at])
        if flush[b]:
            checkpoint[slot] = state
        for t in range(rows):
            state, delta = recurrence_step(state, per_value_head(k[b, t]), v[b, t], g[b, t], beta[b, t])
            o[b, t] = (state * per_value_head(q[b, t]).float()[..., None]).sum(-2)
            at = (end + t) & last
            ring_k[slot, at], ring_v[slot, at], ring_u[slot, at] = k[b, t], v[b, t], delta
            ring_gates[slot, at] = torch.stack([g[b, t], beta[b, t]])
    return o
