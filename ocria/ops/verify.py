"""Which drafts of a slot that samples are taken, decided by probabilities, and the token that comes after them.

Let p be the target's distribution behind a row, after temperature, top-k and top-p, and q the one that the draft behind
that row was drawn from. Three rules turn drafts into tokens; all are lossless, each in its way:

exact   Draw from p at every row; a draft holds when it equals the draw of the row before. Tokens are those of plain
        sampling with the same seed, whatever the drafts are. A draft made without the target's noise holds with
        probability p(draft), one drawn with that very noise more often. This is `ocria.ops.sample` and
        `ocria.ops.accept`; this file has the other two.
token   A draft is taken with probability min(1, p/q) of it. Behind the first that is not, a token is drawn from what
        of p is above q, max(p - q, 0) normalised; behind the last draft from p. Leviathan et al., arXiv 2211.17192.
block   Drafts are taken together: what one has to spare pays for the next. With r = min(1, r' p/q) along the drafts,
        r' being the one before and 1 at first, and Z the sum of max(r p - q, 0) over the tokens behind, as many drafts
        are taken as the last for which a uniform number is below Z / (Z + 1 - r), at the very last draft below r. Then
        a token from max(r p - q, 0), behind the last draft from p. No rule that sees the same takes more drafts in
        expectation. Sun et al., arXiv 2403.10444.

`token` and `block` give tokens of the same distribution as plain sampling, not the same tokens, and take a draft more
often. By all rules a slot at temperature 0 gets its likeliest tokens. Lossless they are under three conditions, which
are the caller's:

- q is what a draft was really drawn from, given the drafts before it; a draft that was the only one possible has all
  probability itself.
- The noise of the drafts is of a stream of its own, and for `block` drawn for this window alone
  (`ocria.ops.philox.window_keys`).
- How many drafts a window holds, and from which source, does not depend on what was drawn for it.

Sums of max(r p - q, 0) over a vocabulary need p at the tokens that q knows alone: they are r minus the sum of
min(r p, q) over those. Probabilities are quotients of fixed-point weights (`ocria.ops.fixed`) in fp64, so that torch
form and kernel decide alike; of the largest, what is below 2^-40 counts as nothing.
"""

import torch
import torch.nn.functional as F

from ocria.errors import EngineError
from ocria.ops.fixed import log_share, weight
from ocria.ops.philox import ACCEPT, RESIDUAL, gumbel_noise, uniform, window_keys
from ocria.ops.register import register
from ocria.ops.sample import kept_from

TOKEN, BLOCK = RULES = ("token", "block")
LEAST = 2.0**-30
"""Where less than this of p is above q they are the same up to rounding, and the token is drawn from p."""

Verified = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def verify_reference(
    logits: torch.Tensor,
    ids: torch.Tensor,
    given: torch.Tensor,
    count: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    seed: torch.Tensor,
    position: torch.Tensor,
    draft_ids: torch.Tensor,
    draft_probability: torch.Tensor,
    rule: str,
) -> Verified:
    """The definition, row by row over the whole vocabulary in fp64. Arguments and results as of `verify`."""
    chosen, probability, held = torch.full_like(ids, -1), torch.zeros(ids.shape), ids.clone()
    vocab, key = logits.shape[2], window_keys(position)
    for b in range(len(ids)):
        used = int(count[b])
        plain = logits[b, :used].double().softmax(-1)
        fine = logits[b, :used].isfinite().all(-1).tolist()
        if temperature[b] == 0 or used == 0:
            for row in range(used):
                chosen[b, row] = int(logits[b, row].argmax()) if fine[row] else 0
                probability[b, row] = plain[row, chosen[b, row]] if fine[row] else torch.nan
            continue
        anchor = min(max(int(given[b]), 1), used) - 1
        end = fine.index(False, anchor) if False in fine[anchor:] else used - 1
        y = logits[b].float() / temperature[b]

        def target(row, y=y, b=b):
            keep = y[row] >= kept_from(y[row][None], top_k[b, None], top_p[b, None])
            return y[row].double().masked_fill(~keep, -torch.inf).softmax(-1)

        def draft(row, b=b):
            q = torch.zeros(vocab, dtype=torch.float64)
            for token, share in zip(draft_ids[b, row].tolist(), draft_probability[b, row].tolist(), strict=True):
                if 0 <= token < vocab:
                    q[token] += share
            return q

        def rest(reach, row, target=target, draft=draft):
            return (reach * target(row) - draft(row)).clamp(min=0)

        reach, stop, at_stop, stopped = 1.0, anchor, 1.0, False
        for row in range(anchor, end):
            token, u = int(ids[b, row + 1]), float(uniform(seed[b], key[b, row], ACCEPT))
            known = 0 <= token < vocab and draft(row)[token] > 0
            ratio = float(target(row)[token] / draft(row)[token]) if known else 0.0
            if rule == TOKEN:
                stopped |= not u < ratio
                stop = stop if stopped else row + 1
                continue
            reach = min(1.0, reach * ratio)
            threshold = reach
            if row + 1 < end and reach < 1:
                spare = float(rest(reach, row + 1).sum())
                threshold = spare / (spare + 1 - reach)
            if u < threshold:
                stop, at_stop = row + 1, reach

        probability[b, anchor:stop] = plain[torch.arange(anchor, stop), ids[b, anchor + 1 : stop + 1]].float()
        chosen[b, anchor:stop] = ids[b, anchor + 1 : stop + 1]
        held[b, stop + 1 :] = -1
        if not fine[stop]:
            chosen[b, stop], probability[b, stop] = 0, torch.nan
            continue
        p = target(stop)
        shift = torch.zeros(vocab)
        if stop < end and (spare := rest(at_stop, stop)).sum() >= LEAST:
            shift = (spare / (at_stop * p)).log().float()
        noise = gumbel_noise(seed[b, None], key[b, stop, None], vocab, RESIDUAL)[0]
        chosen[b, stop] = int((y[stop] + shift + noise).masked_fill(p == 0, -torch.inf).argmax())
        probability[b, stop] = plain[stop, chosen[b, stop]]
    return chosen, probability, held


def _torch_form(
    logits: torch.Tensor,
    ids: torch.Tensor,
    given: torch.Tensor,
    count: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    seed: torch.Tensor,
    position: torch.Tensor,
    draft_ids: torch.Tensor,
    draft_probability: torch.Tensor,
    rule: str,
) -> Verified:
    rows, vocab = logits.shape[1:]
    row = torch.arange(rows, device=ids.device)
    used = row < count[:, None]
    x = logits.float()
    finite = x.isfinite().all(dim=-1)
    x = x.masked_fill(~(finite & used)[..., None], 0.0)
    sampled = (temperature > 0) & (count > 0)
    y = x / torch.where(sampled, temperature, 1.0)[:, None, None]
    each = (setting[:, None].expand(ids.shape).flatten() for setting in (top_k, top_p))
    floor = kept_from(y.flatten(0, 1), *each).view(ids.shape)
    mass = weight(y.amax(dim=-1, keepdim=True) - y).masked_fill(y < floor[..., None], 0)

    # Drafts belong to the row before them; the last row, behind which nothing is drafted, gets empty ones.
    draft_ids, q = F.pad(draft_ids, (0, 0, 0, 1), value=-1), F.pad(draft_probability, (0, 0, 0, 1)).double()
    following = F.pad(ids[:, 1:], (0, 1), value=-1)
    known = (draft_ids >= 0) & (draft_ids < vocab)
    places = draft_ids.clamp(0, vocab - 1)
    p = (mass.gather(2, places) * known).double() / mass.sum(dim=2, keepdim=True).double()

    anchor = torch.minimum(given.clamp(min=1), count) - 1
    broken = (row >= anchor[:, None]) & used & ~finite
    end = torch.minimum(count - 1, torch.where(broken, row, rows).amin(dim=1))
    key = window_keys(position)
    own, u = draft_ids == following[..., None], uniform(seed[:, None], key, ACCEPT)
    stop, reach = _stop(rule, p, q, own, u, anchor, end)

    here = torch.arange(len(ids), device=ids.device), stop.clamp(min=0)
    shift = _residual(p[here], q[here], reach, stop < end)
    noisy = y[here].scatter_add(1, places[here], shift) + gumbel_noise(seed, key[here], vocab, RESIDUAL)
    drawn = noisy.masked_fill(y[here] < floor[here][:, None], -torch.inf).argmax(dim=-1)

    taken = (row >= anchor[:, None]) & (row < stop[:, None])
    token = torch.where(taken, following, torch.where(row == stop[:, None], drawn[:, None], -1))
    token = torch.where(sampled[:, None], token, x.argmax(dim=-1)).masked_fill(~used, -1)
    share = x.softmax(dim=-1).gather(2, token.clamp(min=0)[..., None])[..., 0].masked_fill(token < 0, 0.0)
    failed = ~finite & (token >= 0)
    held = torch.where(sampled[:, None] & (row > stop[:, None]), -1, ids)
    return token.masked_fill(failed, 0), share.masked_fill(failed, torch.nan), held


def _stop(
    rule: str,
    p: torch.Tensor,
    q: torch.Tensor,
    own: torch.Tensor,
    u: torch.Tensor,
    anchor: torch.Tensor,
    end: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The row `[B]` up to which drafts are taken, and r there, fp64 `[B]`.

    p, q fp64 `[B, T, K]` of what the draft behind each row was drawn from; own bool: which of these it is; u fp64
    `[B, T]`; drafts lie behind the rows anchor .. end - 1.
    """
    row = torch.arange(u.shape[1], device=u.device)
    behind = (row >= anchor[:, None]) & (row < end[:, None])
    q_own = (q * own).sum(dim=2)
    ratio = torch.where(q_own > 0, (p * own).amax(dim=2) / torch.where(q_own > 0, q_own, 1.0), 0.0)
    if not is_block(rule):
        refused = behind & ~(u < ratio)
        return torch.minimum(end, torch.where(refused, row, len(row)).amin(dim=1)), torch.ones_like(u[:, 0])
    before = [torch.ones_like(u[:, 0])]
    for t in range(len(row) - 1):
        before.append(torch.where(behind[:, t], (before[t] * ratio[:, t]).clamp(max=1.0), before[t]))
    reach = torch.stack(before, dim=1)
    spare = _spare(reach, p, q)
    threshold = torch.where(reach < 1, spare / (spare + 1 - reach), 1.0)
    threshold = torch.where(row == end[:, None], reach, threshold)
    # The number that decides on a draft is that of the row before it.
    takes = behind & (u < F.pad(threshold[:, 1:], (0, 1)))
    stop = torch.where(takes, row + 1, anchor[:, None]).amax(dim=1)
    return stop, reach.gather(1, stop.clamp(min=0)[:, None])[:, 0]


def _spare(reach: torch.Tensor, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """The sum of max(r p - q, 0) over the vocabulary: r `[...]`; p, q `[..., K]` where q is not 0."""
    return (reach - torch.minimum(reach[..., None] * p, q).sum(dim=-1)).clamp(min=0.0)


def _residual(p: torch.Tensor, q: torch.Tensor, reach: torch.Tensor, refused: torch.Tensor) -> torch.Tensor:
    """ln((r p - q) / r p), fp32 `[B, K]`: what is added to tempered logits of tokens that q knows."""
    cut = (refused & (_spare(reach, p, q) >= LEAST))[:, None] & (p > 0) & (q > 0)
    rest = 1 - q / torch.where(cut, reach[:, None] * p, 1.0)
    word = (rest * 2.0**32).long().clamp(1, 2**32 - 1)
    return torch.where(cut, log_share(word).masked_fill(rest <= 0, -torch.inf), 0.0)


def is_block(rule: str) -> bool:
    """Whether a rule is `block`, not `token`. Raises EngineError for any other."""
    if rule not in RULES:
        raise EngineError(f"verify: {rule!r} is no rule", cure=f"Use one of {', '.join(RULES)}.")
    return rule == BLOCK


def _launch(
    logits: torch.Tensor,
    ids: torch.Tensor,
    given: torch.Tensor,
    count: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    seed: torch.Tensor,
    position: torch.Tensor,
    draft_ids: torch.Tensor,
    draft_probability: torch.Tensor,
    rule: str,
) -> Verified:
    from ocria.ops.kernels.verify import launch

    settings = (temperature, top_k, top_p, seed, position)
    return launch(logits, ids, given, count, settings, draft_ids, draft_probability, is_block(rule))


def _fake(logits: torch.Tensor, ids: torch.Tensor, *_) -> Verified:
    return torch.empty_like(ids), ids.new_empty(ids.shape, dtype=torch.float32), torch.empty_like(ids)


verify = register("verify", torch_form=_torch_form, launch=_launch, fake=_fake)
"""`verify(logits, ids, given, count, temperature, top_k, top_p, seed, position, draft_ids, draft_probability, rule) ->
(chosen, probability, held)`.

Of the window, as `metadata` gave it: logits `[B, T, V]`, fp32 or bf16, behind each row; ids int64 `[B, T]` the tokens
fed, drafts in the rows given .. count - 1; given, count int64 `[B]`, 0 for a padded slot; position int64 `[B, T]` of
the rows, below 2^32. Settings of the slots `[B]`, as of `sample`: temperature, top_p fp32, top_k, seed int64.
draft_ids int64, fp32 draft_probability `[B, T - 1, K]`: what the draft in row i + 1 was drawn from is in row i. No
token has probability twice; with probability 0 ids may be anything. A draft that is no token, or has no probability, is
not taken. rule: `token` or `block`; EngineError for another.

chosen, held int64, probability fp32 `[B, T]`, for `accept(chosen, probability, held, ...)`, which then commits the
drafts that are taken and emits them and the token drawn behind them. held: ids, and -1 from the first draft on that is
not taken. chosen: the draft behind the row where it is taken, what was drawn behind the last such, -1 elsewhere.
probability: the softmax of the unfiltered logits, at temperature 1, of chosen; 0 where chosen is -1.

A slot at temperature 0: chosen is the likeliest of every row, held is ids. Rows from count on choose -1. Where a row's
logits are not all finite, no draft behind it is taken; chosen is 0 there and its probability NaN, if it comes to that.
The kernel takes K up to 64.
"""
