"""The gated delta rule: the fp32 recurrence and its chunked (WY) form.

    S <- exp(g) S;  d = beta (v - S^T k);  S <- S + k d^T;  o = S^T q

Source: Gated Delta Networks (arXiv 2412.06464); q and k are L2-normalised and q scaled by Dk^-0.5 before.
A row with g = 0 and beta = 0 leaves the state untouched: that is how padding is expressed.
"""

import torch


def normalise_qk(qk: torch.Tensor, groups: int) -> tuple[torch.Tensor, torch.Tensor]:
    """L2-normalise q and k in fp32 (eps 1e-6 inside the root), scale q, repeat both to the value heads.

    qk `[B, T, 2 * Hk, Dk]`: the heads of q, then those of k. Value head h uses key head h // groups. Returns fp32
    q and k `[B, Hk * groups, T, Dk]`.
    """
    qk = qk.float()
    qk = qk * torch.rsqrt(qk.square().sum(-1, keepdim=True) + 1e-6)
    q, k = qk.transpose(1, 2).chunk(2, dim=1)
    q = q * qk.shape[-1] ** -0.5
    if groups > 1:
        q, k = q.repeat_interleave(groups, dim=1), k.repeat_interleave(groups, dim=1)
    return q, k


def delta_recurrent(q, k, v, g, beta, state):
    """One row after the other; the definition that every other form is tested against.

    q, k fp32 `[B, H, T, Dk]`; v fp32 `[B, H, T, Dv]`; g, beta fp32 `[B, H, T]`; state fp32 `[B, H, Dk, Dv]`.
    Returns `(o [B, H, T, Dv], state [B, H, Dk, Dv])`.
    """
    outputs = []
    for t in range(q.shape[2]):
        k_t = k[:, :, t, :, None]
        state = state * g[:, :, t, None, None].exp()
        d = (v[:, :, t] - (state * k_t).sum(-2)) * beta[:, :, t, None]
        state = state + k_t * d[:, :, None, :]
        outputs.append((state * q[:, :, t, :, None]).sum(-2))
    return torch.stack(outputs, dim=2), state


def delta_step_(q, k, v, g, beta, state):
    """One row, the state updated in place; `delta_recurrent` with T = 1 up to the order of sums.

    q, k fp32 `[B, H, Dk]`; v fp32 `[B, H, Dv]`; g, beta fp32 `[B, H]`; state fp32 `[B, H, Dk, Dv]`, contiguous.
    Returns o `[B, H, Dv]`. Since o = (exp(g) S)^T q + (k . q) d, the old state is read once for k and q.
    """
    decay = g.exp()[..., None]
    both = torch.stack([k, q], dim=2).flatten(0, 1) @ state.flatten(0, 1)
    both = both.unflatten(0, q.shape[:2]) * decay[..., None]
    d = (v - both[:, :, 0]) * beta[..., None]
    state.mul_(decay[..., None]).addcmul_(k[..., None], d[:, :, None, :])
    return both[:, :, 1] + (k * q).sum(-1, keepdim=True) * d


def delta_chunk(q, k, v, g, beta, state, chunk: int = 64):
    """The same result by chunks of rows: a unit-triangular solve inside a chunk, the state between chunks.

    Shapes as in `delta_recurrent`; `state` may be None (zeros). Differentiable.
    """
    outputs = []
    for start in range(0, q.shape[2], chunk):
        rows = slice(start, start + chunk)
        o, state = _chunk(q[:, :, rows], k[:, :, rows], v[:, :, rows], g[:, :, rows], beta[:, :, rows], state)
        outputs.append(o)
    return (outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)), state


def _chunk(q, k, v, g, beta, state):
    rows = q.shape[2]
    decay = g.cumsum(-1)
    future = torch.ones(rows, rows, dtype=torch.bool, device=q.device).triu(1)
    # Masked before exp: above the diagonal the difference is positive and may overflow.
    pair = (decay[..., :, None] - decay[..., None, :]).masked_fill(future, float("-inf")).exp()
    k_beta = k * beta[..., None]
    system = (k_beta @ k.transpose(-1, -2)) * pair
    target = v * beta[..., None]
    if state is not None:
        target = target - (k_beta * decay.exp()[..., None]) @ state
    new_v = torch.linalg.solve_triangular(system, target, upper=False, unitriangular=True)
    o = ((q @ k.transpose(-1, -2)) * pair) @ new_v
    if state is not None:
        o = o + (q * decay.exp()[..., None]) @ state
    last = decay[..., -1:]
    update = (k * (last - decay).exp()[..., None]).transpose(-1, -2) @ new_v
    return o, update if state is None else state * last.exp()[..., None] + update
